#include "ui/studio/profile_section.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFrame>
#include <QHeaderView>
#include <QPushButton>
#include <QTreeWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "app/store/conversation_store.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/toast.h"
#include "ui/studio/section_card.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

using app::toQString;

namespace {

constexpr int kFileRole = Qt::UserRole;
constexpr int kMostRows = 400;

/// Columns from `firstNumber` to `lastNumber` hold numbers: aligned to the right, their heads too.
QTreeWidget* makeTree(const QStringList& heads, int firstNumber, int lastNumber,
                      const QString& name, QWidget* parent) {
  auto* tree = new QTreeWidget(parent);
  tree->setHeaderLabels(heads);
  tree->setObjectName(name);
  tree->setRootIsDecorated(false);
  tree->setUniformRowHeights(true);
  tree->setAllColumnsShowFocus(true);
  tree->setFrameShape(QFrame::NoFrame);
  tree->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  tree->header()->setStretchLastSection(false);
  tree->header()->setSectionsMovable(false);
  tree->header()->setSectionResizeMode(QHeaderView::ResizeToContents);
  tree->header()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  for (int i = firstNumber; i <= lastNumber; ++i) {
    tree->headerItem()->setTextAlignment(i, Qt::AlignRight | Qt::AlignVCenter);
  }
  return tree;
}

QString sourcesText(const engine::CalibrationProfile& profile) {
  QStringList names;
  for (const auto& source : profile.sources) {
    QString name = toQString(source);
    if (name.startsWith(QLatin1String("bundled: "))) name = name.mid(9);
    names << oneLine(name, 28);
  }
  return names.join(QStringLiteral(", "));
}

QPushButton* makeButton(const QString& text, const char* kind, const char* name, QWidget* parent) {
  auto* button = new QPushButton(text, parent);
  if (*kind) button->setProperty("kind", kind);
  button->setObjectName(name);
  return button;
}

}  // namespace

ProfileSection::ProfileSection(StudioState& state, QWidget* parent)
    : QWidget(parent), m_state(state) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(16);
  column->addWidget(makeList());
  column->addWidget(makeReport(), 1);
  connect(&m_state, &StudioState::profilesChanged, this, [this] {
    fillList();
    fillOthers();
  });
  connect(&m_state, &StudioState::profileChanged, this, [this] {
    fillList();
    fillOthers();
  });
  connect(&m_state, &StudioState::modelChanged, this, &ProfileSection::fillList);
  connect(&m_state, &StudioState::readinessChanged, this, &ProfileSection::updateButtons);
  fillList();
  fillOthers();
}

QWidget* ProfileSection::makeList() {
  const Theme& theme = Theme::instance();
  auto* column = makeCard(this);
  QWidget* card = column->parentWidget();
  column->addWidget(new PlainLabel(tr("Profiles of this model"), LabelStyle::kHeading, card));
  m_list = makeTree({tr("Name"), tr("Read"), tr("Tokens"), tr("Scale by"), tr("Made")}, 2, 2,
                    "profileList", card);
  m_list->setAccessibleName(tr("Calibration profiles"));
  m_list->header()->setSectionResizeMode(1, QHeaderView::Stretch);
  m_list->setFixedHeight(theme.px(150));
  column->addWidget(m_list);
  m_empty = new PlainLabel(LabelStyle::kMuted, card);
  m_empty->setObjectName("profilesEmpty");
  m_empty->setWordWrap(true);
  column->addWidget(m_empty);
  m_problem = new PlainLabel(LabelStyle::kFault, card);
  m_problem->setWordWrap(true);
  m_problem->hide();
  column->addWidget(m_problem);
  auto* row = new QHBoxLayout;
  row->setSpacing(8);
  m_calibrate = makeButton(tr("Calibrate…"), "", "calibrateHere", card);
  m_import = makeButton(tr("Add from a file…"), "quiet", "importProfile", card);
  m_import->setToolTip(tr("A profile that the command line program wrote"));
  m_use = makeButton(tr("Use its static scales"), "", "useStatic", card);
  m_use->setToolTip(tr("INT8 weights and activations, whose scales come from this profile"));
  m_delete = makeButton(tr("Delete"), "quiet", "deleteProfile", card);
  row->addWidget(m_calibrate);
  row->addWidget(m_use);
  row->addStretch(1);
  row->addWidget(m_import);
  row->addWidget(m_delete);
  column->addLayout(row);
  connect(m_calibrate, &QPushButton::clicked, this, &ProfileSection::calibrateWanted);
  connect(m_delete, &QPushButton::clicked, this, &ProfileSection::removeChosen);
  connect(m_import, &QPushButton::clicked, this, [this] {
    const QString file = QFileDialog::getOpenFileName(this, tr("Calibration profile"), {},
                                                      tr("Profiles (*.json);;All files (*)"));
    if (!file.isEmpty()) importFile(file);
  });
  connect(m_use, &QPushButton::clicked, this, [this] {
    engine::WeightPrecision precision = m_state.config().precision;
    precision.weights = engine::WeightMode::kInt8;
    precision.activations = engine::ActivationMode::kInt8;
    precision.activationScales = engine::ActivationScales::kStatic;
    precision.calibration = m_state.profile();
    m_state.use(precision);
    Toast::of(this)->showMessage(tr("The next turn runs with static scales of “%1”.")
                                     .arg(oneLine(toQString(m_state.profile()->name), 40)));
  });
  connect(m_list, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    if (m_filling || item == nullptr) return;
    const QString file = item->data(0, kFileRole).toString();
    for (const auto& entry : m_state.profiles()) {
      if (entry.file != file) continue;
      const QString problem = entry.profile ? m_state.problemOf(*entry.profile) : entry.problem;
      m_problem->setText(problem);
      m_problem->setVisible(!problem.isEmpty());
      if (problem.isEmpty()) m_state.setProfile(entry.profile);
    }
    updateButtons();
  });
  return card;
}

QWidget* ProfileSection::makeReport() {
  auto* column = makeCard(this);
  QWidget* card = column->parentWidget();
  column->addWidget(
      new PlainLabel(tr("Do its scales fit another text?"), LabelStyle::kHeading, card));
  auto* row = new QHBoxLayout;
  row->setSpacing(10);
  m_againstName = new PlainLabel(tr("Compare with"), LabelStyle::kBody, card);
  m_others = new QComboBox(card);
  m_others->setObjectName("compareWith");
  m_others->setAccessibleName(tr("Profile or text to compare with"));
  m_others->setMinimumContentsLength(26);
  m_compare = makeButton(tr("Compare"), "", "compareProfiles", card);
  row->addWidget(m_againstName);
  row->addWidget(m_others);
  row->addWidget(m_compare);
  row->addStretch(1);
  column->addLayout(row);
  m_summary = new PlainLabel(LabelStyle::kBody, card);
  m_summary->setObjectName("mismatchSummary");
  m_summary->setWordWrap(true);
  column->addWidget(m_summary);
  m_report = makeTree({tr("Input"), tr("Scale ends at"), tr("Largest there"), tr("Clipped"),
                       tr("Unused range"), tr("Scales apart")},
                      1, 5, "mismatchReport", card);
  m_report->setAccessibleName(tr("Mismatch by input"));
  m_report->setSelectionMode(QAbstractItemView::SingleSelection);
  m_report->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  m_report->setMinimumHeight(Theme::instance().px(170));
  column->addWidget(m_report, 1);
  column->addStretch(0);
  connect(m_compare, &QPushButton::clicked, this, &ProfileSection::compare);
  connect(m_report, &QTreeWidget::itemActivated, this,
          [this](QTreeWidgetItem* item) { m_state.setSite(item->data(0, Qt::UserRole).toInt()); });
  connect(m_report, &QTreeWidget::currentItemChanged, this, [this](QTreeWidgetItem* item) {
    if (item && m_report->hasFocus()) m_state.setSite(item->data(0, Qt::UserRole).toInt());
  });
  return card;
}

void ProfileSection::fillList() {
  m_filling = true;
  const QString chosenBefore =
      m_list->currentItem() ? m_list->currentItem()->data(0, kFileRole).toString() : QString();
  m_list->clear();
  for (const auto& entry : m_state.profiles()) {
    auto* item = new QTreeWidgetItem(m_list);
    item->setData(0, kFileRole, entry.file);
    if (entry.profile) {
      const auto& profile = *entry.profile;
      item->setText(0, oneLine(toQString(profile.name), 44));
      item->setText(1, sourcesText(profile));
      item->setText(2, countText(profile.tokens));
      item->setText(3, methodText(profile.method, profile.percentile));
      item->setText(4, dateText(profile.created));
      item->setTextAlignment(2, Qt::AlignRight | Qt::AlignVCenter);
      if (m_state.profile() && profile.id == m_state.profile()->id) m_list->setCurrentItem(item);
      if (!m_state.problemOf(profile).isEmpty()) item->setText(1, tr("for another model or mode"));
    } else {
      item->setText(0, oneLine(entry.file.section(QLatin1Char('/'), -1), 44));
      item->setText(1, oneLine(entry.problem, 80));
      item->setToolTip(1, literalToolTip(entry.problem));
      if (entry.file == chosenBefore) m_list->setCurrentItem(item);
    }
  }
  const bool none = m_list->topLevelItemCount() == 0;
  m_list->setVisible(!none);
  m_empty->setVisible(none);
  m_empty->setText(
      m_state.model()
          ? tr("None yet. A profile holds how large the inputs of each matrix get on a text: "
               "static "
               "scales, smoothing and outlier columns are derived from it. Calibrating takes "
               "about half a minute for a small model; the chat goes on meanwhile.")
          : tr("Open a model: its calibration profiles are listed here, and can be made, compared "
               "and deleted."));
  m_problem->hide();
  m_filling = false;
  updateButtons();
}

void ProfileSection::fillOthers() {
  const QString before = m_others->currentText();
  m_others->clear();
  m_otherProfiles.clear();
  m_otherTexts = bundledSources();
  const auto chats = conversationSources(m_state.chats());
  m_otherTexts.insert(m_otherTexts.end(), chats.begin(), chats.end());
  for (const auto& entry : m_state.profiles()) {
    if (!entry.profile || entry.profile == m_state.profile()) continue;
    if (!m_state.problemOf(*entry.profile).isEmpty()) continue;
    m_otherProfiles.push_back(entry.profile);
    m_others->addItem(tr("Profile: %1").arg(oneLine(toQString(entry.profile->name), 40)));
  }
  for (const TextSource& source : m_otherTexts) {
    m_others->addItem(tr("Read: %1").arg(oneLine(source.title, 40)));
  }
  m_others->setCurrentIndex(std::max(0, m_others->findText(before)));
  clearReport(m_state.profile()
                  ? tr("Nothing compared yet. A profile that was made on other texts "
                       "than the chat's clips its values, or wastes range on what "
                       "never comes: compare it with a profile or a text.")
                  : tr("With a profile, the report says which inputs its scales would "
                       "clip on another text, and how much of their range stays "
                       "unused."));
}

void ProfileSection::clearReport(const QString& text) {
  m_report->clear();
  m_report->hide();
  m_summary->setStyle(LabelStyle::kMuted);
  m_summary->setText(text);
  updateButtons();
}

void ProfileSection::updateButtons() {
  const bool ready = m_state.canStart();
  const auto& profile = m_state.profile();
  m_calibrate->setEnabled(ready);
  m_import->setEnabled(m_state.model() != nullptr);
  m_delete->setEnabled(m_list->currentItem() != nullptr);
  m_compare->setEnabled(profile && m_others->count() > 0 &&
                        (ready || m_others->currentIndex() < int(m_otherProfiles.size())));
  m_others->setEnabled(profile != nullptr);
  const auto& running = m_state.config().precision;
  const bool inForce = profile && running.calibration && running.calibration->id == profile->id &&
                       running.activations == engine::ActivationMode::kInt8 &&
                       running.activationScales == engine::ActivationScales::kStatic;
  m_use->setEnabled(profile && m_state.model() && !inForce);
  m_use->setText(inForce ? tr("Its static scales are in force") : tr("Use its static scales"));
}

void ProfileSection::compareWithAnother() {
  if (!m_otherProfiles.empty()) {
    m_others->setCurrentIndex(0);
    compare();
  }
}

void ProfileSection::compare() {
  const int index = m_others->currentIndex();
  if (index < 0 || !m_state.profile()) return;
  if (index < int(m_otherProfiles.size())) {
    const auto& other = m_otherProfiles[std::size_t(index)];
    return showAgainst(other, toQString(other->name));
  }
  const TextSource& source = m_otherTexts[std::size_t(index) - m_otherProfiles.size()];
  auto text = readSource(source, m_state.chats());
  if (!text) {
    emit faultHappened(sentenceText(text.error().message));
    return;
  }
  app::studio::CalibrationJob job;
  job.model = m_state.model();
  job.config = m_state.config();
  job.mostTokens = 4096;
  job.options.name = app::toUtf8(source.title);
  job.options.method = m_state.profile()->method;
  job.options.percentile = m_state.profile()->percentile;
  job.texts.push_back(std::move(*text));
  m_state.begin(StudioState::Job::kCompareText);
  m_state.session().calibrate(std::move(job));
}

void ProfileSection::showAgainst(const engine::CalibrationPtr& other, const QString& name) {
  if (m_state.profile() && other) showReport(*other, name);
}

void ProfileSection::showReport(const engine::CalibrationProfile& other, const QString& name) {
  const auto sites = compareProfiles(*m_state.profile(), other);
  m_report->clear();
  int clips = 0;
  double unused = 0;
  const int nLayers = m_state.profile()->nLayers();
  for (const SiteMismatch& site : sites) {
    clips += site.clippedShare > 0 ? 1 : 0;
    unused += site.unusedRange / double(sites.size());
    if (m_report->topLevelItemCount() == kMostRows) continue;
    auto* item = new QTreeWidgetItem(m_report);
    item->setData(0, Qt::UserRole, site.site);
    item->setText(0, siteWords(site.site, nLayers));
    item->setText(1, magnitudeText(double(site.limit)));
    item->setText(2, magnitudeText(double(site.largest)));
    item->setText(3, tinyShareText(site.clippedShare));
    item->setText(4, tinyShareText(site.unusedRange));
    item->setText(5, tr("%1 ×").arg(site.ratio(), 0, 'f', 2));
    for (int i = 1; i < 6; ++i) item->setTextAlignment(i, Qt::AlignRight | Qt::AlignVCenter);
  }
  m_report->setVisible(!sites.empty());
  m_summary->setStyle(LabelStyle::kBody);
  if (sites.empty()) return m_summary->setText(tr("They are of different models."));
  const QString own = oneLine(toQString(m_state.profile()->name), 40);
  const QString there = oneLine(name, 40);
  const SiteMismatch& worst = sites.front();
  if (clips == 0) {
    m_summary->setText(tr("Scales of “%1” clip nothing of “%2”; on average %3 of their range is "
                          "unused there.")
                           .arg(own, there, tinyShareText(unused)));
  } else {
    m_summary->setText(
        tr("Scales of “%1” clip values of “%2” at %3 of %4 inputs. Most at %5: %6 of its values, "
           "the largest %7 times what the scale holds. On average %8 of the range is unused. "
           "Calibrate on both texts, or use dynamic scales.")
            .arg(own, there)
            .arg(clips)
            .arg(sites.size())
            .arg(siteWords(worst.site, nLayers), tinyShareText(worst.clippedShare),
                 magnitudeText(double(worst.largest / worst.limit)), tinyShareText(unused)));
  }
}

QString ProfileSection::summary() const {
  return m_summary->text();
}

void ProfileSection::removeChosen() {
  const auto* item = m_list->currentItem();
  if (item == nullptr) return;
  const QString file = item->data(0, kFileRole).toString();
  const QString name = item->text(0);
  engine::CalibrationPtr kept;
  for (const auto& entry : m_state.profiles()) {
    if (entry.file == file) kept = entry.profile;
  }
  if (const auto removed = m_state.removeProfile(file); !removed) {
    emit faultHappened(sentenceText(removed.error().message));
    return;
  }
  if (!kept) {
    Toast::of(this)->showMessage(tr("Deleted %1").arg(name));
    return;
  }
  Toast::of(this)->showMessage(tr("Deleted “%1”").arg(name), tr("Undo"), [this, kept] {
    if (const auto saved = m_state.saveProfile(*kept); !saved) {
      emit faultHappened(sentenceText(saved.error().message));
    }
  });
}

void ProfileSection::importFile(const QString& file) {
  const auto profile = engine::loadProfile(app::toPath(file));
  if (!profile) {
    emit faultHappened(sentenceText(profile.error().message));
    return;
  }
  if (const QString problem = m_state.problemOf(**profile); !problem.isEmpty()) {
    emit faultHappened(problem);
    return;
  }
  if (const auto saved = m_state.saveProfile(**profile); !saved) {
    emit faultHappened(sentenceText(saved.error().message));
  }
}

void ProfileSection::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  updateButtons();
}

}  // namespace vitrine::ui

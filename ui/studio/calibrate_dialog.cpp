#include "ui/studio/calibrate_dialog.h"

#include <QCheckBox>
#include <QDialogButtonBox>
#include <QDoubleSpinBox>
#include <QFileDialog>
#include <QGridLayout>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include "app/store/conversation_store.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kListHeight = 96;

QListWidgetItem* addCheckable(QListWidget* list, const TextSource& source, bool checked) {
  auto* item = new QListWidgetItem(oneLine(source.title, 60), list);
  item->setData(Qt::UserRole, source.id);
  item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable | Qt::ItemIsUserCheckable);
  item->setCheckState(checked ? Qt::Checked : Qt::Unchecked);
  return item;
}

}  // namespace

CalibrateDialog::CalibrateDialog(StudioState& state, QWidget* parent)
    : QDialog(parent), m_state(state) {
  const Theme& theme = Theme::instance();
  setWindowTitle(tr("Calibrate"));
  setMinimumWidth(theme.px(560));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(22, 18, 22, 18);
  column->setSpacing(14);
  auto* intro = new PlainLabel(
      tr("The model reads these texts with FP16 activations, beside the chat; how large each input "
         "of its matrices gets is noted. Choose what the model will be used for: scales fit the "
         "texts that they come from."),
      LabelStyle::kMuted, this);
  intro->setWordWrap(true);
  column->addWidget(intro);
  column->addWidget(makeTexts());
  column->addWidget(makeMethod());
  m_fault = new PlainLabel(LabelStyle::kFault, this);
  m_fault->setObjectName("calibrateFault");
  m_fault->setWordWrap(true);
  m_fault->hide();
  column->addWidget(m_fault);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel, this);
  m_start = buttons->addButton(tr("Calibrate"), QDialogButtonBox::AcceptRole);
  m_start->setProperty("kind", "primary");
  m_start->setObjectName("startCalibration");
  m_start->setDefault(true);
  connect(buttons, &QDialogButtonBox::accepted, this, &CalibrateDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  column->addWidget(buttons);
  update();
}

QWidget* CalibrateDialog::makeTexts() {
  const Theme& theme = Theme::instance();
  auto* place = new QWidget(this);
  auto* column = new QVBoxLayout(place);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  column->addWidget(
      new PlainLabel(tr("Texts that come with the program"), LabelStyle::kHeading, place));
  auto* grid = new QGridLayout;  // as wide as the lists below
  grid->setHorizontalSpacing(16);
  grid->setVerticalSpacing(6);
  for (const TextSource& source : bundledSources()) {
    auto* box = new QCheckBox(literalAction(source.title), place);
    box->setObjectName("calibrate " + source.id);
    box->setProperty("source", source.id);
    box->setChecked(source.id == QLatin1String("english") || source.id == QLatin1String("chat"));
    connect(box, &QCheckBox::toggled, this, &CalibrateDialog::update);
    const int index = int(m_bundled.size());
    grid->addWidget(box, index / 2, index % 2);
    m_bundled << box;
  }
  grid->setColumnStretch(0, 1);
  grid->setColumnStretch(1, 1);
  column->addLayout(grid);

  auto* lists = new QHBoxLayout;
  lists->setSpacing(16);
  const auto addList = [&](const QString& title, const QString& name) {
    auto* side = new QVBoxLayout;
    side->setSpacing(6);
    side->addWidget(new PlainLabel(title, LabelStyle::kHeading, place));
    auto* list = new QListWidget(place);
    list->setObjectName(name);
    list->setProperty("kind", "checks");
    list->setAccessibleName(title);
    list->setFixedHeight(theme.px(kListHeight));
    list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    side->addWidget(list);
    lists->addLayout(side, 1);
    connect(list, &QListWidget::itemChanged, this, &CalibrateDialog::update);
    return std::pair(list, side);
  };
  const auto [chats, chatSide] = addList(tr("Your conversations"), "calibrateChats");
  m_chats = chats;
  for (const TextSource& source : conversationSources(m_state.chats())) {
    addCheckable(m_chats, source, false);
  }
  if (m_chats->count() == 0) {
    m_chats->addItem(tr("none yet"));
    m_chats->setEnabled(false);
  }
  const auto [files, fileSide] = addList(tr("Files"), "calibrateFiles");
  m_files = files;
  auto* add = new QPushButton(tr("Add a file…"), place);
  add->setProperty("kind", "quiet");
  add->setAutoDefault(false);
  connect(add, &QPushButton::clicked, this, [this] {
    const QStringList chosen = QFileDialog::getOpenFileNames(
        this, tr("Texts to calibrate on"), {}, tr("Texts (*.txt *.md);;All files (*)"));
    for (const QString& file : chosen) addFile(file);
  });
  fileSide->addWidget(add, 0, Qt::AlignLeft);
  chatSide->addStretch(1);
  column->addLayout(lists);
  return place;
}

QWidget* CalibrateDialog::makeMethod() {
  const Theme& theme = Theme::instance();
  auto* place = new QWidget(this);
  auto* column = new QVBoxLayout(place);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(10);
  auto* row = new QHBoxLayout;
  row->setSpacing(10);
  m_method = new SegmentedSwitch(
      tr("Scale by"),
      {{tr("Maximum"), tr("Nothing seen is clipped; one large value makes the step large")},
       {tr("Percentile"), tr("Rare large values are clipped")},
       {tr("Least error"), tr("The least squared error of rounding and clipping together")}},
      place);
  m_method->setObjectName("calibrateMethod");
  m_method->setCurrent(0);
  connect(m_method, &SegmentedSwitch::chosen, this, [this](int index) {
    m_method->setCurrent(index);
    update();
  });
  row->addWidget(m_method);
  m_percentile = new QDoubleSpinBox(place);
  m_percentile->setRange(90, 100);
  m_percentile->setDecimals(3);
  m_percentile->setSingleStep(0.01);
  m_percentile->setValue(99.99);
  m_percentile->setSuffix(tr(" %"));
  m_percentile->setAccessibleName(tr("Percentile"));
  m_percentileName = new PlainLabel(tr("of the values are kept"), LabelStyle::kMuted, place);
  row->addWidget(m_percentile);
  row->addWidget(m_percentileName);
  row->addStretch(1);
  column->addLayout(row);
  m_methodText = new PlainLabel(LabelStyle::kMuted, place);
  m_methodText->setWordWrap(true);
  column->addWidget(m_methodText);

  row = new QHBoxLayout;
  row->setSpacing(10);
  row->addWidget(new PlainLabel(tr("At most"), LabelStyle::kBody, place));
  m_tokens = new QSpinBox(place);
  m_tokens->setObjectName("calibrateTokens");
  m_tokens->setRange(64, 65536);
  m_tokens->setSingleStep(512);
  m_tokens->setValue(4096);
  m_tokens->setAccessibleName(tr("Most tokens of each text"));
  row->addWidget(m_tokens);
  row->addWidget(new PlainLabel(tr("tokens of each text"), LabelStyle::kBody, place));
  row->addSpacing(16);
  row->addWidget(new PlainLabel(tr("Name"), LabelStyle::kBody, place));
  m_name = new QLineEdit(place);
  m_name->setObjectName("calibrateName");
  m_name->setAccessibleName(tr("Name of the profile"));
  m_name->setMaxLength(80);
  m_name->setMinimumWidth(theme.px(150));
  row->addWidget(m_name, 1);
  column->addLayout(row);
  return place;
}

void CalibrateDialog::addFile(const QString& file) {
  addCheckable(m_files, fileSource(file), true);
  update();
}

void CalibrateDialog::setName(const QString& name) {
  m_name->setText(name);
}

std::vector<TextSource> CalibrateDialog::chosen() const {
  std::vector<TextSource> sources;
  const auto bundled = bundledSources();
  for (int i = 0; i < m_bundled.size(); ++i) {
    if (m_bundled[i]->isChecked()) sources.push_back(bundled[std::size_t(i)]);
  }
  for (int i = 0; i < m_files->count(); ++i) {
    const QListWidgetItem* item = m_files->item(i);
    if (item->checkState() == Qt::Checked) {
      sources.push_back(fileSource(item->data(Qt::UserRole).toString()));
    }
  }
  for (const TextSource& source : conversationSources(m_state.chats())) {
    for (int i = 0; i < m_chats->count(); ++i) {
      const QListWidgetItem* item = m_chats->item(i);
      if (item->data(Qt::UserRole) == source.id && item->checkState() == Qt::Checked) {
        sources.push_back(source);
      }
    }
  }
  return sources;
}

void CalibrateDialog::update() {
  if (m_start == nullptr) return;  // the parts are being made
  const auto sources = chosen();
  m_start->setEnabled(!sources.empty());
  QStringList titles;
  for (const TextSource& source : sources) titles << oneLine(source.title, 24);
  m_name->setPlaceholderText(titles.isEmpty()    ? tr("of the texts")
                             : titles.size() > 3 ? tr("%1 texts").arg(titles.size())
                                                 : titles.join(QStringLiteral(" + ")));
  const int method = m_method->current();
  m_percentile->setVisible(method == 1);
  m_percentileName->setVisible(method == 1);
  m_methodText->setText(
      method == 0   ? tr("Nothing that was seen is clipped, but a single large value makes the "
                           "steps of all the others large.")
      : method == 1 ? tr("Finer steps for nearly all values; the rare largest ones are clipped.")
                    : tr("Weighs rounding against clipping: the scale with the least squared error "
                         "of both together."));
}

void CalibrateDialog::accept() {
  m_fault->hide();
  app::studio::CalibrationJob job;
  job.model = m_state.model();
  job.config = m_state.config();
  job.mostTokens = m_tokens->value();
  job.options.method = engine::ScaleMethod(m_method->current());
  job.options.percentile = m_percentile->value();
  const QString name = m_name->text().trimmed();
  job.options.name = app::toUtf8(name.isEmpty() ? m_name->placeholderText() : name);
  for (const TextSource& source : chosen()) {
    auto text = readSource(source, m_state.chats());
    if (!text) {
      m_fault->setText(sentenceText(text.error().message));
      m_fault->show();
      return;
    }
    job.texts.push_back(std::move(*text));
  }
  m_job = std::move(job);
  QDialog::accept();
}

}  // namespace vitrine::ui

#include "ui/studio/loss_section.h"

#include <QCheckBox>
#include <QFrame>
#include <QGridLayout>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include "app/chat/engine_client.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/toast.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/studio_words.h"
#include "ui/studio/text_choice.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kFigures = 5;

}  // namespace

LossSection::LossSection(StudioState& state, QWidget* parent) : QWidget(parent), m_state(state) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(12);
  auto* row = new QHBoxLayout;
  row->setSpacing(10);
  row->addWidget(new PlainLabel(tr("On"), LabelStyle::kMuted, this));
  m_text = new TextPicker(m_state.chats(), this);
  m_text->setObjectName("lossText");
  row->addWidget(m_text);
  m_tokens = new QSpinBox(this);
  m_tokens->setObjectName("lossTokens");
  m_tokens->setRange(64, 65536);
  m_tokens->setSingleStep(512);
  m_tokens->setValue(2048);
  m_tokens->setSuffix(tr(" tokens"));
  m_tokens->setAccessibleName(tr("Most tokens of the text"));
  row->addWidget(m_tokens);
  row->addStretch(1);
  m_start = new QPushButton(tr("Measure loss"), this);
  m_start->setProperty("kind", "primary");
  m_start->setObjectName("startLoss");
  row->addWidget(m_start);
  column->addLayout(row);
  m_summary = new PlainLabel(LabelStyle::kMuted, this);
  m_summary->setObjectName("lossSummary");
  m_summary->setWordWrap(true);
  column->addWidget(m_summary);
  m_tablePlace = new QWidget(this);
  (new QVBoxLayout(m_tablePlace))->setContentsMargins(0, 0, 0, 0);
  column->addWidget(m_tablePlace);
  column->addStretch(1);
  connect(m_start, &QPushButton::clicked, this, &LossSection::start);
  connect(&m_state, &StudioState::modelChanged, this, &LossSection::build);
  connect(&m_state, &StudioState::profileChanged, this, &LossSection::build);
  connect(&m_state, &StudioState::readinessChanged, this, [this] {
    // Another configuration in force is another first row.
    if (!m_state.session().isRunning() && !m_state.engine().isLoading()) build();
    updateButtons();
  });
  build();
}

void LossSection::build() {
  const auto modes = lossModes(m_state.config(), m_state.profile());
  bool same = m_table != nullptr && modes.size() == m_lines.size();
  for (std::size_t i = 0; same && i < modes.size(); ++i) {
    same = modes[i].label == m_lines[i].mode.label && modes[i].config == m_lines[i].mode.config &&
           modes[i].needsProfile == m_lines[i].mode.needsProfile;
  }
  if (same) return updateButtons();
  // What was measured of a mode that is still here stays.
  const std::vector<Line> before = std::move(m_lines);
  m_lines.clear();
  QWidget* old = m_table;
  m_table = new QWidget(m_tablePlace);
  m_table->setAccessibleName(tr("Loss of each mode against FP16"));
  auto* grid = new QGridLayout(m_table);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(24);
  grid->setVerticalSpacing(3);
  const QString heads[] = {tr("Mode"),   tr("Perplexity"), tr("KL mean"),
                           tr("KL p99"), tr("Top-1"),      tr("Weights")};
  for (int i = 0; i <= kFigures; ++i) {
    auto* head = new PlainLabel(heads[i], LabelStyle::kHeading, m_table);
    grid->addWidget(head, 0, i, i == 0 ? Qt::AlignLeft : Qt::AlignRight);
  }
  int at = 1;
  for (const LossMode& mode : modes) {
    auto* rule = new QFrame(m_table);
    rule->setProperty("kind", "line");
    rule->setFixedHeight(1);
    grid->addWidget(rule, at++, 0, 1, kFigures + 2);
    Line line;
    line.mode = mode;
    line.box = new QCheckBox(literalAction(oneLine(mode.label, 70)), m_table);
    line.box->setObjectName("loss " + mode.id);
    if (mode.needsProfile) {
      line.box->setText(tr("%1 · needs a calibration profile").arg(line.box->text()));
    }
    line.box->setChecked(mode.usual && !mode.needsProfile);
    line.box->setEnabled(!mode.needsProfile);
    connect(line.box, &QCheckBox::toggled, this, &LossSection::updateButtons);
    grid->addWidget(line.box, at, 0);
    for (int i = 0; i < kFigures; ++i) {
      auto* figure = new PlainLabel(LabelStyle::kFigure, m_table);
      figure->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
      grid->addWidget(figure, at, i + 1);
      line.figures << figure;
    }
    line.use = new QPushButton(tr("Use"), m_table);
    line.use->setProperty("kind", "quiet");
    line.use->setProperty("compact", true);
    line.use->setObjectName("use " + mode.id);
    line.use->setFixedHeight(Theme::instance().px(24));
    line.use->setAccessibleName(tr("Use %1").arg(mode.label));
    const engine::EngineConfig wanted = mode.config;
    connect(line.use, &QPushButton::clicked, this, [this, wanted] {
      m_state.useConfig(wanted);
      Toast::of(this)->showMessage(tr("The next turn runs in this mode."));
    });
    grid->addWidget(line.use, at, kFigures + 1);
    ++at;
    for (const Line& was : before) {
      if (was.mode.id != mode.id) continue;
      if (!mode.needsProfile && !was.mode.needsProfile) line.box->setChecked(was.box->isChecked());
      if (!was.measured || !(was.mode.config == mode.config)) continue;
      line.measured = true;
      for (int i = 0; i < kFigures; ++i) line.figures[i]->setText(was.figures[i]->text());
    }
    m_lines.push_back(std::move(line));
  }
  grid->setColumnStretch(0, 1);
  m_tablePlace->layout()->addWidget(m_table);
  if (old != nullptr) {
    old->hide();
    old->deleteLater();
  }
  m_summary->setText(
      m_state.model()
          ? tr("Each ticked mode reads the text beside FP16: how well it predicts it (perplexity), "
               "how far its probabilities are from FP16's (KL divergence, in nats) and how often "
               "both have the same best token.")
          : tr("Open a model: what each INT8 mode loses on a text of your choice is measured "
               "here."));
  updateButtons();
}

void LossSection::choose(const QStringList& ids) {
  for (Line& line : m_lines) {
    line.box->setChecked(ids.contains(line.mode.id) && line.box->isEnabled());
  }
}

void LossSection::updateButtons() {
  const bool ready = m_state.canStart();
  bool any = false;
  const bool open = m_state.model() && !m_state.engine().isLoading();
  for (Line& line : m_lines) {
    any = any || line.box->isChecked();
    const bool inForce = open && m_state.isInForce(line.mode.config.precision) &&
                         m_state.config().cache.type == line.mode.config.cache.type;
    line.use->setText(inForce ? tr("In force") : tr("Use"));
    line.use->setEnabled(open && !inForce && !line.mode.needsProfile);
  }
  m_start->setEnabled(ready && any && m_text->count() > 1);
}

void LossSection::start() {
  if (!m_state.canStart()) return;
  auto text = m_text->read();
  if (!text) {
    emit faultHappened(sentenceText(text.error().message));
    return;
  }
  app::studio::LossJob job;
  job.model = m_state.model();
  job.reference = m_state.referenceConfig();
  for (Line& line : m_lines) {
    if (!line.box->isChecked()) continue;
    job.modes.push_back({line.mode.id, line.mode.config});
    for (PlainLabel* label : line.figures) label->setText({});
    line.measured = false;
    line.figures[0]->setText(QStringLiteral("…"));
  }
  if (job.modes.empty()) return;
  m_readName = m_text->currentText();
  job.text = std::move(*text);
  job.mostTokens = m_tokens->value();
  m_state.begin(StudioState::Job::kLoss);
  m_state.session().measureLoss(std::move(job));
}

void LossSection::takeRow(const app::studio::LossRow& row) {
  for (Line& line : m_lines) {
    if (line.mode.id != row.label) continue;
    line.measured = true;
    line.figures[0]->setText(QString::number(row.report.perplexity, 'f', 3));
    line.figures[1]->setText(klText(row.report.klMean));
    line.figures[2]->setText(klText(row.report.klP99));
    line.figures[3]->setText(percentText(row.report.top1Agreement));
    line.figures[4]->setText(bytesText(row.weightBytes));
    m_summary->setText(tr("On %1, %2 scored tokens: FP16's own perplexity is %3.")
                           .arg(m_readName, countText(row.report.tokens))
                           .arg(row.report.referencePerplexity, 0, 'f', 3));
  }
}

void LossSection::finish() {
  for (Line& line : m_lines) {
    if (!line.measured && line.figures[0]->text() == QStringLiteral("…")) {
      line.figures[0]->setText({});
    }
  }
}

QStringList LossSection::figures(const QString& id) const {
  QStringList texts;
  for (const Line& line : m_lines) {
    if (line.mode.id != id) continue;
    for (const PlainLabel* label : line.figures) texts << label->text();
  }
  return texts;
}

}  // namespace vitrine::ui

#include "ui/compare/compare_column.h"

#include <QDoubleSpinBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QScrollBar>
#include <QSpinBox>
#include <QTextEdit>
#include <QVBoxLayout>
#include <algorithm>

#include "app/text.h"
#include "ui/common/engine_switching.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr engine::WeightMode kWeights[] = {engine::WeightMode::kNative, engine::WeightMode::kFp16,
                                           engine::WeightMode::kInt8};

QDoubleSpinBox* makeNumber(double low, double high, double step, const QString& name,
                           QWidget* parent) {
  auto* box = new QDoubleSpinBox(parent);
  box->setRange(low, high);
  box->setSingleStep(step);
  box->setDecimals(2);
  box->setAccessibleName(name);
  box->setToolTip(name);
  box->setKeyboardTracking(false);
  return box;
}

}  // namespace

CompareColumn::CompareColumn(const QString& letter, QWidget* parent)
    : QFrame(parent), m_letter(letter) {
  const Theme& theme = Theme::instance();
  setProperty("kind", "card");
  setAccessibleName(tr("Side %1").arg(letter));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(theme.px(14), theme.px(10), theme.px(14), theme.px(12));
  column->setSpacing(theme.px(8));
  auto* head = new QHBoxLayout;
  head->addWidget(new PlainLabel(letter, LabelStyle::kTitle, this));
  head->addStretch(1);
  m_state = new PlainLabel(LabelStyle::kMuted, this);
  head->addWidget(m_state);
  column->addLayout(head);

  auto* modes = new QGridLayout;
  modes->setHorizontalSpacing(theme.px(10));
  modes->setVerticalSpacing(theme.px(6));
  modes->setColumnStretch(2, 1);
  const auto addSwitch = [&](const QString& name, const char* object) {
    auto* field = new SegmentedSwitch({}, {}, this);
    field->setObjectName(QString::fromLatin1(object));
    field->setAccessibleName(tr("%1 of side %2").arg(name, letter));
    const int row = modes->rowCount();
    modes->addWidget(new PlainLabel(name, LabelStyle::kMuted, this), row, 0);
    modes->addWidget(field, row, 1, Qt::AlignLeft);
    return field;
  };
  m_weights = addSwitch(tr("Weights"), "compareWeights");
  m_activations = addSwitch(tr("Activations"), "compareActivations");
  m_kv = addSwitch(tr("KV cache"), "compareKv");
  m_heads = addSwitch(tr("KV heads"), "compareHeads");
  m_activations->setChoices({{QStringLiteral("FP16"), tr("Inputs of products stay floating point")},
                             {QStringLiteral("INT8"), tr("Inputs are rounded to 8 bits")}});
  m_kv->setChoices({{QStringLiteral("FP16"), tr("Keys and values in 16 bits")},
                    {QStringLiteral("INT8"), tr("Keys and values in 8 bits")}});
  column->addLayout(modes);
  column->addWidget(makeSampling());

  m_text = new QTextEdit(this);
  m_text->setReadOnly(true);
  m_text->setFrameShape(QFrame::NoFrame);
  m_text->setAcceptRichText(false);
  m_text->setAccessibleName(tr("Answer of side %1").arg(letter));
  m_text->setPlaceholderText(tr("The answer of this side will stream here."));
  m_text->setObjectName("compareText");
  m_text->setMinimumHeight(theme.px(110));
  m_text->setTabChangesFocus(true);
  column->addWidget(m_text, 1);
  m_fault = new PlainLabel(LabelStyle::kFault, this);
  m_fault->setWordWrap(true);
  m_fault->hide();
  column->addWidget(m_fault);
  m_figures = new FigureGrid(this);
  column->addWidget(m_figures);

  const auto choose = [this](SegmentedSwitch* field, auto take) {
    connect(field, &SegmentedSwitch::chosen, this, [this, take](int index) {
      take(index);
      showSide();
      emit edited();
    });
  };
  choose(m_weights, [this](int index) { m_config.precision.weights = kWeights[index]; });
  choose(m_activations, [this](int index) {
    m_config.precision.activations =
        index == 1 ? engine::ActivationMode::kInt8 : engine::ActivationMode::kFp16;
  });
  choose(m_kv, [this](int index) {
    m_config.cache.type = index == 1 ? engine::KvType::kInt8 : engine::KvType::kFp16;
  });
  choose(m_heads, [this](int index) { m_config.kvHeads = m_headChoices[index]; });
  showAnswer({}, {}, 0);
}

QWidget* CompareColumn::makeSampling() {
  const Theme& theme = Theme::instance();
  auto* place = new QWidget(this);
  auto* grid = new QGridLayout(place);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(theme.px(8));
  grid->setVerticalSpacing(theme.px(2));
  m_temperature = makeNumber(0, 2, 0.1, tr("Temperature: 0 always takes the best token"), place);
  m_topK = new QSpinBox(place);
  m_topK->setRange(0, 1000);
  m_topK->setSpecialValueText(tr("off"));
  m_topK->setAccessibleName(tr("Top-k: choose among the k best tokens"));
  m_topK->setToolTip(m_topK->accessibleName());
  m_topP = makeNumber(0.05, 1, 0.05, tr("Top-p: choose among the tokens of this share"), place);
  m_minP =
      makeNumber(0, 0.5, 0.01, tr("Min-p: leave out tokens below this share of the best"), place);
  m_penalty = makeNumber(1, 1.5, 0.05, tr("Repeat penalty"), place);
  m_temperature->setObjectName("compareTemperature");
  const std::pair<QString, QWidget*> fields[] = {{tr("Temp."), m_temperature},
                                                 {tr("Top-k"), m_topK},
                                                 {tr("Top-p"), m_topP},
                                                 {tr("Min-p"), m_minP},
                                                 {tr("Repeat"), m_penalty}};
  int column = 0;
  for (const auto& [name, field] : fields) {
    grid->addWidget(new PlainLabel(name, LabelStyle::kMuted, place), 0, column);
    field->setMinimumWidth(theme.px(42));
    if (auto* box = qobject_cast<QAbstractSpinBox*>(field)) {
      box->setButtonSymbols(QAbstractSpinBox::NoButtons);
    }
    grid->addWidget(field, 1, column);
    grid->setColumnStretch(column, 1);
    ++column;
  }
  const auto changed = [this] {
    if (m_filling) return;
    m_sampling.temperature = float(m_temperature->value());
    m_sampling.topK = m_topK->value();
    m_sampling.topP = float(m_topP->value());
    m_sampling.minP = float(m_minP->value());
    m_sampling.repeatPenalty = float(m_penalty->value());
    emit edited();
  };
  for (QDoubleSpinBox* box : {m_temperature, m_topP, m_minP, m_penalty}) {
    connect(box, &QDoubleSpinBox::valueChanged, this, changed);
  }
  connect(m_topK, &QSpinBox::valueChanged, this, changed);
  return place;
}

void CompareColumn::setModel(const engine::ModelInfo* model, const engine::SamplingParams& usual) {
  m_hasModel = model != nullptr;
  m_headChoices.clear();
  QVector<SegmentedSwitch::Choice> heads;
  if (model) {
    const int nHeads = model->config.nHeads;
    const int own = model->config.nKvHeads;
    for (const int n : {1, own, nHeads}) {
      const int value = n == own ? 0 : n;
      if (m_headChoices.contains(value)) continue;
      m_headChoices.append(value);
      const QString effect =
          n == own  ? tr("as in the model")
          : n < own ? tr("key and value heads averaged: less memory, other answers")
                    : tr("key and value heads repeated: the same answers, more memory");
      heads.append(
          {QString::number(n), QStringLiteral("%1: %2").arg(attentionText(nHeads, n), effect)});
    }
    m_weights->setChoices(
        {{nativeFormatText(app::toQString(model->quantization)), tr("As in the file")},
         {weightModeText(kWeights[1]), tr("Converted to 16-bit floating point")},
         {weightModeText(kWeights[2]), tr("Converted to 8-bit integers")}});
    m_config = model->running;
    m_sampling = usual;
  }
  m_heads->setChoices(heads);
  setEnabled(m_hasModel);
  showSide();
}

app::CompareSide CompareColumn::side() const {
  return {m_config, m_sampling};
}

void CompareColumn::setSide(const app::CompareSide& side) {
  m_config = side.config;
  m_sampling = side.sampling;
  showSide();
}

void CompareColumn::showSide() {
  m_filling = true;
  const auto* weight =
      std::find(std::begin(kWeights), std::end(kWeights), m_config.precision.weights);
  m_weights->setCurrent(weight == std::end(kWeights) ? -1 : int(weight - std::begin(kWeights)));
  m_activations->setCurrent(m_config.precision.activations == engine::ActivationMode::kInt8 ? 1
                                                                                            : 0);
  m_kv->setCurrent(m_config.cache.type == engine::KvType::kInt8 ? 1 : 0);
  m_heads->setCurrent(int(m_headChoices.indexOf(m_config.kvHeads)));
  m_temperature->setValue(double(m_sampling.temperature));
  m_topK->setValue(m_sampling.topK);
  m_topP->setValue(double(m_sampling.topP));
  m_minP->setValue(double(m_sampling.minP));
  m_penalty->setValue(double(m_sampling.repeatPenalty));
  m_filling = false;
}

void CompareColumn::setEditable(bool editable) {
  for (QWidget* field : {static_cast<QWidget*>(m_weights), static_cast<QWidget*>(m_activations),
                         static_cast<QWidget*>(m_kv), static_cast<QWidget*>(m_heads),
                         static_cast<QWidget*>(m_temperature), static_cast<QWidget*>(m_topK),
                         static_cast<QWidget*>(m_topP), static_cast<QWidget*>(m_minP),
                         static_cast<QWidget*>(m_penalty)}) {
    field->setEnabled(editable);
  }
}

QString CompareColumn::answerText() const {
  return m_text->toPlainText();
}

void CompareColumn::showAnswer(const app::CompareAnswer& answer,
                               const app::FirstDifference& difference, int index) {
  const Theme& theme = Theme::instance();
  const auto side = std::size_t(index);
  if (m_text->toPlainText() != answer.text) {
    QScrollBar* bar = m_text->verticalScrollBar();
    const bool atEnd = bar->value() >= bar->maximum() - 4;
    const int before = bar->value();
    m_text->setPlainText(answer.text);
    bar->setValue(atEnd && answer.running ? bar->maximum() : before);
  }
  QList<QTextEdit::ExtraSelection> marks;
  if (difference.token >= 0) {
    QTextEdit::ExtraSelection mark;
    mark.cursor = QTextCursor(m_text->document());
    const int size = m_text->document()->characterCount() - 1;
    const int from = std::min(size, int(difference.offset[side]));
    const int to = std::min(size, from + std::max(1, int(difference.length[side])));
    mark.cursor.setPosition(from);
    mark.cursor.setPosition(to, QTextCursor::KeepAnchor);
    mark.format.setBackground(mix(theme.tokens().panel, theme.tokens().information, 0.35));
    mark.format.setFontUnderline(true);
    mark.format.setUnderlineColor(theme.tokens().information);
    marks.append(mark);
  }
  m_text->setExtraSelections(marks);
  m_fault->setText(answer.error);
  m_fault->setVisible(!answer.error.isEmpty());
  m_state->setText(
      answer.waiting ? tr("waits its turn")
      : answer.running
          ? (answer.tokenIds.empty() ? tr("reading %1 of %2")
                                           .arg(answer.prefillDone)
                                           .arg(std::max(answer.promptTokens, answer.prefillDone))
                                     : tr("writing · %1 tokens").arg(answer.tokenIds.size()))
      : answer.ended && answer.error.isEmpty() ? tr("%1 tokens").arg(answer.report.generatedTokens)
                                               : QString());

  const engine::TurnReport& report = answer.report;
  const QString dash = QStringLiteral("–");
  const auto orDash = [&](bool known, const QString& text) { return known ? text : dash; };
  const bool ended = answer.ended && answer.error.isEmpty();
  m_figures->setRows(
      {{tr("TTFT"), orDash(ended, millisecondsText(report.ttftMs)),
        tr("Time to the first token; %1 tokens of the prompt were reused")
            .arg(report.reusedTokens)},
       {tr("TPOT"), orDash(report.tpotMs > 0, millisecondsText(report.tpotMs)),
        tr("Time per token after it")},
       {tr("Tokens/s"), orDash(report.decodeTps > 0, rateText(report.decodeTps)),
        tr("Answer tokens in a second, after the first")},
       {tr("Weights"), orDash(answer.weightBytes > 0, bytesText(answer.weightBytes)),
        tr("As the engine of this side holds them")},
       {tr("KV a token"), orDash(answer.kvBytesPerToken > 0, bytesText(answer.kvBytesPerToken)),
        tr("All layers, keys and values")}});
}

}  // namespace vitrine::ui

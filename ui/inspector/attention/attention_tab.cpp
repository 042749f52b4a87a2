#include "ui/inspector/attention/attention_tab.h"

#include <QHBoxLayout>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "app/measure/mode_comparison.h"
#include "app/measure/page_text.h"
#include "app/text.h"
#include "ui/common/engine_switching.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/inspector/attention/choice_table.h"
#include "ui/inspector/attention/head_drawing.h"

namespace vitrine::ui {
namespace {

constexpr int kFewChoices = 4;     // that have room for their whole names side by side
constexpr int kChatTokens = 2048;  // of a chat, where the one on screen is shorter than …
constexpr int kShortChatTokens = 256;

QString lossText(const engine::EvaluationReport& report) {
  return AttentionTab::tr("KL %1 · same best token %2")
      .arg(report.klMean, 0, 'g', 3)
      .arg(percentText(report.top1Agreement));
}

}  // namespace

AttentionTab::AttentionTab(QWidget* parent)
    : InspectorTab(parent), m_comparison(new app::ModeComparison(this)) {
  QVBoxLayout* section = addSection(tr("Attention heads"), &m_aside);
  m_empty = new PlainLabel(tr("Load a model: its query heads and the key and value heads that they "
                              "share are shown here."),
                           LabelStyle::kMuted, this);
  m_empty->setWordWrap(true);
  section->addWidget(m_empty);
  m_switch = new SegmentedSwitch({}, {}, this);
  m_switch->setObjectName("headsSwitch");
  m_switch->setAccessibleName(tr("Key and value heads"));
  section->addWidget(m_switch);
  m_drawing = new HeadDrawing(this);
  section->addSpacing(4);
  section->addWidget(m_drawing);
  m_explanation = new PlainLabel(LabelStyle::kMuted, this);
  m_explanation->setObjectName("headsExplanation");
  m_explanation->setWordWrap(true);
  section->addWidget(m_explanation);

  section = addSection(tr("What each takes of the cache"), &m_budget);
  m_costBox = new QWidget(this);
  auto* costs = new QVBoxLayout(m_costBox);
  costs->setContentsMargins(0, 0, 0, 0);
  costs->setSpacing(8);
  m_costs = new ChoiceTable(m_costBox);
  costs->addWidget(m_costs);
  m_costNote = new PlainLabel(LabelStyle::kMuted, m_costBox);
  m_costNote->setObjectName("costNote");
  m_costNote->setWordWrap(true);
  costs->addWidget(m_costNote);
  costs->addWidget(new PlainLabel(tr("Measured"), LabelStyle::kHeading, m_costBox));
  m_figures = new FigureGrid(m_costBox);
  m_figures->setObjectName("measuredHeads");
  costs->addWidget(m_figures);
  section->addWidget(m_costBox);

  section = addSection(tr("What averaging changes"));
  m_lossBox = new QWidget(this);
  auto* loss = new QVBoxLayout(m_lossBox);
  loss->setContentsMargins(0, 0, 0, 0);
  loss->setSpacing(8);
  m_text = new SegmentedSwitch(
      tr("Over"),
      {{tr("a page of English"), tr("About a thousand words that come with the program")},
       {tr("this chat"), tr("The chat on screen, its first 1,024 tokens")}},
      m_lossBox);
  m_text->setObjectName("lossText");
  m_text->setCurrent(0);
  loss->addWidget(m_text);
  m_lossFigures = new FigureGrid(m_lossBox);
  m_lossFigures->setObjectName("lossFigures");
  loss->addWidget(m_lossFigures);
  auto* row = new QHBoxLayout;
  m_progress = new QProgressBar(m_lossBox);
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress of the measurement"));
  m_measure = new QPushButton(m_lossBox);
  m_measure->setObjectName("measureLoss");
  row->addWidget(m_measure);
  row->addWidget(m_progress, 1);
  row->addStretch();
  loss->addLayout(row);
  m_lossNote = new PlainLabel(LabelStyle::kMuted, m_lossBox);
  m_lossNote->setObjectName("lossNote");
  m_lossNote->setWordWrap(true);
  loss->addWidget(m_lossNote);
  section->addWidget(m_lossBox);
  endSections();

  connect(m_switch, &SegmentedSwitch::chosen, this, [this](int index) {
    if (!m_state.info || index >= m_choices.size()) return;
    emit configWanted(withKvHeads(m_state.wanted, m_choices[index].kvHeads, *m_state.info));
  });
  connect(m_text, &SegmentedSwitch::chosen, this, [this](int index) {
    m_text->setCurrent(index);
    showLoss();
  });
  connect(m_measure, &QPushButton::clicked, this, [this] {
    if (m_comparison->isRunning()) return stopMeasuring();
    m_lossFault.clear();
    for (const AttentionChoice& choice : std::as_const(m_choices)) {
      if (!choice.isExact()) m_toMeasure.push_back(choice.kvHeads);
    }
    measureNext();
  });
  connect(m_comparison, &app::ModeComparison::progressed, this,
          [this](double fraction) { m_progress->setValue(int(fraction * 1000)); });
  connect(m_comparison, &app::ModeComparison::finished, this,
          [this](const engine::EvaluationReport& report) {
            m_losses[m_measuringKey] = report;
            measureNext();
          });
  connect(m_comparison, &app::ModeComparison::failed, this, [this](const engine::Error& error) {
    m_toMeasure.clear();
    if (error.code != engine::ErrorCode::kCancelled) m_lossFault = app::toQString(error.message);
    measureNext();
  });
}

AttentionTab::~AttentionTab() {
  m_comparison->disconnect(this);
}

void AttentionTab::showState(const InspectorState& state) {
  m_state = state;
  const bool hasModel = state.info != nullptr;
  if (hasModel && m_choicesOf != state.info->fingerprint) {
    m_choicesOf = state.info->fingerprint;
    m_choices = attentionChoices(*state.info);
    m_measured.clear();
    m_lossFault.clear();
    stopMeasuring();
    QVector<SegmentedSwitch::Choice> segments;
    const bool few = m_choices.size() <= kFewChoices;
    for (const AttentionChoice& choice : std::as_const(m_choices)) {
      const QString text = few ? choice.name : QString::number(choice.kvHeads);
      segments.append({choice.isExact() ? text : text + QStringLiteral(" ≈"),
                       QStringLiteral("%1: %2").arg(choice.name, choice.effect)});
    }
    m_switch->setChoices(segments);
  }
  m_empty->setVisible(!hasModel);
  for (QWidget* widget : std::initializer_list<QWidget*>{m_switch, m_drawing, m_explanation}) {
    widget->setVisible(hasModel);
  }
  m_costBox->setEnabled(hasModel);
  m_costBox->setVisible(hasModel);
  m_lossBox->setVisible(hasModel);
  if (!hasModel) {
    m_aside->clear();
    m_budget->clear();
    return;
  }
  showSwitch();
  showCosts();
  showMeasured();
  showLoss();
}

void AttentionTab::showSwitch() {
  const engine::ModelInfo& info = *m_state.info;
  const auto indexOf = [this](int kvHeads) {
    for (int i = 0; i < m_choices.size(); ++i) {
      if (m_choices[i].kvHeads == kvHeads) return i;
    }
    return -1;
  };
  const int running = info.config.nKvHeads;
  const int wanted = kvHeadsOf(m_state.wanted, info);
  const int index = indexOf(running);
  m_switch->setCurrent(index);
  m_switch->setPending(m_state.loading && wanted != running ? indexOf(wanted) : -1);
  m_drawing->setHeads(info.config.nHeads, running, info.ownKvHeads);
  m_aside->setText(tr("%1 layers × %2 per head").arg(info.config.nLayers).arg(info.config.headDim));
  const int group = info.config.groupSize();
  QString text = group == 1 ? tr("Each query head has a key and value head of its own.")
                            : tr("Groups of %1 query heads share a key and value head.").arg(group);
  if (group == info.config.nHeads) text = tr("All query heads share one key and value head.");
  if (index >= 0 && m_choices[index].grouping == engine::KvGrouping::kRepeated) {
    text += tr(" The model's own %1 are repeated: the same answers, bit for bit, from a cache %2 "
               "times as large.")
                .arg(info.ownKvHeads)
                .arg(running / info.ownKvHeads);
  } else if (index >= 0 && !m_choices[index].isExact()) {
    text += tr(" The model's own %1 are averaged without further training: approximate, and mostly "
               "far worse. A model trained with few heads learns to live with them.")
                .arg(info.ownKvHeads);
  } else {
    text += tr(" This is how the model was trained.");
  }
  m_explanation->setText(text);
}

void AttentionTab::showCosts() {
  const engine::ModelInfo& info = *m_state.info;
  const engine::EngineSnapshot& snapshot = *m_state.snapshot;
  const std::uint64_t pool = snapshot.bytesPerBlock * std::uint64_t(snapshot.blocks.size());
  const std::uint64_t budget =
      info.running.cache.budgetBytes > 0 ? info.running.cache.budgetBytes : pool;
  const int blockSize = info.running.cache.blockSize;
  const int used = branchUseOf(m_state).tokens;
  const bool ownLength = used >= kShortChatTokens;
  const int chatTokens = ownLength ? used : std::min(kChatTokens, info.config.contextLength);
  QVector<ChoiceCost> rows;
  for (const AttentionChoice& choice : std::as_const(m_choices)) {
    for (const engine::KvType type : {engine::KvType::kFp16, engine::KvType::kInt8}) {
      ChoiceCost cost =
          choiceCost(info.config, choice.kvHeads, type, blockSize, budget, chatTokens);
      cost.exact = choice.isExact();
      cost.inForce = choice.kvHeads == info.config.nKvHeads && type == info.running.cache.type;
      rows.append(cost);
    }
  }
  m_costs->setRows(rows);
  m_budget->setText(budget > 0 ? tr("in %1").arg(bytesText(budget)) : QString());
  m_costNote->setText(
      (ownLength ? tr("Chats of %1 tokens, as long as this one.") : tr("Chats of %1 tokens."))
          .arg(countText(chatTokens)) +
      tr(" Contexts end at the model's %1. ≈ approximate.")
          .arg(countText(info.config.contextLength)));
}

void AttentionTab::showMeasured() {
  const engine::ModelInfo& info = *m_state.info;
  const engine::EngineSnapshot& snapshot = *m_state.snapshot;
  // A snapshot of before a switch still tells the old shape.
  if (snapshot.bytesPerBlock > 0 && snapshot.shape.blockSize > 0) {
    m_measured[{snapshot.shape.nKvHeads, int(snapshot.shape.type)}] =
        snapshot.bytesPerBlock / std::uint64_t(snapshot.shape.blockSize);
  }
  QVector<FigureGrid::Row> rows;
  for (const AttentionChoice& choice : std::as_const(m_choices)) {
    for (const engine::KvType type : {engine::KvType::kFp16, engine::KvType::kInt8}) {
      const auto found = m_measured.find({choice.kvHeads, int(type)});
      if (found == m_measured.end()) continue;
      rows.append({QStringLiteral("%1, %2").arg(choice.name, kvTypeText(type)),
                   tr("%1 a token").arg(bytesText(found->second)),
                   tr("As the backend counted its blocks while it ran so: %1 a token")
                       .arg(exactBytesText(found->second))});
    }
  }
  const ConversationUse use = branchUseOf(m_state);
  if (use.tokens > 0 && info.config.nKvHeads == snapshot.shape.nKvHeads) {
    rows.append({tr("this chat"),
                 tr("%1 tokens in %2").arg(countText(use.tokens), bytesText(use.bytes)),
                 tr("%1 in %2 blocks, as its last turn reported")
                     .arg(exactBytesText(use.bytes), countText(use.blocks))});
  }
  m_figures->setRows(rows);
}

std::string AttentionTab::lossKey(int kvHeads) const {
  const engine::EngineConfig& running = m_state.info->running;
  std::string key = m_state.info->fingerprint + '/' + engine::nameOf(running.precision.weights) +
                    '/' + engine::nameOf(running.precision.activations) + '/' +
                    engine::nameOf(running.cache.type) + '/' + std::to_string(kvHeads);
  if (m_text->current() == 1) {
    key += '/' + m_state.conversation.toStdString() + '/' + std::to_string(m_state.turns.size());
  }
  return key;
}

void AttentionTab::showLoss() {
  if (!m_state.info) return;
  QVector<FigureGrid::Row> rows;
  bool anyApproximate = false;
  bool allMeasured = true;
  for (const AttentionChoice& choice : std::as_const(m_choices)) {
    if (choice.grouping == engine::KvGrouping::kOwn) continue;
    if (choice.isExact()) {
      rows.append({choice.name, tr("exact: the same answers"),
                   tr("Each head is repeated, bit for bit; a test of the program checks it.")});
      continue;
    }
    anyApproximate = true;
    const auto found = m_losses.find(lossKey(choice.kvHeads));
    if (found == m_losses.end()) allMeasured = false;
    QString figure = found != m_losses.end() ? lossText(found->second) : tr("not measured yet");
    if (m_comparison->isRunning() && m_measuring == choice.kvHeads) figure = tr("measuring …");
    const QString toolTip =
        found == m_losses.end()
            ? QString()
            : tr("Against the model's own heads over %1 tokens: KL divergence %2 nats a token on "
                 "average, %3 at the 99th percentile; perplexity %4 instead of %5")
                  .arg(countText(found->second.tokens))
                  .arg(found->second.klMean, 0, 'g', 4)
                  .arg(found->second.klP99, 0, 'g', 4)
                  .arg(found->second.perplexity, 0, 'g', 4)
                  .arg(found->second.referencePerplexity, 0, 'g', 4);
    rows.append({choice.name + QStringLiteral(" ≈"), figure, toolTip});
  }
  m_lossFigures->setRows(rows);
  const bool running = m_comparison->isRunning();
  const bool canUseChat = !m_state.turns.empty() && m_state.chatMessages;
  m_text->setEnabled(!running);
  m_text->setVisible(anyApproximate);
  m_measure->setVisible(anyApproximate);
  m_measure->setText(running ? tr("Stop") : allMeasured ? tr("Measure again") : tr("Measure"));
  m_measure->setEnabled(running || m_text->current() == 0 || canUseChat);
  m_progress->setVisible(running);
  QString note;
  if (!m_lossFault.isEmpty()) {
    note = m_lossFault;
  } else if (!anyApproximate) {
    note = tr("This model has one key and value head; there is nothing to average.");
  } else if (m_text->current() == 1 && !canUseChat) {
    note = tr("This chat has no answer yet that could be compared.");
  } else {
    note =
        tr("Averaged heads were never trained together. KL 0 would be no difference; the share "
           "says how often both ways agree on the next token.");
  }
  m_lossNote->setText(note);
}

void AttentionTab::measureNext() {
  if (m_toMeasure.empty() || !m_state.info || !m_state.model || m_comparison->isRunning()) {
    m_toMeasure.clear();
    showLoss();
    return;
  }
  m_measuring = m_toMeasure.front();
  m_toMeasure.erase(m_toMeasure.begin());
  m_measuringKey = lossKey(m_measuring);
  app::ComparisonRequest request;
  request.model = m_state.model;
  request.config = withKvHeads(m_state.info->running, m_measuring, *m_state.info);
  request.reference = withKvHeads(m_state.info->running, m_state.info->ownKvHeads, *m_state.info);
  if (m_text->current() == 1 && m_state.chatMessages) {
    request.messages = m_state.chatMessages();
  } else {
    request.text = app::kPageText;
  }
  m_progress->setValue(0);
  m_comparison->start(std::move(request));
  showLoss();
}

void AttentionTab::stopMeasuring() {
  m_toMeasure.clear();
  if (m_comparison->isRunning()) m_comparison->cancel();
}

}  // namespace vitrine::ui

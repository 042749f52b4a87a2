#include "ui/inspector/batch/batch_tab.h"

#include <QRegularExpression>
#include <QVBoxLayout>
#include <algorithm>
#include <functional>

#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/inspector/batch/batch_figures.h"
#include "ui/inspector/batch/step_lanes.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kColumns[] = {64, 128, 256};
// Steps further apart than this do not belong to one stretch of work.
constexpr double kPauseMs = 1000;
// Medians of fewer steps are not compared with each other.
constexpr int kFewestSteps = 8;

// A name for a lane: the chat's title, or what else the engine works for ("API", "Compare A", …).
StepLanes::Look laneLook(const InspectorState& state, const QString& key) {
  static const QRegularExpression uuid(QStringLiteral("^[0-9a-f]{8}-[0-9a-f-]{27}$"));
  OwnerLook owner;
  if (state.ownerLook) owner = state.ownerLook(key);
  StepLanes::Look look{owner.title, owner.colour};
  const bool chat = owner.colour.isValid();
  if (look.title.isEmpty()) {
    look.title = chat || key == state.conversation ? BatchTab::tr("New chat")
                 : uuid.match(key).hasMatch()      ? BatchTab::tr("A closed chat")
                 : key.isEmpty()                   ? BatchTab::tr("Unnamed")
                                                   : key;
  }
  if (key == state.conversation) look.title = BatchTab::tr("%1 · this chat").arg(look.title);
  // Whoever has no colour of its own gets one by its name, always the same.
  if (!chat) look.colour = Theme::instance().conversationColour(int(qHash(key, 7) % 8));
  return look;
}

}  // namespace

BatchTab::BatchTab(QWidget* parent) : InspectorTab(parent) {
  QVBoxLayout* section = addSection(tr("Steps of the engine"), &m_lanesAside);
  m_empty =
      new PlainLabel(tr("Each step of the engine will be a column here, with a lane for every "
                        "chat that was in it. Send a message in two chats to see them share "
                        "steps."),
                     LabelStyle::kMuted, this);
  m_empty->setWordWrap(true);
  section->addWidget(m_empty);
  m_lanes = new StepLanes(this);
  m_lanes->setAccessibleName(tr("Lanes of the batch"));
  section->addWidget(m_lanes);
  m_legend = new Legend(this);
  section->addWidget(m_legend);
  m_pointed = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_pointed->setObjectName("pointedStep");
  m_pointed->setWordWrap(true);
  section->addWidget(m_pointed);
  QVector<SegmentedSwitch::Choice> widths;
  for (const int columns : kColumns) {
    widths.append({QString::number(columns), tr("Show the latest %1 steps").arg(columns)});
  }
  m_columns = new SegmentedSwitch(tr("Latest steps"), widths, this);
  m_columns->setObjectName("batchColumns");
  m_columns->setCurrent(0);
  section->addWidget(m_columns);

  section = addSection(tr("Now"));
  m_now = new FigureGrid(this);
  m_now->setObjectName("batchNow");
  section->addWidget(m_now);

  section = addSection(tr("What a second chat costs the first"), &m_costAside);
  m_costAside->setObjectName("batchCost");
  m_cost = new FigureGrid(this);
  m_cost->setObjectName("batchSizes");
  section->addWidget(m_cost);
  m_costNote = new PlainLabel(LabelStyle::kMuted, this);
  m_costNote->setWordWrap(true);
  section->addWidget(m_costNote);

  section = addSection(tr("How waiting turns join"));
  m_batching = new SegmentedSwitch(
      {},
      {{tr("Continuous"), tr("At every step: nobody waits for the answers of others to end")},
       {tr("Static"), tr("Only when the whole batch before has ended, as servers did until 2022")}},
      this);
  m_batching->setObjectName("batchingSwitch");
  m_batching->setAccessibleName(tr("Batching"));
  section->addWidget(m_batching);
  m_batchingNote = new PlainLabel(LabelStyle::kMuted, this);
  m_batchingNote->setWordWrap(true);
  section->addWidget(m_batchingNote);
  endSections();

  connect(m_lanes, &StepLanes::stepPointedAt, this, [this](const QString& text) {
    m_pointed->setText(text.isEmpty() ? tr("Point at a step, or use the arrow keys.") : text);
  });
  connect(m_columns, &SegmentedSwitch::chosen, this, [this](int index) {
    m_columns->setCurrent(index);
    showLanes();
  });
  connect(m_batching, &SegmentedSwitch::chosen, this, [this](int index) {
    engine::EngineConfig config = m_state.wanted;
    config.batching = index == 1 ? engine::Batching::kStatic : engine::Batching::kContinuous;
    emit configWanted(config);
  });
  m_pointed->setText(tr("Point at a step, or use the arrow keys."));
}

int BatchTab::columnsWanted() const {
  return kColumns[std::clamp(m_columns->current(), 0, 2)];
}

void BatchTab::showState(const InspectorState& state) {
  m_state = state;
  showLanes();
  showFigures();
  showSwitch();
}

void BatchTab::showLanes() {
  if (!m_state.snapshot) return;
  const auto& steps = m_state.snapshot->steps;
  const bool any = !steps.empty();
  m_empty->setVisible(!any);
  for (QWidget* widget : {static_cast<QWidget*>(m_lanes), static_cast<QWidget*>(m_legend),
                          static_cast<QWidget*>(m_pointed), static_cast<QWidget*>(m_columns)}) {
    widget->setVisible(any);
  }
  m_lanesAside->setText(any ? tr("step %1").arg(countText(steps.back().number)) : QString());
  const Tokens& t = Theme::instance().tokens();
  m_legend->setEntries(
      {{tr("prefill"),
        {},
        t.prefilled,
        MarkPattern::kSolid,
        tr("Prompt tokens that the step computed; higher is more")},
       {tr("decode"), {}, t.generated, MarkPattern::kSolid, tr("A token of the answer")}});
  m_lanes->setSteps(steps, columnsWanted(),
                    [this](const QString& key) { return laneLook(m_state, key); });
  // Room for a line each, so that nothing below moves when a step is told.
  m_pointed->setMinimumHeight(Theme::instance().px(16) * (1 + m_lanes->laneCount()));
  m_pointed->setAlignment(Qt::AlignTop | Qt::AlignLeft);
}

void BatchTab::showFigures() {
  if (!m_state.snapshot) return;
  const engine::EngineSnapshot& snapshot = *m_state.snapshot;
  const auto run = latestRun(snapshot.steps, kPauseMs);
  const BatchFigures latest = batchFiguresOf(run);
  const bool busy = snapshot.runningSequences + snapshot.waitingSequences > 0;
  const QString dash = QStringLiteral("–");
  m_now->setRows(
      {{tr("Running"), countText(quint64(snapshot.runningSequences)),
        tr("Turns whose tokens are computed in each step")},
       {tr("Waiting"), countText(quint64(snapshot.waitingSequences)),
        tr("Turns that wait for blocks, or for the batch before them")},
       {tr("Tokens a step"),
        latest.steps > 0 ? QString::number(latest.tokensPerStep(), 'f', 1) : dash,
        busy ? tr("Mean of the present stretch of work") : tr("Mean of the last stretch of work")},
       {tr("All answers together"),
        latest.decodeTokens > 0 ? rateText(latest.decodePerSecond()) : dash,
        tr("Answer tokens of all chats in a second of computing")},
       {tr("With prompts"), latest.steps > 0 ? rateText(latest.tokensPerSecond()) : dash,
        tr("Prompt and answer tokens of all chats in a second of computing")}});

  const BatchFigures figures = batchFiguresOf(snapshot.steps);
  QVector<FigureGrid::Row> rows;
  const BatchFigures::Size* alone = figures.ofSize(1);
  for (const BatchFigures::Size& size : figures.sizes) {
    rows.append(
        {size.answers == 1 ? tr("1 answer alone") : tr("%1 answers together").arg(size.answers),
         tr("%1 · %2").arg(millisecondsText(size.medianMs), rateText(size.tokensPerSecond())),
         tr("Median time of a token for each of them (TPOT), and tokens of all in a second; "
            "from %1 steps")
             .arg(size.steps)});
  }
  if (figures.mixedSteps > 0) {
    rows.append({tr("While a prompt is read"), millisecondsText(figures.mixedMedianMs),
                 tr("Median time of a token in steps that also computed prompt tokens of others; "
                    "from %1 steps")
                     .arg(figures.mixedSteps)});
  }
  m_cost->setRows(rows);
  const BatchFigures::Size* two = figures.ofSize(2);
  const auto isKnown = [](const BatchFigures::Size* size) {
    return size && size->steps >= kFewestSteps && size->medianMs > 0;
  };
  if (isKnown(alone) && isKnown(two)) {
    const double more = two->medianMs / alone->medianMs - 1;
    m_costAside->setText(
        QStringLiteral("%1%2").arg(more >= 0 ? QStringLiteral("+") : QString(), percentText(more)));
    m_costNote->setText(
        tr("A token took %1 alone and %2 beside a second answer; both together came at %3, one "
           "alone at %4.")
            .arg(millisecondsText(alone->medianMs), millisecondsText(two->medianMs),
                 rateText(two->tokensPerSecond()), rateText(alone->tokensPerSecond())));
  } else {
    m_costAside->setText(QString());
    m_costNote->setText(!isKnown(alone) && !isKnown(two)
                            ? tr("Known once an answer was written alone and another beside it.")
                        : isKnown(alone)
                            ? tr("Let a second chat answer at the same time to see it.")
                            : tr("Let one answer run alone to compare."));
  }
}

void BatchTab::showSwitch() {
  const auto indexOf = [](engine::Batching batching) {
    return batching == engine::Batching::kStatic ? 1 : 0;
  };
  const engine::Batching running =
      m_state.info ? m_state.info->running.batching : m_state.wanted.batching;
  m_batching->setCurrent(indexOf(running));
  m_batching->setPending(m_state.loading && running != m_state.wanted.batching
                             ? indexOf(m_state.wanted.batching)
                             : -1);
  m_batchingNote->setText(
      running == engine::Batching::kStatic
          ? tr("A turn that comes while others run waits until all of them have ended: its lane "
               "begins after theirs.")
          : tr("A turn joins at the next step; its prompt is computed in chunks between the tokens "
               "of the others."));
}

}  // namespace vitrine::ui

#include "ui/inspector/latency/latency_tab.h"

#include <QScrollArea>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/inspector/charts/turn_chart.h"
#include "ui/inspector/latency/turn_table.h"
#include "ui/inspector/latency/waterfall.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kMostRowsShown = 8;

const Tokens& tokens() {
  return Theme::instance().tokens();
}

}  // namespace

LatencyTab::LatencyTab(QWidget* parent) : InspectorTab(parent) {
  QVBoxLayout* section = addSection(tr("Time to the first token (TTFT)"), &m_ttftAside);
  m_ttft = new TurnChart(TurnChart::Kind::kBars, 80, this);
  m_ttft->setAccessibleName(tr("Time to the first token, by turn"));
  m_ttft->setColour([] { return tokens().prefilled; });
  m_ttft->setFormat(millisecondsText);
  m_ttft->setEmptyText(tr("A bar for each turn: what is reused need not be computed again."));
  section->addWidget(m_ttft);

  section = addSection(tr("Time per token after it (TPOT)"), &m_tpotAside);
  m_tpot = new TurnChart(TurnChart::Kind::kLine, 80, this);
  m_tpot->setAccessibleName(tr("Time per token, by turn"));
  m_tpot->setColour([] { return tokens().generated; });
  m_tpot->setFormat(millisecondsText);
  m_tpot->setEmptyText(tr("A point for each turn."));
  section->addWidget(m_tpot);

  section = addSection(tr("Turns"));
  m_table = new TurnTable;
  m_tableScroll = new QScrollArea(this);
  m_tableScroll->setFrameShape(QFrame::NoFrame);
  m_tableScroll->setWidgetResizable(true);
  m_tableScroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_tableScroll->setFocusPolicy(Qt::NoFocus);
  m_tableScroll->setWidget(m_table);
  m_tableScroll->viewport()->setAutoFillBackground(false);
  m_table->setAutoFillBackground(false);
  section->addWidget(m_tableScroll);

  section = addSection({});
  auto* row = new QHBoxLayout;
  m_partsHeading = new PlainLabel(LabelStyle::kHeading, this);
  m_partsTotal = new PlainLabel(LabelStyle::kFigureMuted, this);
  row->addWidget(m_partsHeading);
  row->addStretch();
  row->addWidget(m_partsTotal);
  section->addLayout(row);
  m_parts = new Waterfall(this);
  m_parts->setAccessibleName(tr("Where the time to the first token went"));
  section->addWidget(m_parts);
  m_reason = new PlainLabel(LabelStyle::kMuted, this);
  m_reason->setWordWrap(true);
  section->addWidget(m_reason);

  section = addSection(tr("Each token of the answer"), &m_stripAside);
  m_strip = new TokenStrip(this);
  m_strip->setAccessibleName(tr("Latency of each token"));
  section->addWidget(m_strip);
  m_figures = new FigureGrid(this);
  section->addWidget(m_figures);
  endSections();

  connect(m_ttft, &TurnChart::turnSelected, this, &LatencyTab::select);
  connect(m_tpot, &TurnChart::turnSelected, this, &LatencyTab::select);
  connect(m_table, &TurnTable::turnSelected, this, &LatencyTab::select);
}

void LatencyTab::showState(const InspectorState& state) {
  const bool otherChat = state.conversation != m_state.conversation;
  m_state = state;
  const int count = int(state.turns.size());
  if (otherChat || m_selected > count) m_followLast = true;
  if (m_followLast) m_selected = count;
  showCharts();
  showSelected();
}

void LatencyTab::select(int turn) {
  const int count = int(m_state.turns.size());
  if (turn < 1 || turn > count) return;
  m_selected = turn;
  m_followLast = turn == count;
  showCharts();
  showSelected();
  m_tableScroll->ensureVisible(0, m_table->sizeHint().height() * (turn + 1) / (count + 1), 0, 24);
}

void LatencyTab::showCharts() {
  QVector<TurnChart::Point> ttft;
  QVector<TurnChart::Point> tpot;
  int number = 0;
  for (const app::TurnMetrics& turn : m_state.turns) {
    const engine::TurnReport& report = turn.report;
    ++number;
    ttft.append({number, report.ttftMs,
                 tr("Turn %1: %2 for %3 prefilled tokens, %4 reused")
                     .arg(number)
                     .arg(millisecondsText(report.ttftMs), countText(report.prefilledTokens),
                          countText(report.reusedTokens))});
    if (report.tpotMs > 0) {
      tpot.append({number, report.tpotMs,
                   tr("Turn %1: %2 a token").arg(number).arg(millisecondsText(report.tpotMs))});
    }
  }
  m_ttft->setPoints(ttft);
  m_tpot->setPoints(tpot);
  m_ttft->setSelectedTurn(m_selected);
  m_tpot->setSelectedTurn(m_selected);
  m_ttftAside->setText(ttft.isEmpty() ? QString() : millisecondsText(ttft.last().value));
  m_tpotAside->setText(tpot.isEmpty() ? QString() : millisecondsText(tpot.last().value));
  m_table->setTurns(m_state.turns);
  m_table->setSelectedTurn(m_selected);
  const int rows = m_table->rowCount();
  const int height = m_table->sizeHint().height();
  m_tableScroll->setFixedHeight(
      rows <= kMostRowsShown ? height : height * (kMostRowsShown + 1) / (rows + 1));
}

void LatencyTab::showSelected() {
  const Tokens& t = tokens();
  const bool any = m_selected > 0;
  const app::TurnMetrics turn =
      any ? m_state.turns[std::size_t(m_selected - 1)] : app::TurnMetrics{};
  const engine::TurnReport& report = turn.report;
  m_partsHeading->setText(any ? tr("Until the first token of turn %1").arg(m_selected)
                              : tr("Until the first token"));
  m_partsTotal->setText(any ? millisecondsText(report.ttftMs) : QString());
  const engine::TtftParts& parts = report.ttft;
  m_parts->setSteps({
      {tr("render"), parts.render, t.faint, tr("The chat template writes the prompt")},
      {tr("tokenize"), parts.tokenize, t.faint, tr("New text becomes token ids")},
      {tr("match"), parts.match, t.reused, tr("The longest prefix in the cache is found")},
      {tr("queue"), parts.queue, t.information, tr("Waiting for a step of the engine")},
      {tr("prefill"), parts.prefill, t.prefilled, tr("New prompt tokens are computed")},
      {tr("sample"), parts.sample, t.generated, tr("The first token is drawn")},
  });
  const QString reason = QString::fromStdString(report.reuse.reason);
  m_reason->setText(any && !reason.isEmpty()
                        ? tr("%1 reused, %2 computed: %3")
                              .arg(countText(report.reusedTokens),
                                   countText(report.prefilledTokens), oneLine(reason, 120))
                        : QString());
  m_reason->setVisible(!m_reason->text().isEmpty());

  // While an answer is being written and the last turn is followed, its tokens so far.
  const bool live = m_state.live.running && m_followLast && !m_state.live.tokenMs.empty();
  std::vector<float> tokenMs = live ? m_state.live.tokenMs : report.tokenMs;
  if (!tokenMs.empty()) tokenMs.erase(tokenMs.begin());
  m_stripAside->setText(live ? tr("running · %1 tokens").arg(m_state.live.tokenMs.size())
                        : any
                            ? tr("turn %1 · %2 tokens").arg(m_selected).arg(report.generatedTokens)
                            : QString());
  m_strip->setTokens(std::move(tokenMs));

  QVector<FigureGrid::Row> rows;
  if (any) {
    const auto orDash = [](bool known, const QString& text) {
      return known ? text : QStringLiteral("–");
    };
    rows = {
        {tr("Prefill"), orDash(report.prefillTps > 0, rateText(report.prefillTps)),
         tr("Prompt tokens computed in a second")},
        {tr("Decode"), orDash(report.decodeTps > 0, rateText(report.decodeTps)),
         tr("Answer tokens in a second, after the first")},
        {tr("TPOT median · p95"),
         orDash(report.tpotP50Ms > 0, tr("%1 · %2").arg(millisecondsText(report.tpotP50Ms),
                                                        millisecondsText(report.tpotP95Ms)))},
        {tr("First text on screen"),
         orDash(turn.firstPaintMs > 0, millisecondsText(turn.firstPaintMs)),
         tr("From Send until the window drew the first text")},
        {tr("Read per token"),
         orDash(report.bandwidthBytesPerToken > 0,
                bytesText(quint64(report.bandwidthBytesPerToken))),
         tr("Weights and KV that a step of this answer read")},
    };
    if (report.bandwidthBytesPerToken > 0 && report.tpotMs > 0) {
      rows.append({tr("Memory read"),
                   tr("%1/s").arg(
                       bytesText(quint64(report.bandwidthBytesPerToken / report.tpotMs * 1000.0))),
                   tr("Read per token ÷ TPOT")});
    }
  }
  m_figures->setRows(rows);
  m_figures->setVisible(any);
}

}  // namespace vitrine::ui

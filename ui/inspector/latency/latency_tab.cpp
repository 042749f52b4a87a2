#include "ui/inspector/latency/latency_tab.h"

#include <QScrollArea>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "engine/base/percentile.h"
#include "engine/tokenizer/tokenizer.h"
#include "ui/common/cache_words.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/inspector/charts/turn_chart.h"
#include "ui/inspector/latency/cache_proof_view.h"
#include "ui/inspector/latency/cost_section.h"
#include "ui/inspector/latency/token_strip.h"
#include "ui/inspector/latency/turn_steps.h"
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
  m_forecasts = new PlainLabel(LabelStyle::kMuted, this);
  m_forecasts->setObjectName("forecastError");
  m_forecasts->setWordWrap(true);
  section->addWidget(m_forecasts);

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

  addParts();
  addStrip();
  section = addSection(tr("Cached beside naive"));
  m_cost = new CostSection(this);
  section->addWidget(m_cost);
  section = addSection(tr("Cache proof"));
  m_proof = new CacheProofView(this);
  section->addWidget(m_proof);
  endSections();

  connect(&Theme::instance(), &Theme::changed, this, [this] { m_costVersion = -1; });
  connect(m_proof, &CacheProofView::proofWanted, this, &InspectorTab::cacheProofWanted);
  connect(m_proof, &CacheProofView::cancelWanted, this, &InspectorTab::cacheProofCancelWanted);
  connect(m_ttft, &TurnChart::turnSelected, this, &LatencyTab::select);
  connect(m_tpot, &TurnChart::turnSelected, this, &LatencyTab::select);
  connect(m_table, &TurnTable::turnSelected, this, &LatencyTab::select);
}

void LatencyTab::addParts() {
  QVBoxLayout* section = addSection({});
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
  m_sum = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_sum->setObjectName("waterfallSum");
  m_sum->setWordWrap(true);
  section->addWidget(m_sum);
  m_reason = new PlainLabel(LabelStyle::kMuted, this);
  m_reason->setWordWrap(true);
  section->addWidget(m_reason);
}

void LatencyTab::addStrip() {
  QVBoxLayout* section = addSection(tr("Each token of the answer"), &m_stripAside);
  m_strip = new TokenStrip(this);
  m_strip->setAccessibleName(tr("Latency of each token"));
  m_strip->setTextOf([this](int token) { return tokenText(token); });
  section->addWidget(m_strip);
  // Keeps its place while nothing is pointed at.
  m_pointed = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_pointed->setElided(Qt::ElideRight);
  section->addWidget(m_pointed);
  m_stalls = new Legend(this);
  m_stalls->setObjectName("stallLegend");
  section->addWidget(m_stalls);
  m_figures = new FigureGrid(this);
  m_figures->setObjectName("turnFigures");
  section->addWidget(m_figures);
  connect(m_strip, &TokenStrip::pointed, this, [this](const QString& words) {
    m_pointed->setText(words.isEmpty() ? QStringLiteral(" ") : words);
  });
  m_pointed->setText(QStringLiteral(" "));
}

void LatencyTab::showState(const InspectorState& state) {
  const bool otherChat = state.conversation != m_state.conversation;
  m_state = state;
  const int count = int(state.turns.size());
  if (otherChat || m_selected > count) m_followLast = true;
  if (m_followLast) m_selected = count;
  showCharts();
  showSelected();
  showProof();
  showCost();
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
                              countText(report.reusedTokens)) +
                     (report.forecastTtftMs >= 0
                          ? tr("\nForecast: %1").arg(millisecondsText(report.forecastTtftMs))
                          : QString()),
                 false, report.forecastTtftMs});
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
  showForecasts();
  m_table->setTurns(m_state.turns);
  m_table->setSelectedTurn(m_selected);
  const int rows = m_table->rowCount();
  const int height = m_table->sizeHint().height();
  m_tableScroll->setFixedHeight(
      rows <= kMostRowsShown ? height : height * (kMostRowsShown + 1) / (rows + 1));
  if (rows != m_rowsShown) {
    m_rowsShown = rows;
    // The followed turn is in sight once the table has its new height.
    if (m_followLast) {
      QMetaObject::invokeMethod(
          this, [this] { m_tableScroll->ensureVisible(0, m_table->height(), 0, 0); },
          Qt::QueuedConnection);
    }
  }
}

void LatencyTab::showForecasts() {
  int count = 0;
  const double error = medianForecastError(m_state.turns, &count);
  m_forecasts->setText(
      count == 0 ? QString()
                 : tr("━ forecast · median error %1 over %2")
                       .arg(percentText(error), pluralText(count, tr("%1 turn"), tr("%1 turns"))));
  m_forecasts->setVisible(count > 0);
}

void LatencyTab::showCost() {
  const bool cacheOn = m_state.wanted.cache.enabled;
  if (m_costVersion == m_state.turnsVersion && m_costCacheOn == cacheOn) return;
  m_costVersion = m_state.turnsVersion;
  m_costCacheOn = cacheOn;
  std::vector<app::TurnMetrics> all = m_state.turns;
  all.insert(all.end(), m_state.otherTurns.begin(), m_state.otherTurns.end());
  m_cost->setTurns(all, cacheOn);
}

void LatencyTab::showProof() {
  double expectedMs = 0;
  if (!m_state.turns.empty()) {
    // The latest turn that computed enough to tell a rate.
    const app::TurnMetrics& last = m_state.turns.back();
    for (auto turn = m_state.turns.rbegin(); turn != m_state.turns.rend(); ++turn) {
      if (turn->report.prefillTps <= 0 || turn->report.prefilledTokens < 32) continue;
      expectedMs = 1000.0 * last.contextUsed() / turn->report.prefillTps;
      break;
    }
  }
  m_proof->setState(m_state.proof, m_state.canVerify, m_state.proofSeconds, expectedMs);
}

void LatencyTab::showSelected() {
  const bool any = m_selected > 0;
  const app::TurnMetrics turn =
      any ? m_state.turns[std::size_t(m_selected - 1)] : app::TurnMetrics{};
  showParts(turn, any);
  showStrip(turn, any);
  showFigures(turn, any);
}

void LatencyTab::showParts(const app::TurnMetrics& turn, bool any) {
  const engine::TurnReport& report = turn.report;
  m_partsHeading->setText(any ? tr("Until the first token of turn %1").arg(m_selected)
                              : tr("Until the first token"));
  m_partsTotal->setText(any ? millisecondsText(report.ttftMs) : QString());
  const QVector<Waterfall::Step> steps = turnSteps(turn);
  m_parts->setSteps(steps);
  QString sum;
  if (any) {
    sum =
        tr("sum %1 · TTFT %2").arg(millisecondsText(sumOf(steps)), millisecondsText(report.ttftMs));
    if (turn.firstPaintMs > 0) {
      sum += tr(" · on screen %1").arg(millisecondsText(turn.firstPaintMs));
    }
  }
  m_sum->setText(sum);
  m_sum->setVisible(any);
  QString reason;
  if (any && !report.reuse.reason.empty()) reason = reuseText(report);
  if (const QString restore = restoreText(report.restore); !restore.isEmpty()) {
    reason += (reason.isEmpty() ? QString() : QStringLiteral("; ")) + restore;
  }
  m_reason->setText(reason);
  m_reason->setVisible(!reason.isEmpty());
}

void LatencyTab::showStrip(const app::TurnMetrics& turn, bool any) {
  const engine::TurnReport& report = turn.report;
  // While an answer is being written and the last turn is followed, its tokens so far.
  const bool live = m_state.live.running && m_followLast && !m_state.live.tokenMs.empty();
  const std::vector<float>& ms = live ? m_state.live.tokenMs : report.tokenMs;
  const std::vector<engine::StallCause>& causes =
      live ? m_state.live.tokenCauses : report.tokenCauses;
  std::vector<TokenStrip::Token> strip;
  for (std::size_t i = 1; i < ms.size(); ++i) {
    strip.push_back({ms[i], i < causes.size() ? causes[i] : engine::StallCause::kNone});
  }
  m_stripAside->setText(live ? tr("running · %1 tokens").arg(ms.size())
                        : any
                            ? tr("turn %1 · %2 tokens").arg(m_selected).arg(report.generatedTokens)
                            : QString());
  m_strip->setTokens(std::move(strip));
  QVector<Legend::Entry> legend;
  for (const engine::StallCause cause :
       {engine::StallCause::kNone, engine::StallCause::kOthersPrefill,
        engine::StallCause::kLargerBatch, engine::StallCause::kPutBack,
        engine::StallCause::kSystem}) {
    const int count = m_strip->stalls(cause);
    if (count == 0) continue;
    const StallLook look = lookOf(cause);
    legend.append({look.word, countText(count), look.colour, look.pattern, look.meaning});
  }
  m_stalls->setEntries(legend);
  m_stalls->setVisible(!legend.isEmpty());
}

QString LatencyTab::tokenText(int token) const {
  if (!m_state.model || token < 0) return {};
  const bool live = m_state.live.running && m_followLast && !m_state.live.tokenMs.empty();
  const std::vector<engine::TokenId>* ids = nullptr;
  if (live) {
    ids = &m_state.live.tokenIds;
  } else if (m_selected > 0 && m_state.info &&
             m_state.turns[std::size_t(m_selected - 1)].modelFingerprint ==
                 QString::fromStdString(m_state.info->fingerprint)) {  // another model's ids differ
    ids = &m_state.turnTokens[std::size_t(m_selected - 1)];
  }
  if (!ids || std::size_t(token) >= ids->size()) return {};
  const engine::TokenId id = (*ids)[std::size_t(token)];
  const QString text = QString::fromStdString(m_state.model->tokenizer().decode({&id, 1}));
  QString shown;
  for (const QChar c : text.left(24))
    shown += c == u'\n' ? QChar(0x21b5) : c.isPrint() ? c : QChar(0xfffd);
  return shown;
}

void LatencyTab::showFigures(const app::TurnMetrics& turn, bool any) {
  const engine::TurnReport& report = turn.report;
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
    if (report.forecastTtftMs >= 0 && report.ttftMs > 0) {
      const double error = (report.forecastTtftMs - report.ttftMs) / report.ttftMs;
      rows.append(
          {tr("Forecast → TTFT"),
           tr("%1 → %2 (%3%4)")
               .arg(millisecondsText(report.forecastTtftMs), millisecondsText(report.ttftMs),
                    error < 0 ? QStringLiteral("−") : QStringLiteral("+"),
                    percentText(std::abs(error))),
           tr("What was told before the turn, and what it took")});
    }
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

double medianForecastError(const std::vector<app::TurnMetrics>& turns, int* count) {
  std::vector<double> errors;
  for (const app::TurnMetrics& turn : turns) {
    const engine::TurnReport& report = turn.report;
    if (report.forecastTtftMs < 0 || report.ttftMs <= 0) continue;
    errors.push_back(std::abs(report.forecastTtftMs - report.ttftMs) / report.ttftMs);
  }
  if (count) *count = int(errors.size());
  if (errors.empty()) return -1;
  return engine::median(std::move(errors));
}

}  // namespace vitrine::ui

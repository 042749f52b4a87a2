#include "ui/inspector/latency/turn_steps.h"

#include <QCoreApplication>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

QString tr(const char* text) {
  return QCoreApplication::translate("vitrine::ui::LatencyTab", text);
}

void appendChunks(QVector<Waterfall::Step>& steps, const engine::TurnReport& report,
                  int mostChunks) {
  const Tokens& t = Theme::instance().tokens();
  const int count = int(report.chunks.size());
  const int rows = std::min(count, std::max(1, mostChunks));
  for (int row = 0; row < rows; ++row) {
    const int first = row * count / rows;
    const int end = (row + 1) * count / rows;
    engine::PrefillChunk sum;
    for (int i = first; i < end; ++i) {
      const engine::PrefillChunk& chunk = report.chunks[std::size_t(i)];
      sum.tokens += chunk.tokens;
      sum.milliseconds += chunk.milliseconds;
      sum.othersTokens += chunk.othersTokens;
    }
    QString meaning = end - first == 1 ? tr("Prefill step %1 of %2: %3 prompt tokens")
                                             .arg(first + 1)
                                             .arg(count)
                                             .arg(countText(sum.tokens))
                                       : tr("Prefill steps %1 to %2 of %3: %4 prompt tokens")
                                             .arg(first + 1)
                                             .arg(end)
                                             .arg(count)
                                             .arg(countText(sum.tokens));
    if (sum.othersTokens > 0) {
      meaning += tr(", beside %1 tokens of other chats").arg(countText(sum.othersTokens));
    }
    steps.append({tr("prefill %1").arg(countText(sum.tokens)), sum.milliseconds, t.prefilled,
                  meaning, sum.othersTokens > 0});
  }
}

}  // namespace

QVector<Waterfall::Step> turnSteps(const app::TurnMetrics& turn, int mostChunks) {
  const Tokens& t = Theme::instance().tokens();
  const engine::TurnReport& report = turn.report;
  const engine::TtftParts& parts = report.ttft;
  QVector<Waterfall::Step> steps;
  if (turn.beforeRequestMs > 0) {
    steps.append({tr("store"), turn.beforeRequestMs, t.faint,
                  tr("Send pressed: your message is written to the disk first")});
  }
  steps.append({tr("template"), parts.render, t.faint, tr("The chat template writes the prompt")});
  steps.append({tr("tokenize"), parts.tokenize, t.faint, tr("New text becomes token ids")});
  steps.append(
      {tr("match"), parts.match, t.reused, tr("The longest prefix in the cache is found")});
  steps.append({tr("queue"), parts.queue, t.information, tr("Waiting for a step of the engine")});
  if (parts.restore > 0 || report.restore.restored) {
    steps.append({tr("restore"), parts.restore, t.reused,
                  tr("%1 tokens of the cache are read from the disk")
                      .arg(countText(report.restore.tokens))});
  }
  double chunks = 0;
  for (const engine::PrefillChunk& chunk : report.chunks) chunks += chunk.milliseconds;
  // What an earlier version of the program stored has no steps.
  const double prefill = report.chunks.empty() ? double(parts.prefill) : chunks;
  if (report.chunks.empty()) {
    steps.append({tr("prefill"), parts.prefill, t.prefilled, tr("New prompt tokens are computed")});
  } else {
    appendChunks(steps, report, mostChunks);
  }
  steps.append({tr("sample"), parts.sample, t.generated, tr("The first token is drawn")});
  steps.append(
      {tr("detokenize"), parts.detokenize, t.generated, tr("The token becomes characters")});
  const double known = double(parts.render) + parts.tokenize + parts.match + parts.queue +
                       parts.restore + prefill + parts.sample + parts.detokenize;
  const double rest = report.ttftMs - known;
  if (rest > 0.05 && rest > 0.002 * report.ttftMs) {
    steps.append({tr("between"), rest, t.faint,
                  tr("What no part counts: steps of others, threads that change")});
  }
  const double paint = turn.firstPaintMs - turn.beforeRequestMs - report.ttftMs;
  if (turn.firstPaintMs > 0 && paint > 0) {
    steps.append({tr("first paint"), paint, t.information,
                  tr("From the first token to text on the screen")});
  }
  return steps;
}

double sumOf(const QVector<Waterfall::Step>& steps) {
  double sum = 0;
  for (const Waterfall::Step& step : steps) sum += step.milliseconds;
  return sum;
}

}  // namespace vitrine::ui

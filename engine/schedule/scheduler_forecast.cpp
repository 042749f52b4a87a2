// What the scheduler foretells: the time to a first token, and what a prompt will reuse and take.
#include <algorithm>
#include <chrono>

#include "engine/schedule/scheduler.h"

namespace vitrine::engine {
namespace {

using Clock = Turn::Clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

/// Running and waiting turns as they stand. An answer without a limit is taken to be as long as
/// those before it were.
QueueModel Scheduler::queueModel() const {
  const Records::Totals& totals = m_records.totals;
  constexpr int kUsualAnswer = 128;  // before any ended
  const int usual = totals.finishedTurns > 0
                        ? static_cast<int>(totals.finishedTokens / totals.finishedTurns)
                        : kUsualAnswer;
  const auto outline = [&](const Turn& turn, int computed) {
    const int most = turn.request().maxTokens > 0 ? turn.request().maxTokens : usual;
    return QueuedTurn{computed, turn.sequence.length() - computed,
                      std::max(1, most - turn.generatedTokens()), turn.sequence.mode.keep};
  };
  QueueModel model;
  model.prefillChunk = m_options.prefillChunk;
  model.maxSequences = m_options.maxSequences;
  model.batching = m_options.batching;
  for (const TurnPointer& turn : m_running) {
    if (!turn) continue;  // it ended in this step
    model.running.push_back(outline(*turn, turn->sequence.computed));
  }
  for (const TurnPointer& turn : m_waiting) {
    model.waiting.push_back(outline(*turn, turn->expectedReuse()));
  }
  return model;
}

KvCache::Preview Scheduler::preview(const std::vector<TokenId>& tokens) const {
  Sequence sequence;
  sequence.tokens = tokens;
  sequence.mode = cacheMode();
  return m_cache.preview(sequence);
}

/// What would come from disk; nothing where computing it is faster.
RestoreReport Scheduler::restoreOf(const std::vector<TokenId>& tokens, int pooledTokens) const {
  const CacheMode mode = cacheMode();
  if (m_archive == nullptr || !mode.keep || !mode.reuse) return {};
  const RestoreReport report = m_archive->estimate(tokens, pooledTokens);
  return report.restored ? report : RestoreReport{};
}

/// The turn was just put into the queue.
void Scheduler::foretell(Turn& turn) const {
  const auto start = Clock::now();
  const int pooled = preview(turn.sequence.tokens).reusedTokens;
  const RestoreReport disk = restoreOf(turn.sequence.tokens, pooled);
  turn.expectReuse(pooled + disk.tokens);
  const double matchMs = millisecondsSince(start);  // admission will look once more
  const StepCost& cost = m_records.costs.current();
  if (!cost.isReady()) return;
  const double nextMs = queueModel().untilTokenOfLast(cost);
  turn.foretell(turn.waitedMs() + matchMs + disk.milliseconds + nextMs);
}

double Scheduler::remainingMs(const Turn& turn) const {
  const StepCost& cost = m_records.costs.current();
  const auto place = std::find_if(m_running.begin(), m_running.end(),
                                  [&](const TurnPointer& other) { return other.get() == &turn; });
  if (!cost.isReady() || place == m_running.end()) return -1;
  const auto before = std::count_if(m_running.begin(), place,
                                    [](const TurnPointer& other) { return other != nullptr; });
  return queueModel().untilToken(cost, static_cast<std::size_t>(before));
}

double Scheduler::predictPrefillMs(int fromPosition, int tokens) const {
  const StepCost& cost = m_records.costs.current();
  return cost.isReady() ? cost.predictPrefillMs(fromPosition, tokens, m_options.prefillChunk) : -1;
}

Forecast Scheduler::forecast(const BuiltPrompt& prompt) const {
  const auto start = Clock::now();
  const KvCache::Preview found = preview(prompt.tokens);
  const double matchMs = millisecondsSince(start);
  Forecast forecast;
  forecast.promptTokens = static_cast<int>(prompt.tokens.size());
  forecast.reusedTokens = found.reusedTokens;
  const RestoreReport disk = restoreOf(prompt.tokens, found.reusedTokens);
  forecast.restoredTokens = disk.tokens;
  forecast.newTokens = forecast.promptTokens - forecast.reusedTokens - disk.tokens;
  forecast.newBlocks = found.newBlocks;
  forecast.newBytes =
      static_cast<std::uint64_t>(found.newBlocks) * m_backend.memory().kvBytesPerBlock;
  forecast.evictedBlocks = found.evictedBlocks;
  forecast.contextTokens = m_options.contextTokens;
  forecast.droppedMessages = static_cast<int>(prompt.dropped.size());
  forecast.dropped = prompt.dropped;
  forecast.fits = fits(prompt, m_options.contextTokens);
  if (const StepCost& cost = m_records.costs.current(); cost.isReady() && forecast.fits) {
    QueueModel model = queueModel();
    model.waiting.push_back(
        QueuedTurn{found.reusedTokens + disk.tokens, forecast.newTokens, 1, cacheMode().keep});
    // It will come in the middle of a step.
    const double halfStep = model.running.empty() ? 0 : m_lastStepMs / 2;
    forecast.ttftMs = prompt.renderMs + prompt.tokenizeMs + 2 * matchMs + halfStep +
                      disk.milliseconds + model.untilTokenOfLast(cost);
  }
  return forecast;
}

}  // namespace vitrine::engine

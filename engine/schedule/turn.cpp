#include "engine/schedule/turn.h"

#include <algorithm>
#include <random>
#include <utility>

#include "engine/base/percentile.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {
namespace {

float milliseconds(Turn::Clock::duration time) {
  return std::chrono::duration<float, std::milli>(time).count();
}

std::uint64_t randomSeed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

}  // namespace

Turn::Turn(RequestId id, GenerateRequest request, BuiltPrompt prompt, Language language,
           Clock::time_point arrival, std::stop_token stop)
    : m_id(id),
      m_request(std::move(request)),
      m_name(
          std::make_shared<StepLog::Name>(StepLog::Name{m_request.conversation, m_request.branch})),
      m_outline(PromptOutline::of(m_request, static_cast<int>(prompt.tokens.size()),
                                  static_cast<int>(prompt.dropped.size()))),
      m_language(language),
      m_stop(std::move(stop)),
      m_sampler(m_request.sampling, m_request.sampling.seed.value_or(randomSeed())),
      m_text(m_request.stop),
      m_promptTokens(static_cast<int>(prompt.tokens.size())),
      m_dropped(std::move(prompt.dropped)),
      m_arrival(arrival) {
  sequence.tokens = std::move(prompt.tokens);
  m_parts.render = prompt.renderMs;
  m_parts.tokenize = prompt.tokenizeMs;
}

void Turn::admitted(Clock::duration matching, ReuseReport reuse) {
  if (m_wasAdmitted) return;
  m_wasAdmitted = true;
  m_parts.match = milliseconds(matching);
  m_reuse = std::move(reuse);
}

double Turn::waitedMs() const {
  return std::chrono::duration<double, std::milli>(Clock::now() - m_arrival).count();
}

void Turn::restored(const RestoreReport& report) {
  m_restore = report;
  m_parts.restore = report.restored ? static_cast<float>(report.milliseconds) : 0.0F;
}

void Turn::computed(const StepShare& share) {
  m_rows += share.tokens;
  if (m_cause != StallCause::kPutBack) m_cause = share.cause;
  if (hasToken()) {
    m_positionsRead += static_cast<std::uint64_t>(sequence.computed + share.tokens);
  } else {
    m_prefillTime += share.time;
    m_chunks.push_back(PrefillChunk{share.tokens, milliseconds(share.time), share.othersTokens});
  }
}

bool Turn::isEnd(TokenId id) const {
  return !m_request.ignoreEnd &&
         std::binary_search(m_language.endTokens->begin(), m_language.endTokens->end(), id);
}

std::optional<StopReason> Turn::sample(LogitsView::Row logits, int contextTokens,
                                       TokensReady& ready) {
  const auto start = Clock::now();
  SampledToken sampled;
  if (logits.logits.empty()) {
    sampled.id = m_sampler.sampleBest(logits.best);
  } else {
    sampled = m_sampler.sample(logits.logits, sequence.tokens, std::max(0, m_request.nLogprobs),
                               m_request.nLogprobs >= 0);
  }
  const auto drawn = Clock::now();
  const bool isEndToken = isEnd(sampled.id);
  ready.id = m_id;
  ready.tokens.clear();
  ready.text =
      isEndToken ? m_text.finish() : m_text.append(m_language.tokenizer->bytes(sampled.id));
  const StallCause cause = m_cause;
  const float gap = noteToken(drawn - start, Clock::now() - drawn);
  if (isEndToken) return StopReason::kEnd;
  ready.tokens.push_back(
      GeneratedToken{sampled.id, gap, cause, sampled.logprob, std::move(sampled.top)});
  sequence.tokens.push_back(sampled.id);
  std::optional<StopReason> reason;
  if (m_text.stopped()) {
    reason = StopReason::kStopText;
  } else if (m_request.maxTokens > 0 && m_generated >= m_request.maxTokens) {
    reason = StopReason::kLength;
  } else if (sequence.length() >= contextTokens) {
    reason = StopReason::kContext;
  }
  if (reason) ready.text += m_text.finish();
  return reason;
}

/// Its latency. Of the first, all that is none of the parts was waiting: for a place, for the steps
/// of others, for their sampling.
float Turn::noteToken(Clock::duration sampling, Clock::duration detokenizing) {
  const auto now = Clock::now();
  const float gap = milliseconds(now - (m_generated == 0 ? m_arrival : m_last));
  if (m_generated == 0) {
    m_first = now;
    m_parts.prefill = milliseconds(m_prefillTime);
    m_parts.sample = milliseconds(sampling);
    m_parts.detokenize = milliseconds(detokenizing);
    m_parts.queue =
        std::max(0.0F, gap - m_parts.render - m_parts.tokenize - m_parts.match - m_parts.restore -
                           m_parts.prefill - m_parts.sample - m_parts.detokenize);
  }
  m_last = now;
  ++m_generated;
  m_tokenMs.push_back(gap);
  m_tokenCauses.push_back(std::exchange(m_cause, StallCause::kNone));
  m_tokenRows.push_back(std::exchange(m_rows, 0));
  return gap;
}

double Turn::meanPositionsRead() const {
  return m_generated > 1 ? static_cast<double>(m_positionsRead) / (m_generated - 1) : 0.0;
}

TurnReport Turn::report(StopReason reason) const {
  TurnReport report;
  report.stopReason = reason;
  report.text = m_text.text();
  const auto prompt = static_cast<std::ptrdiff_t>(m_promptTokens);
  report.tokenIds.assign(sequence.tokens.begin() + prompt,
                         sequence.tokens.begin() + prompt + m_text.shownTokens());
  report.promptTokens = m_promptTokens;
  report.reusedTokens = m_reuse.reusedTokens;
  report.prefilledTokens = m_wasAdmitted ? m_promptTokens - m_reuse.reusedTokens : 0;
  report.generatedTokens = m_generated;
  report.droppedMessages = static_cast<int>(m_dropped.size());
  report.dropped = m_dropped;
  report.seed = m_sampler.seed();
  report.ttft = m_parts;
  report.chunks = m_chunks;
  report.reuse = m_reuse;
  report.restore = m_restore;
  report.forecastTtftMs = m_forecastTtftMs;
  report.tokenMs = m_tokenMs;
  report.tokenCauses = m_tokenCauses;
  report.tokenRows = m_tokenRows;
  if (m_generated > 0) report.ttftMs = m_tokenMs.front();
  if (m_prefillTime.count() > 0) {
    report.prefillTps =
        report.prefilledTokens / std::chrono::duration<double>(m_prefillTime).count();
  }
  if (m_generated > 1) {
    const double total = std::chrono::duration<double, std::milli>(m_last - m_first).count();
    report.tpotMs = total / (m_generated - 1);
    report.decodeTps = report.tpotMs > 0 ? 1000.0 / report.tpotMs : 0.0;
    const std::vector<float> gaps(m_tokenMs.begin() + 1, m_tokenMs.end());
    report.tpotP50Ms = nearestRank(gaps, 0.50);
    report.tpotP95Ms = nearestRank(gaps, 0.95);
  }
  return report;
}

}  // namespace vitrine::engine

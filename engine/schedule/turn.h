#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/cache/restore.h"
#include "engine/cache/sequence.h"
#include "engine/engine_types.h"
#include "engine/sample/sampler.h"
#include "engine/schedule/answer_text.h"
#include "engine/schedule/prompt_builder.h"
#include "engine/schedule/reuse_history.h"
#include "engine/schedule/step_log.h"

namespace vitrine::engine {

class Tokenizer;

/// One question and its answer on the way: the sequence, how it is sampled, the text so far and
/// the times of everything. The scheduler drives it; it knows nothing of blocks or batches.
///
///     waiting ──admitted──▶ running (prefill, then decode) ──▶ finished
///        ▲                     │
///        └──────preempted──────┘
class Turn final {
 public:
  using Clock = std::chrono::steady_clock;

  /// What a turn needs of its model; both outlive the turn.
  struct Language {
    const Tokenizer* tokenizer = nullptr;
    const std::vector<TokenId>* endTokens = nullptr;  // sorted
  };

  Turn(RequestId id, GenerateRequest request, BuiltPrompt prompt, Language language,
       Clock::time_point arrival, std::stop_token stop);

  RequestId id() const { return m_id; }
  const GenerateRequest& request() const { return m_request; }
  bool stopRequested() const { return m_stop.stop_requested(); }
  int promptTokens() const { return m_promptTokens; }
  /// Tokens whose K and V are still to be computed; 1 while decoding.
  int pendingTokens() const { return sequence.length() - sequence.computed; }
  bool hasToken() const { return m_generated > 0; }
  int generatedTokens() const { return m_generated; }
  const std::shared_ptr<const StepLog::Name>& name() const { return m_name; }

  /// It got its blocks (for the first time: what was reused, and how long finding it took).
  void admitted(Clock::duration matching, ReuseReport reuse);
  bool wasAdmitted() const { return m_wasAdmitted; }
  int reusedTokens() const { return m_reuse.reusedTokens; }
  const std::vector<int>& dropped() const { return m_dropped; }
  const PromptOutline& outline() const { return m_outline; }
  const Tokenizer& tokenizer() const { return *m_language.tokenizer; }

  /// The beginning of the prompt came back from disk, or did not because computing it is faster.
  void restored(const RestoreReport& report);
  /// Its blocks went to an older turn; all of it will be computed again.
  void putBack() {
    m_cause = StallCause::kPutBack;
    m_expectedReuse = std::max(0, sequence.computed - 1);
  }

  /// What was foretold when it was submitted: tokens that it will find cached, milliseconds from
  /// its arrival to its first token.
  void expectReuse(int tokens) { m_expectedReuse = tokens; }
  int expectedReuse() const { return m_expectedReuse; }
  void foretell(double ttftMs) { m_forecastTtftMs = ttftMs; }
  double waitedMs() const;  ///< since it arrived

  /// Its part of a step.
  struct StepShare {
    int tokens = 0;                        ///< positions computed for it
    Clock::duration time{};                ///< of the whole step
    int othersTokens = 0;                  ///< positions computed for others
    StallCause cause = StallCause::kNone;  ///< what made the step long for it
  };
  void computed(const StepShare& share);
  /// BatchSequence::best for the step that samples.
  int candidatesNeeded(int vocabSize) const {
    return m_sampler.candidatesNeeded(vocabSize, m_request.nLogprobs >= 0);
  }
  /// Draws the next token from its row of logits (overwritten) and adds it to the sequence.
  /// Returns why the turn ends with it, if it does. `ready` receives what can be shown.
  std::optional<StopReason> sample(LogitsView::Row logits, int contextTokens, TokensReady& ready);
  /// The text still held back when a turn ends; empty where none is.
  std::string finishText() { return m_text.finish(); }

  /// The report of an ended turn, without what only the scheduler knows (KV use, backend).
  TurnReport report(StopReason reason) const;
  /// Mean number of positions that a decode step read.
  double meanPositionsRead() const;

  Sequence sequence;
  std::unique_ptr<Restore> restore;  ///< set while its beginning is read from disk
  bool forgotten = false;            ///< its conversation was, meanwhile: nothing of it is kept

 private:
  bool isEnd(TokenId id) const;
  float noteToken(Clock::duration sampling, Clock::duration detokenizing);

  RequestId m_id;
  GenerateRequest m_request;
  std::shared_ptr<const StepLog::Name> m_name;
  PromptOutline m_outline;
  Language m_language;
  std::stop_token m_stop;
  Sampler m_sampler;
  AnswerText m_text;
  int m_promptTokens = 0;
  std::vector<int> m_dropped;  // messages of the prompt that the context policy left out
  int m_generated = 0;
  bool m_wasAdmitted = false;
  ReuseReport m_reuse;
  RestoreReport m_restore;
  TtftParts m_parts;
  std::vector<PrefillChunk> m_chunks;
  Clock::time_point m_arrival, m_first, m_last;
  Clock::duration m_prefillTime{};
  std::uint64_t m_positionsRead = 0;
  double m_forecastTtftMs = -1;
  int m_expectedReuse = 0;
  int m_rows = 0;                          // positions computed since the latest token
  StallCause m_cause = StallCause::kNone;  // of the token that comes next
  std::vector<float> m_tokenMs;            // one a generated token, as the two below
  std::vector<StallCause> m_tokenCauses;
  std::vector<int> m_tokenRows;
};

}  // namespace vitrine::engine

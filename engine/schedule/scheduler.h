#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/cache/kv_archive.h"
#include "engine/cache/kv_cache.h"
#include "engine/engine_types.h"
#include "engine/schedule/cache_check.h"
#include "engine/schedule/queue_model.h"
#include "engine/schedule/records.h"
#include "engine/schedule/turn.h"

namespace vitrine::engine {

/// Runs turns together on one backend, by continuous batching (Orca, Yu et al. 2022): sequences
/// join and leave at every step, prompts are computed in chunks mixed with the decodes of the
/// others (Sarathi, Agrawal et al. 2023), so that a long prompt does not stall running chats.
/// A turn is admitted when its blocks fit; when running ones need more than there is, the youngest
/// is put back and resumes later with the same tokens. Inference thread only.
class Scheduler final {
 public:
  struct Options {
    int contextTokens = 0;
    int prefillChunk = 256;
    int maxSequences = 16;
    Batching batching = Batching::kContinuous;
    CacheOptions cache;
    std::uint64_t valueBytesPerPosition = 0;  ///< by the formula: 2 × L × H_kv × D × bytes
  };
  /// Backend and records outlive the scheduler.
  Scheduler(Backend& backend, const Options& options, Records& records, EventListener listener);
  ~Scheduler();

  /// For turns that begin from now on. The pool's shape does not change here.
  void setOptions(const Options& options) { m_options = options; }

  /// Where conversations are kept on disk; null: nowhere. It stays until another is set.
  void setArchive(KvArchive* archive);

  void submit(std::unique_ptr<Turn> turn);
  /// Compares what is cached with a cold prefill, between the steps of turns. Ends in CacheVerified
  /// or TurnFailed.
  void verify(std::unique_ptr<CacheCheck> check) { m_checks.push_back(std::move(check)); }
  /// The device failed for good: all turns have ended with that, and so does each that comes.
  bool isDeviceLost() const { return m_lost.has_value(); }
  bool isIdle() const { return m_running.empty() && m_waiting.empty() && m_checks.empty(); }
  int runningCount() const { return static_cast<int>(m_running.size()); }
  int waitingCount() const { return static_cast<int>(m_waiting.size()); }

  /// Retires stopped turns, admits waiting ones, computes one batch, draws tokens, sends events.
  void step();
  /// Ends every turn with kCancelled, and every check with an error.
  void cancelAll();

  /// What a turn with this prompt would reuse, compute and take. Changes nothing.
  Forecast forecast(const BuiltPrompt& prompt) const;
  /// What computing these positions of a sequence takes when nothing else runs; −1: not known.
  double predictPrefillMs(int fromPosition, int tokens) const;

  void forget(const std::string& conversation);
  void clearCache(const std::string& reason);
  const Records& records() const { return m_records; }
  const KvCache& cache() const { return m_cache; }
  KvCache& cache() { return m_cache; }

  /// Cells, owners and counts.
  void describe(EngineSnapshot& snapshot) const;
  Result<BlockContent> inspectBlock(BlockId block) const;
  /// Positions of the blocks that running and cached sequences hold; of those, the ones that none
  /// of their tokens fills: behind the last token of each, and what is reserved in advance. Blocks
  /// of a prompt that is being computed are no waste: its tokens are known.
  struct PoolFill {
    int reserved = 0, wasted = 0;
  };
  PoolFill poolFill() const;
  /// "" when all promises of pool, index and sequences hold. For tests.
  std::string checkInvariants() const;

 private:
  using TurnPointer = std::unique_ptr<Turn>;

  void retireStopped();
  void admitWaiting();
  bool admit(TurnPointer& turn);
  void lookOnDisk(Turn& turn);
  void restoreSlices();
  void announce(Turn& turn, Turn::Clock::duration matching);
  CacheMode cacheMode() const;
  void planBatch();
  void computeBatch();
  void stepCheck();
  void endCheck(const Error& error);
  void makeRoom();
  void preemptYoungest();
  void addToBatch(Turn& turn, int nTokens);
  Result<LogitsView> runBatch();
  void batchFailed(const Error& error);
  void failAll();
  void takeResults(const LogitsView& logits, Turn::Clock::duration stepTime);
  QueueModel queueModel() const;
  KvCache::Preview preview(const std::vector<TokenId>& tokens) const;
  RestoreReport restoreOf(const std::vector<TokenId>& tokens, int pooledTokens) const;
  void foretell(Turn& turn) const;
  double remainingMs(const Turn& turn) const;
  void noteCauses(Turn::Clock::duration stepTime);
  void logStep(Turn::Clock::time_point start, Turn::Clock::duration stepTime);
  void finish(Turn& turn, StopReason reason);
  void failTurn(Turn& turn, Error error);
  void releaseBlocks(Turn& turn);
  KvUse kvUse(const Turn& turn) const;
  TurnReport makeReport(const Turn& turn, StopReason reason) const;
  void removeEnded();
  std::vector<const Sequence*> runningSequences() const;

  Backend& m_backend;
  Options m_options;
  EventListener m_listener;
  KvCache m_cache;
  KvArchive* m_archive = nullptr;
  Records& m_records;
  std::optional<Error> m_lost;         // why the device cannot be used any more
  std::deque<TurnPointer> m_waiting;   // in the order of arrival
  std::vector<TurnPointer> m_running;  // the oldest first; an ended turn is null until removed
  std::deque<std::unique_ptr<CacheCheck>> m_checks;  // the first may hold blocks
  bool m_checkBegun = false;
  double m_checkedMs = 0;  // that checks took since the batch before
  int m_checkedTokens = 0;
  struct Row {
    Turn* turn;
    int tokens;
    bool sampled;
    bool isPrefill;  // of the prompt, or again of all that was there
    StepWork work{};
    StallCause cause = StallCause::kNone;
  };
  std::vector<Row> m_rows;  // of the batch below
  std::vector<BatchSequence> m_batch;
  double m_lastStepMs = 0;
  TokensReady m_ready;
};

}  // namespace vitrine::engine

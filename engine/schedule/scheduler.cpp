#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "engine/base/check.h"
#include "engine/quant/precision_text.h"

namespace vitrine::engine {

using Clock = Turn::Clock;

Scheduler::Scheduler(Backend& backend, const Options& options, Records& records,
                     EventListener listener)
    : m_backend(backend),
      m_options(options),
      m_listener(std::move(listener)),
      m_cache(backend),
      m_records(records) {}

Scheduler::~Scheduler() = default;

void Scheduler::submit(TurnPointer turn) {
  m_waiting.push_back(std::move(turn));
  foretell(*m_waiting.back());
}

void Scheduler::step() {
  retireStopped();
  if (!m_lost) admitWaiting();
  if (!m_lost) restoreSlices();
  if (!m_lost) planBatch();
  if (!m_lost && !m_batch.empty()) computeBatch();
  if (!m_lost) stepCheck();
  if (m_lost) failAll();
}

/// The device is lost, and with it what its blocks held.
void Scheduler::failAll() {
  for (TurnPointer& turn : m_running) failTurn(*turn, *m_lost);
  m_running.clear();
  for (TurnPointer& turn : m_waiting) failTurn(*turn, *m_lost);
  m_waiting.clear();
  while (!m_checks.empty()) endCheck(*m_lost);
  m_cache.clear();
}

void Scheduler::computeBatch() {
  const auto start = Clock::now();
  auto logits = runBatch();
  if (!logits) {
    // The device holds less than before: the next step is planned for fewer sequences.
    if (logits.error().code == ErrorCode::kOutOfMemory && m_cache.isOvercommitted() &&
        m_running.size() > 1) {
      return;
    }
    batchFailed(logits.error());
    return;
  }
  const auto stepTime = Clock::now() - start;
  logStep(start, stepTime);
  noteCauses(stepTime);
  takeResults(*logits, stepTime);
  removeEnded();
  if (m_archive != nullptr) m_archive->workUnderPressure();
}

void Scheduler::retireStopped() {
  for (TurnPointer& turn : m_running) {
    if (turn->stopRequested()) {
      finish(*turn, StopReason::kCancelled);
      turn.reset();
    }
  }
  removeEnded();
  std::erase_if(m_waiting, [this](TurnPointer& turn) {
    if (!turn->stopRequested()) return false;
    finish(*turn, StopReason::kCancelled);
    return true;
  });
}

void Scheduler::removeEnded() {
  std::erase_if(m_running, [](const TurnPointer& turn) { return turn == nullptr; });
}

void Scheduler::cancelAll() {
  for (TurnPointer& turn : m_running) finish(*turn, StopReason::kCancelled);
  m_running.clear();
  for (TurnPointer& turn : m_waiting) finish(*turn, StopReason::kCancelled);
  m_waiting.clear();
  while (!m_checks.empty()) {
    endCheck(Error{ErrorCode::kCancelled, "the model was changed before the cache was verified"});
  }
}

// ---------------------------------------------------------------- admission

CacheMode Scheduler::cacheMode() const {
  CacheMode mode;
  mode.keep = m_options.cache.enabled;
  mode.reuse = m_options.cache.enabled && m_options.cache.reuse;
  mode.reserveTokens =
      m_options.cache.layout == KvLayout::kContiguous ? m_options.contextTokens : 0;
  return mode;
}

/// First come, first served: a turn that does not fit yet keeps those behind it waiting, so that
/// none is passed over for ever.
void Scheduler::admitWaiting() {
  if (m_options.batching == Batching::kStatic && !m_running.empty()) return;
  while (!m_lost && !m_waiting.empty() && runningCount() < std::max(1, m_options.maxSequences)) {
    if (!admit(m_waiting.front())) return;
    m_waiting.pop_front();
  }
}

/// True if the turn left the queue: it runs, or it failed.
bool Scheduler::admit(TurnPointer& turn) {
  const int length = turn->sequence.length();
  if (length >= m_options.contextTokens && !turn->hasToken()) {
    failTurn(*turn, Error{ErrorCode::kContextFull,
                          fmt::format("the prompt has {} tokens, but the context holds {} and one "
                                      "must be left for the answer",
                                      length, m_options.contextTokens)});
    return true;
  }
  if (!turn->wasAdmitted()) turn->sequence.mode = cacheMode();
  turn->sequence.owner = m_cache.ownerFor(turn->request().conversation, turn->request().branch);
  const auto start = Clock::now();
  // Every running sequence may need a block at its next step.
  const auto begun = m_cache.begin(turn->sequence, runningCount());
  if (!begun) {
    if (begun.error().code == ErrorCode::kDeviceLost) m_lost = begun.error();
    failTurn(*turn, begun.error());
    return true;
  }
  if (!*begun) {
    if (!m_running.empty() || m_checkBegun) return false;
    failTurn(
        *turn,
        Error{ErrorCode::kOutOfMemory,
              fmt::format("the turn needs {} blocks, but the KV pool has {}",
                          m_cache.blocksFor(std::max(length, turn->sequence.mode.reserveTokens)),
                          m_cache.capacity())});
    return true;
  }
  lookOnDisk(*turn);
  const auto matching = Clock::now() - start;
  if (turn->restore) {
    turn->restore->matching = matching;
  } else {
    announce(*turn, matching);
  }
  const auto place =
      std::find_if(m_running.begin(), m_running.end(),
                   [&](const TurnPointer& other) { return other->id() > turn->id(); });
  m_running.insert(place, std::move(turn));
  return true;
}

/// A turn that has its blocks begins, with what it found in them.
void Scheduler::announce(Turn& turn, Clock::duration matching) {
  if (turn.wasAdmitted()) return;
  const Sequence& sequence = turn.sequence;
  const auto length = static_cast<std::uint64_t>(sequence.length());
  const bool isOff = !sequence.mode.keep || !sequence.mode.reuse;
  ReuseReport reuse;
  if (isOff) {
    reuse.cause = ReuseCause::kOff;
    reuse.reason = sequence.mode.keep ? "reuse off" : "cache off";
  } else {
    reuse = m_records.history.explain(turn.request().conversation, sequence.tokens, turn.outline(),
                                      sequence.computed, turn.tokenizer());
  }
  turn.admitted(matching, std::move(reuse));
  m_records.totals.promptTokens += length;
  if (!isOff) {
    m_records.totals.prefixQueries += length;
    m_records.totals.prefixHits += static_cast<std::uint64_t>(sequence.computed);
  }
  m_listener(TurnStarted{turn.id(), sequence.length(), sequence.computed, turn.dropped()});
}

// ---------------------------------------------------------------- one batch

void Scheduler::addToBatch(Turn& turn, int nTokens) {
  const Sequence& sequence = turn.sequence;
  const bool last = nTokens == turn.pendingTokens();
  Row row{&turn, nTokens, last, turn.pendingTokens() > 1 || !turn.hasToken()};
  row.work.add(nTokens, sequence.computed, last);
  m_rows.push_back(row);
  BatchSequence entry;
  entry.tokens =
      std::span(sequence.tokens)
          .subspan(static_cast<std::size_t>(sequence.computed), static_cast<std::size_t>(nTokens));
  entry.firstPosition = sequence.computed;
  const int blocks = m_cache.blocksFor(sequence.computed + nTokens);
  entry.blockTable = std::span(sequence.table).first(static_cast<std::size_t>(blocks));
  entry.logitRows = last ? 1 : 0;
  entry.best = last ? turn.candidatesNeeded(m_backend.config().vocabSize) : 0;
  m_batch.push_back(entry);
}

void Scheduler::planBatch() {
  m_rows.clear();
  m_batch.clear();
  while (m_cache.isOvercommitted() && m_running.size() > 1) makeRoom();
  // Blocks first, the oldest first: whoever is put back for it is younger, and not yet planned.
  for (std::size_t i = 0; i < m_running.size(); ++i) {
    while (i < m_running.size() &&
           !m_cache.reserve(m_running[i]->sequence, m_running[i]->sequence.length())) {
      makeRoom();
    }
  }
  for (const TurnPointer& turn : m_running) {
    if (turn->pendingTokens() == 1 && !turn->restore) addToBatch(*turn, 1);
  }
  int budget = std::max(1, m_options.prefillChunk);
  for (const TurnPointer& turn : m_running) {
    if (turn->pendingTokens() == 1 || turn->restore || budget == 0) continue;
    const int chunk = std::min(budget, turn->pendingTokens());
    addToBatch(*turn, chunk);
    budget -= chunk;
  }
}

void Scheduler::makeRoom() {
  if (m_checkBegun) {
    endCheck(Error{ErrorCode::kOutOfMemory,
                   "the check had to stop: its blocks were needed for an answer"});
  } else {
    preemptYoungest();
  }
}

void Scheduler::preemptYoungest() {
  VITRINE_CHECK(!m_running.empty(), "a sequence that runs alone has room for the whole context");
  TurnPointer turn = std::move(m_running.back());
  m_running.pop_back();
  turn->putBack();
  turn->restore.reset();
  m_cache.end(turn->sequence);
  const auto place =
      std::find_if(m_waiting.begin(), m_waiting.end(),
                   [&](const TurnPointer& other) { return other->id() > turn->id(); });
  m_waiting.insert(place, std::move(turn));
}

/// Out of memory is not the end: cached blocks go, and the same batch is tried once more.
Result<LogitsView> Scheduler::runBatch() {
  auto logits = m_backend.forward(m_batch);
  if (logits || logits.error().code != ErrorCode::kOutOfMemory || m_cache.isOvercommitted()) {
    return logits;
  }
  clearCache("shed for memory");
  return m_backend.forward(m_batch);
}

/// The turn that asked for most of the failed batch ends; what the others have in their blocks is
/// as it was, and they go on with the next step.
void Scheduler::batchFailed(const Error& error) {
  if (error.code == ErrorCode::kDeviceLost) {
    m_lost = error;
    return;
  }
  const Row* largest = &m_rows.front();
  for (const Row& row : m_rows) {
    if (row.tokens >= largest->tokens) largest = &row;
  }
  for (TurnPointer& turn : m_running) {
    if (turn.get() != largest->turn) continue;
    failTurn(*turn, error);
    turn.reset();
  }
  removeEnded();
}

void Scheduler::logStep(Clock::time_point start, Clock::duration stepTime) {
  StepLog::Step& step = m_records.steps.add();
  step.start = start;
  step.milliseconds = std::chrono::duration<float, std::milli>(stepTime).count();
  step.waiting = waitingCount() + runningCount() - static_cast<int>(m_rows.size());
  for (const Row& row : m_rows) {
    step.rows.push_back(StepLog::Row{row.turn->id(), row.turn->name(),
                                     row.isPrefill ? row.tokens : 0,
                                     row.isPrefill ? 0 : row.tokens});
  }
}

/// Compares the step with what was foretold for it, and learns from it.
void Scheduler::noteCauses(Clock::duration stepTime) {
  StepCost& cost = m_records.costs.current();
  const double took = m_lastStepMs = std::chrono::duration<double, std::milli>(stepTime).count();
  StepWork work;
  int prefillTokens = 0;
  for (const Row& row : m_rows) {
    work.add(row.work);
    if (row.isPrefill) prefillTokens += row.tokens;
  }
  if (cost.isReady()) {
    const double expected = cost.predictMs(work);
    for (Row& row : m_rows) {
      row.cause = stallCause({cost.predictMs(row.work), expected + m_checkedMs, took + m_checkedMs},
                             prefillTokens - (row.isPrefill ? row.tokens : 0) + m_checkedTokens,
                             work.rows - row.tokens + m_checkedTokens);
    }
  }
  cost.learn(work, took);
  m_checkedMs = 0;
  m_checkedTokens = 0;
}

void Scheduler::takeResults(const LogitsView& logits, Clock::duration stepTime) {
  int tokens = 0;
  for (const Row& planned : m_rows) tokens += planned.tokens;
  int row = 0;
  for (const Row& planned : m_rows) {
    Turn& turn = *planned.turn;
    turn.computed({planned.tokens, stepTime, tokens - planned.tokens, planned.cause});
    m_cache.advance(turn.sequence, planned.tokens);
    const int logitRow = planned.sampled ? row++ : -1;
    std::optional<StopReason> ended;
    if (turn.stopRequested()) {
      ended = StopReason::kCancelled;
    } else if (planned.sampled) {
      const auto start = Clock::now();
      ended = turn.sample(logits.at(logitRow), m_options.contextTokens, m_ready);
      ++m_records.totals.generatedTokens;
      if (!m_ready.text.empty() || !m_ready.tokens.empty()) m_listener(m_ready);
      m_records.costs.current().learnSampling(
          std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      if (!turn.sequence.mode.keep) m_cache.rewind(turn.sequence);
    } else if (!turn.hasToken()) {
      m_listener(PrefillProgressed{turn.id(), turn.sequence.computed, turn.promptTokens(),
                                   remainingMs(turn)});
    }
    if (!ended) continue;
    finish(turn, *ended);
    for (TurnPointer& running : m_running) {
      if (running.get() == &turn) running.reset();
    }
  }
}

// ---------------------------------------------------------------- ending

void Scheduler::finish(Turn& turn, StopReason reason) {
  if (std::string rest = turn.finishText(); !rest.empty()) {
    m_listener(TokensReady{turn.id(), std::move(rest), {}});
  }
  TurnReport report = makeReport(turn, reason);
  if (report.generatedTokens > 0) {
    ++m_records.totals.finishedTurns;
    m_records.totals.finishedTokens += static_cast<std::uint64_t>(report.generatedTokens);
  }
  releaseBlocks(turn);
  m_listener(TurnFinished{turn.id(), std::move(report)});
}

void Scheduler::failTurn(Turn& turn, Error error) {
  releaseBlocks(turn);
  m_listener(TurnFailed{turn.id(), std::move(error)});
}

void Scheduler::releaseBlocks(Turn& turn) {
  Sequence& sequence = turn.sequence;
  turn.restore.reset();
  if (sequence.table.empty()) return;
  const bool keeps = sequence.mode.keep && !turn.forgotten;
  if (keeps) {
    m_records.history.record(
        turn.request().conversation,
        std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.computed)),
        turn.outline());
  }
  const auto computed = static_cast<std::size_t>(sequence.computed);
  m_cache.end(sequence);
  if (turn.forgotten) m_cache.forget(turn.request().conversation);
  if (m_archive != nullptr && !m_lost && keeps && turn.request().keepOnDisk) {
    m_archive->changed(turn.request().conversation, std::span(sequence.tokens).first(computed));
  }
}

KvUse Scheduler::kvUse(const Turn& turn) const {
  KvUse use;
  use.blockSize = m_cache.blockSize();
  use.blocksTotal = m_cache.nBlocks();
  use.blocksUsed = static_cast<int>(turn.sequence.table.size());
  const auto blockBytes = m_backend.memory().kvBytesPerBlock;
  // Without a cache the blocks were just rewound: what the step wrote is all but the new token.
  const int positions = turn.sequence.mode.keep || turn.sequence.table.empty()
                            ? turn.sequence.computed
                            : std::max(0, turn.sequence.length() - 1);
  const auto filled = static_cast<std::uint64_t>(positions);
  use.bytesUsed = filled * blockBytes / static_cast<std::uint64_t>(use.blockSize);
  use.bytesReserved = static_cast<std::uint64_t>(use.blocksUsed) * blockBytes;
  use.bytesFormula = filled * m_options.valueBytesPerPosition;
  return use;
}

TurnReport Scheduler::makeReport(const Turn& turn, StopReason reason) const {
  TurnReport report = turn.report(reason);
  report.kv = kvUse(turn);
  const BackendMemory memory = m_backend.memory();
  if (report.generatedTokens > 1) {
    report.bandwidthBytesPerToken = static_cast<double>(memory.weightBytesPerToken) +
                                    turn.meanPositionsRead() *
                                        static_cast<double>(memory.kvBytesPerBlock) /
                                        m_cache.blockSize();
  }
  report.backend = m_backend.info().name;
  report.weights = nameOf(m_backend.precision().weights);
  report.activations = nameOf(m_backend.precision().activations);
  report.kvType = nameOf(m_backend.cacheShape().type);
  report.precision = precisionDetails(m_backend.precision());
  return report;
}

// ---------------------------------------------------------------- the cache, from outside

void Scheduler::forget(const std::string& conversation) {
  const auto mark = [&](const TurnPointer& turn) {
    if (turn && turn->request().conversation == conversation) turn->forgotten = true;
  };
  std::ranges::for_each(m_running, mark);
  std::ranges::for_each(m_waiting, mark);
  m_cache.forget(conversation);
  m_records.history.forget(conversation);
}

void Scheduler::clearCache(const std::string& reason) {
  m_cache.clear();
  m_records.history.emptied(ReuseCause::kEvicted, reason);
}

void Scheduler::describe(EngineSnapshot& snapshot) const {
  const BlockPool& pool = m_cache.pool();
  snapshot.runningSequences = runningCount();
  snapshot.waitingSequences = waitingCount();
  snapshot.shape = m_backend.cacheShape();
  snapshot.memory = m_backend.memory();
  snapshot.activationUse = m_backend.activationUse();
  snapshot.bytesPerBlock = snapshot.memory.kvBytesPerBlock;
  snapshot.blocksFree = pool.freeCount();
  snapshot.blocksCached = pool.cachedCount();
  snapshot.blocksUsed = pool.usedCount();

  m_cache.describe(runningSequences(), snapshot);
  const auto chains = std::ranges::count_if(
      snapshot.owners, [](const CacheOwner& owner) { return !owner.chain.empty(); });
  snapshot.contiguousBytes =
      static_cast<std::uint64_t>(chains) *
      static_cast<std::uint64_t>(m_cache.blocksFor(m_options.contextTokens)) *
      snapshot.bytesPerBlock;
}

Result<BlockContent> Scheduler::inspectBlock(BlockId block) const {
  return m_cache.inspect(block, runningSequences());
}

std::vector<const Sequence*> Scheduler::runningSequences() const {
  std::vector<const Sequence*> sequences;
  for (const TurnPointer& turn : m_running) sequences.push_back(&turn->sequence);
  return sequences;
}

Scheduler::PoolFill Scheduler::poolFill() const {
  const BlockPool& pool = m_cache.pool();
  PoolFill fill;
  fill.reserved = (pool.usedCount() + pool.cachedCount()) * pool.blockSize();
  for (BlockId block = 0; block < pool.size(); ++block) {
    if (pool.references(block) == 0 && pool.isKept(block)) {
      fill.wasted += pool.blockSize() - pool.filled(block);
    }
  }
  // Only what lies behind the full blocks can be unfilled, and that is nobody else's.
  for (const TurnPointer& turn : m_running) {
    const Sequence& sequence = turn->sequence;
    fill.wasted += static_cast<int>(sequence.table.size()) * pool.blockSize() - sequence.length();
  }
  return fill;
}

std::string Scheduler::checkInvariants() const {
  std::vector<const Sequence*> sequences;
  for (const TurnPointer& turn : m_running) sequences.push_back(&turn->sequence);
  for (const TurnPointer& turn : m_waiting) sequences.push_back(&turn->sequence);
  for (const auto& check : m_checks) {
    sequences.push_back(&check->cold());
    sequences.push_back(&check->cached());
  }
  return m_cache.checkInvariants(sequences);
}

}  // namespace vitrine::engine

#include "engine/cache/kv_archive.h"

#include <algorithm>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>

#include "engine/base/check.h"

namespace vitrine::engine {

namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::size_t kMostHistories = 16;  // branches of a conversation at a time
constexpr std::uint64_t kSliceBytes = std::uint64_t{4} << 20;
constexpr int kLeastTokens = 16;  // fewer are computed: opening a file takes as long
constexpr auto kPauseAfterFailure = std::chrono::minutes(1);

/// The newer measurement counts half.
double blend(double before, double now) {
  return before > 0 ? 0.5 * (before + now) : now;
}

}  // namespace

std::string archiveSettings(const std::string& modelFingerprint, const Backend& backend) {
  const BackendInfo info = backend.info();
  const KvShape& shape = backend.cacheShape();
  const bool int8 = shape.type == KvType::kInt8;
  return fmt::format(
      "vitrine {}\nmodel {}\nbackend {} {}\n{}\nkv {}{} heads {} block {} bytes {}\n",
      VITRINE_VERSION, modelFingerprint, info.name, info.instructionSet,
      precisionKey(backend.precision()), nameOf(shape.type), int8 ? " keys transformed" : "",
      shape.nKvHeads, shape.blockSize, backend.memory().kvBytesPerBlock);
}

KvArchive::KvArchive(ArchiveOptions options, std::function<void()> wake)
    : m_catalog(std::move(options)),
      m_wake(std::move(wake)),
      m_worker(std::make_unique<Worker>()) {}

void KvArchive::attach(KvCache& cache, Backend& backend, std::string settings) {
  m_cache = &cache;
  m_backend = &backend;
  const std::uint64_t blockBytes = backend.memory().kvBytesPerBlock;
  m_buffer.resize(static_cast<std::size_t>(blockBytes));
  m_catalog.open(std::move(settings), cache.blockSize(), blockBytes);
}

void KvArchive::detach(std::chrono::milliseconds limit) {
  if (m_cache == nullptr) return;
  const auto deadline = Clock::now() + limit;
  while (Clock::now() < deadline) {
    if (!m_save && !m_dirty.empty()) {
      // The conversation that was used last is the likeliest to be wanted again.
      beginSave(std::ranges::max_element(m_dirty, {}, [](const auto& one) {
                  return one.second.ended;
                })->first);
    }
    if (!m_save && m_dirty.empty()) break;
    if (!m_save) continue;
    if (m_save->state() == ArchiveSave::State::kWaiting) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      step();
    }
  }
  if (m_save || !m_dirty.empty()) {
    spdlog::info("no time to save the KV of {} conversations", m_dirty.size());
  }
  m_save.reset();
  m_dirty.clear();
  m_cache = nullptr;
  m_backend = nullptr;
}

// ---------------------------------------------------------------- restoring

RestoreReport KvArchive::estimate(std::span<const TokenId> prompt, int pooledTokens) const {
  RestoreReport report;
  // The last token is always computed, for its logits.
  if (m_cache == nullptr || static_cast<int>(prompt.size()) - 1 - pooledTokens < kLeastTokens) {
    return report;
  }
  const auto best = m_catalog.longest(prompt.first(prompt.size() - 1));
  if (best.tokens - pooledTokens < kLeastTokens) return report;
  const int blocks = m_cache->blocksFor(best.tokens) - pooledTokens / m_cache->blockSize();
  report.tokens = best.tokens - pooledTokens;
  report.bytes = static_cast<std::uint64_t>(blocks) * m_catalog.blockBytes();
  report.milliseconds = static_cast<double>(report.bytes) / m_readBytesPerMs;
  report.recomputeMs = m_predict ? m_predict(pooledTokens, report.tokens) : -1;
  if (report.recomputeMs < 0) report.recomputeMs = best.prefillMsPerToken * report.tokens;
  report.restored = report.recomputeMs <= 0 || report.milliseconds < report.recomputeMs;
  return report;
}

std::unique_ptr<Restore> KvArchive::find(const Sequence& sequence,
                                         const std::string& conversation) {
  if (!sequence.mode.keep || !sequence.mode.reuse) return nullptr;
  auto restore = std::make_unique<Restore>();
  restore->report = estimate(sequence.tokens, sequence.computed);
  if (restore->report.tokens == 0) return nullptr;
  if (!restore->report.restored) return restore;
  const auto prompt = std::span(sequence.tokens).first(sequence.tokens.size() - 1);
  auto found = m_catalog.find(prompt, conversation);
  if (!found.file || found.match.tokens <= sequence.computed) return nullptr;  // gone meanwhile
  restore->report.tokens = found.match.tokens - sequence.computed;
  restore->report.milliseconds = 0;
  restore->cachedTokens = found.file->tree().pathThrough(found.match.blocks.back());
  restore->blocks = std::move(found.match.blocks);
  restore->untilTokens = found.match.tokens;
  restore->file = std::move(found.file);
  m_catalog.used(*restore->file);
  return restore;
}

bool KvArchive::advance(Restore& restore, Sequence& sequence) {
  const auto start = Clock::now();
  const int blockSize = m_cache->blockSize();
  std::uint64_t read = 0;
  bool failed = false;
  while (sequence.computed < restore.untilTokens && read < kSliceBytes) {
    const int index = sequence.computed / blockSize;
    auto done = restore.file->readBlock(restore.blocks[static_cast<std::size_t>(index)], m_buffer);
    if (!done) {
      m_catalog.failed(restore.file->path(), done.error());
      failed = true;
      break;
    }
    // The whole block: of positions that are there already it holds the same bits.
    done = m_backend->writeBlock(sequence.table[static_cast<std::size_t>(index)], m_buffer);
    if (!done) {
      spdlog::warn("a KV block could not be restored: {}", done.error().message);
      failed = true;
      break;
    }
    const int end = std::min((index + 1) * blockSize, restore.untilTokens);
    m_cache->advance(sequence, end - sequence.computed);
    read += m_buffer.size();
  }
  RestoreReport& report = restore.report;
  report.milliseconds += Milliseconds(Clock::now() - start).count();
  if (failed) return false;
  if (sequence.computed < restore.untilTokens) return true;
  if (report.milliseconds > 0) {
    m_readBytesPerMs =
        blend(m_readBytesPerMs, static_cast<double>(report.bytes) / report.milliseconds);
  }
  return false;
}

// ---------------------------------------------------------------- saving

void KvArchive::setDelays(std::chrono::milliseconds grown, std::chrono::milliseconds other) {
  m_grownDelay = grown;
  m_otherDelay = other;
}

void KvArchive::changed(const std::string& conversation, std::span<const TokenId> tokens) {
  if (m_cache == nullptr || conversation.empty() || tokens.empty()) return;
  Dirty& dirty = m_dirty[conversation];
  dirty.ended = Clock::now();
  auto& histories = dirty.histories;
  const auto begins = [](std::span<const TokenId> whole, std::span<const TokenId> beginning) {
    return beginning.size() <= whole.size() &&
           std::equal(beginning.begin(), beginning.end(), whole.begin());
  };
  for (const auto& history : histories) {
    if (begins(history, tokens)) return;
  }
  std::erase_if(histories, [&](const auto& history) { return begins(tokens, history); });
  if (histories.size() >= kMostHistories) histories.erase(histories.begin());
  histories.emplace_back(tokens.begin(), tokens.end());
  dirty.newTokens = static_cast<int>(tokens.size());
}

KvArchive::Clock::time_point KvArchive::dueOf(const std::string& conversation,
                                              const Dirty& dirty) const {
  const int saved = m_catalog.tokensOf(conversation);
  const bool grown = (dirty.newTokens - saved) * 4 >= saved;
  return std::max(dirty.ended + (grown ? m_grownDelay : m_otherDelay), m_notBefore);
}

std::optional<KvArchive::Clock::time_point> KvArchive::due() const {
  if (m_cache == nullptr) return std::nullopt;
  if (m_save) {
    if (m_save->state() == ArchiveSave::State::kWaiting) return std::nullopt;  // wake() comes
    return Clock::time_point{};                                                // at once
  }
  std::optional<Clock::time_point> first;
  for (const auto& [conversation, dirty] : m_dirty) {
    const auto at = dueOf(conversation, dirty);
    if (!first || at < *first) first = at;
  }
  return first;
}

void KvArchive::work() {
  if (m_cache == nullptr) return;
  if (!m_save) {
    const auto now = Clock::now();
    const auto next = std::ranges::find_if(
        m_dirty, [&](const auto& one) { return dueOf(one.first, one.second) <= now; });
    if (next == m_dirty.end()) return;
    beginSave(next->first);
  }
  step();
}

void KvArchive::workUnderPressure() {
  if (m_cache == nullptr) return;
  const BlockPool& pool = m_cache->pool();
  if (pool.freeCount() * 8 >= pool.size()) return;
  if (!m_save) {
    if (m_dirty.empty()) return;
    const auto oldest =
        std::ranges::min_element(m_dirty, {}, [](const auto& one) { return one.second.ended; });
    const auto now = Clock::now();
    if (now < oldest->second.ended + m_grownDelay || now < m_notBefore) return;
    beginSave(oldest->first);
  }
  step();
}

/// Leaves m_save null where there is nothing to write.
void KvArchive::beginSave(const std::string& conversation) {
  const auto found = m_dirty.find(conversation);
  ArchiveSave::Order order;
  order.conversation = conversation;
  order.path = m_catalog.pathOf(conversation);
  order.settings = m_catalog.settings();
  order.blockBytes = m_catalog.blockBytes();
  order.limitBytes = m_catalog.options().limitBytes;
  order.before = m_catalog.openFile(conversation);
  constexpr int kTypical = 1024;
  const double prefillMs = m_predict ? m_predict(0, kTypical) : -1;
  if (prefillMs > 0) {
    order.prefillMsPerToken = prefillMs / kTypical;
  } else if (order.before) {
    order.prefillMsPerToken = order.before->header().prefillMsPerToken;
  }
  order.histories = std::move(found->second.histories);
  // A turn that ends while this is written makes it dirty again.
  m_dirty.erase(found);
  m_save = ArchiveSave::begin(std::move(order), *m_cache, *m_worker, m_wake);
}

void KvArchive::step() {
  if (!m_save) return;
  m_save->advance(*m_cache, *m_backend);
  const auto state = m_save->state();
  if (state != ArchiveSave::State::kReading && state != ArchiveSave::State::kWaiting) endSave();
}

void KvArchive::endSave() {
  const auto save = std::move(m_save);
  switch (save->state()) {
    case ArchiveSave::State::kDone:
      m_problem.clear();
      m_catalog.written(save->conversation());
      break;
    case ArchiveSave::State::kFailed:
      m_problem = save->error().message;
      m_notBefore = Clock::now() + kPauseAfterFailure;
      spdlog::warn("the KV of a conversation was not saved: {}", m_problem);
      break;
    default: {  // stale: what is left is tried again
      Dirty& dirty = m_dirty[save->conversation()];
      if (dirty.ended == Clock::time_point{}) dirty.ended = Clock::now();
      auto newer = std::move(dirty.histories);
      dirty.histories = save->takeHistories();
      for (const auto& history : newer) changed(save->conversation(), history);
      break;
    }
  }
}

void KvArchive::forget(const std::string& conversation) {
  m_dirty.erase(conversation);
  if (m_save && m_save->conversation() == conversation) m_save.reset();
  m_catalog.forget(conversation);
}

void KvArchive::removeAll() {
  m_dirty.clear();
  m_save.reset();
  m_catalog.removeAll();
}

}  // namespace vitrine::engine

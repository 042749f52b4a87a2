#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/cache/archive_catalog.h"
#include "engine/cache/archive_save.h"
#include "engine/cache/kv_cache.h"
#include "engine/cache/restore.h"
#include "engine/schedule/worker.h"

namespace vitrine::engine {

/// All that decides the bytes of a block: model, backend, instruction set, precision, KV type and
/// shape, and the program's version. Two pools with equal text hold equal bytes for equal tokens.
std::string archiveSettings(const std::string& modelFingerprint, const Backend& backend);

/// Keeps the KV of conversations on disk, so that one that is opened again, tomorrow or after its
/// blocks were evicted, needs no prefill. Belongs to the inference thread, which reads and writes
/// blocks of the pool in slices of about a millisecond; files are written on a thread of its own.
class KvArchive final {
 public:
  using Clock = std::chrono::steady_clock;

  /// `wake` is called from another thread when work() has something to do again.
  KvArchive(ArchiveOptions options, std::function<void()> wake);

  /// The pool that is in force, and what its bytes depend on. Both outlive detach().
  void attach(KvCache& cache, Backend& backend, std::string settings);
  /// The pool is about to go: saves what is not on disk yet, within `limit`.
  void detach(std::chrono::milliseconds limit);
  bool isAttached() const { return m_cache != nullptr; }
  const ArchiveOptions& options() const { return m_catalog.options(); }
  void setLimit(std::uint64_t bytes) { m_catalog.setLimit(bytes); }

  // ---------------------------------------------------------------- restoring

  /// What the disk holds of a sequence that has begun, beyond what the pool gave it. Null: nothing.
  std::unique_ptr<Restore> find(const Sequence& sequence, const std::string& conversation);
  /// Reads some blocks. False when it is over: all are there, or the rest has to be computed.
  bool advance(Restore& restore, Sequence& sequence);
  /// What find() would report of a prompt of which the pool has so much; nothing is opened.
  RestoreReport estimate(std::span<const TokenId> prompt, int pooledTokens) const;
  /// Milliseconds that computing so many tokens from a position on takes; negative: not known.
  using Prediction = std::function<double(int fromPosition, int tokens)>;
  void setPrediction(Prediction prediction) { m_predict = std::move(prediction); }

  // ---------------------------------------------------------------- saving

  /// A turn ended with these tokens in the cache.
  void changed(const std::string& conversation, std::span<const TokenId> tokens);
  /// When work() should be called, if nothing else is to be done until then.
  std::optional<Clock::time_point> due() const;
  bool isSaving() const { return m_save != nullptr; }
  /// One slice of what is due.
  void work();
  /// The same while turns run and cached blocks have to make room: the oldest conversations first.
  void workUnderPressure();

  void forget(const std::string& conversation);
  void removeAll();
  void describe(EngineSnapshot& snapshot) const { m_catalog.describe(snapshot); }
  /// Why the latest save failed; "" if it did not.
  const std::string& problem() const { return m_problem; }

  /// A conversation is saved so long after its last turn if it grew by a quarter, else later: each
  /// save writes its file anew. For tests.
  void setDelays(std::chrono::milliseconds grown, std::chrono::milliseconds other);

 private:
  struct Dirty {
    std::vector<std::vector<TokenId>> histories;  // of its branches; none begins another
    Clock::time_point ended;
    int newTokens = 0;  // computed since it was saved, about
  };

  Clock::time_point dueOf(const std::string& conversation, const Dirty& dirty) const;
  void beginSave(const std::string& conversation);
  void endSave();
  void step();

  ArchiveCatalog m_catalog;
  std::function<void()> m_wake;
  KvCache* m_cache = nullptr;
  Backend* m_backend = nullptr;
  std::map<std::string, Dirty> m_dirty;
  std::chrono::milliseconds m_grownDelay{2000}, m_otherDelay{30000};
  Clock::time_point m_notBefore{};  // after a failed save
  double m_readBytesPerMs = 200e3;  // until one was measured: a slow SATA drive
  Prediction m_predict;
  std::string m_problem;
  std::vector<std::byte> m_buffer;
  std::unique_ptr<Worker> m_worker;
  std::unique_ptr<ArchiveSave> m_save;  // before the worker in destruction
};

}  // namespace vitrine::engine

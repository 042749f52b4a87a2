#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/cache/archive_file.h"
#include "engine/cache/kv_cache.h"
#include "engine/schedule/worker.h"

namespace vitrine::engine {

/// One conversation on its way to disk. The engine's thread reads blocks from the pool a slice at
/// a time; a worker writes them, and copies what an earlier file holds. The pool may change between
/// two slices: a save whose blocks are not there any more ends without having touched the file
/// that was there.
class ArchiveSave final {
 public:
  struct Order {
    std::string conversation;
    std::filesystem::path path;
    std::string settings;
    double prefillMsPerToken = 0;
    std::uint64_t blockBytes = 0, limitBytes = 0;
    std::vector<std::vector<TokenId>> histories;  ///< of its branches, as far as they were computed
    std::shared_ptr<const ArchiveFile> before;    ///< what is kept with it; may be null
  };

  /// `wake` is called on the worker's thread whenever a slice has been written. Null where the pool
  /// has nothing that the file lacks, or where the conversation alone exceeds the limit.
  static std::unique_ptr<ArchiveSave> begin(Order order, const KvCache& cache, Worker& worker,
                                            std::function<void()> wake);
  ~ArchiveSave();

  enum class State {
    kReading,  ///< advance() has something to do
    kWaiting,  ///< for the worker
    kDone,
    kStale,  ///< the pool's blocks changed
    kFailed,
  };
  State state() const;
  /// Reads one slice and hands it to the worker.
  void advance(const KvCache& cache, const Backend& backend);

  const std::string& conversation() const { return m_order.conversation; }
  /// Requires: kFailed.
  const Error& error() const { return m_readError ? *m_readError : m_output->error; }
  std::vector<std::vector<TokenId>> takeHistories() { return std::move(m_order.histories); }

 private:
  struct Source {
    BlockId block = -1;  // of the pool, or
    int before = -1;     // of the earlier file
  };
  /// What both threads know.
  struct Output {
    std::unique_ptr<ArchiveWriter> writer;  // the worker's alone
    Error error;                            // written before `failed`
    std::atomic<bool> failed{false}, done{false};
    std::atomic<int> queued{0};
    std::function<void()> wake;
    std::mutex mutex;        // of publishing and giving up
    bool cancelled = false;  // guarded by it
  };

  ArchiveSave() = default;
  bool plan(const KvCache& cache);
  bool poolIsUnchanged(const KvCache& cache) const;
  void post(std::function<Result<void>(Output&)> job);

  Order m_order;
  Worker* m_worker = nullptr;
  std::shared_ptr<Output> m_output = std::make_shared<Output>();
  std::vector<PrefixMatch> m_chains;  // of the histories, when this began
  std::vector<Source> m_sources;      // [block of the new tree]
  ArchiveTree m_tree;
  std::size_t m_next = 0;
  bool m_committed = false, m_stale = false;
  std::optional<Error> m_readError;
};

}  // namespace vitrine::engine

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine_types.h"

namespace vitrine::engine {

/// A language model behind a queue: commands go in from any thread, events come out on the
/// engine's own thread. That thread owns the backend, the block pool and the scheduler; nothing
/// else touches them. Every command returns at once.
class Engine final {
 public:
  explicit Engine(EventListener listener);
  /// Stops what runs within one step, then joins the thread. No event comes after.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Loads a model in place of the one that is there (which stays until the new one is ready, and
  /// remains if it fails; on a device too full for both the old one goes first, and comes back if
  /// the new one fails). Turns that run end with kCancelled. Ends in ModelLoaded or LoadFailed.
  RequestId load(std::filesystem::path path, EngineConfig config);
  /// Changes how the loaded model runs. Weights are converted on a thread of their own while turns
  /// go on; new turns use the new mode. A change of the KV type or shape empties the cache.
  /// Ends in ModelLoaded or LoadFailed.
  RequestId reconfigure(EngineConfig config);
  void unload();

  /// Starts a turn; several run together. Ends in TurnFinished or TurnFailed.
  RequestId generate(GenerateRequest request);
  /// The same for several, which reach the scheduler together: none begins a step ahead. A request
  /// whose prompt cannot be built fails alone.
  std::vector<RequestId> generateTogether(std::vector<GenerateRequest> requests);
  /// Stops a load, a reconfiguration or a turn within one step. Unknown ids are ignored.
  void cancel(RequestId id);

  // Questions about the cache, answered between two steps; generation goes on meanwhile. Each ends
  // in its event, or in TurnFailed; cancel() stops it.

  /// What this request would reuse, compute and take. Nothing is changed. Ends in ForecastReady.
  RequestId forecast(GenerateRequest request);
  /// Prefills the request's prompt from nothing and compares with what is cached of it. Ends in
  /// CacheVerified.
  RequestId verifyCache(GenerateRequest request);
  /// What a block holds and for whom. Ends in BlockInspected.
  RequestId inspectBlock(BlockId block);

  /// Gives back a conversation's blocks of the pool (a running turn's at its end) and of the disk.
  void forget(std::string conversation);
  /// The same for the pool alone: it can come back from disk.
  void release(std::string conversation);
  void clearCache();
  /// Removes what is kept on disk, of every conversation and model; the pool stays.
  void clearArchive();

  /// The latest state; cheap, any thread. Never null.
  std::shared_ptr<const EngineSnapshot> snapshot() const;
  /// The loaded model (tokenizer, template), or null. Any thread.
  std::shared_ptr<const Model> model() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> m_impl;
};

}  // namespace vitrine::engine

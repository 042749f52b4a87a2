#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/engine_types.h"
#include "engine/schedule/loader.h"
#include "engine/schedule/scheduler.h"
#include "engine/schedule/turn.h"
#include "engine/schedule/worker.h"

namespace vitrine::engine {

/// What stands behind Engine: the inference thread with its one command queue, a thread that loads
/// models and converts weights, and one that renders and tokenizes prompts, so that neither holds
/// up the answers that run. All three sleep when there is nothing to do.
///
/// A change of the configuration (reconfigure) is prepared while turns go on. When it is ready,
/// turns that run finish as they began, those that come meanwhile wait, and it takes effect between
/// the two. Switches that need no other blocks (reuse, the cache off, layout, chunk) take effect at
/// once, for turns that begin from then on. A later change or load supersedes an earlier one that
/// is still on its way: that one ends in LoadFailed with kCancelled.
class EngineLoop final {
 public:
  explicit EngineLoop(EventListener listener);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Any thread; as in Engine.
  RequestId load(std::filesystem::path path, EngineConfig config);
  RequestId reconfigure(EngineConfig config);
  void unload();
  RequestId generate(GenerateRequest request);
  std::vector<RequestId> generateTogether(std::vector<GenerateRequest> requests);
  RequestId forecast(GenerateRequest request);
  RequestId verifyCache(GenerateRequest request);
  void cancel(RequestId id);
  RequestId inspectBlock(BlockId block);
  void forget(std::string conversation, bool onDisk = true);
  void clearCache();
  void clearArchive();
  std::shared_ptr<const EngineSnapshot> snapshot() const;
  std::shared_ptr<const Model> model() const;

 private:
  /// Turns whose prompts are built, for the model whose tokens they have.
  struct SubmitTurns {
    std::vector<std::unique_ptr<Turn>> turns;
    std::shared_ptr<const Model> model;
  };
  /// A question about a prompt, which is built, for the model whose tokens it has.
  struct Question {
    RequestId id = 0;
    GenerateRequest request;
    BuiltPrompt prompt;
    std::shared_ptr<const Model> model;
    std::stop_token stop;
  };
  struct AskForecast : Question {};
  struct AskProof : Question {};
  struct Send {
    Event event;
  };  // from the other threads, in order with the rest
  struct EndLoad {
    LoadFailed failure;
  };
  struct Apply {
    std::unique_ptr<Loaded> loaded;
  };
  /// The backend that runs is to give up its device for one that does not fit beside it.
  struct LeaveDevice {
    bool forNewModel = false;
    std::promise<void> done;
  };
  struct Unload {
    RequestId id;
  };
  struct InspectBlock {
    RequestId id;
    BlockId block;
    std::stop_token stop;
  };
  struct Forget {
    std::string conversation;
    bool onDisk;
  };
  struct ClearCache {};
  struct ClearArchive {};
  struct Wake {};
  using Command =
      std::variant<SubmitTurns, AskForecast, AskProof, Send, EndLoad, Apply, LeaveDevice, Unload,
                   InspectBlock, Forget, ClearCache, ClearArchive, Wake>;

  struct PendingLoad {
    RequestId id;
    bool isNewModel;
  };

  // Any thread.
  RequestId newRequest(std::stop_token& stop);
  void post(Command command);
  RequestId startLoad(bool isNewModel, std::filesystem::path path, EngineConfig config);
  Progress progressOf(RequestId id);

  // Loading and prompt threads.
  void runLoad(RequestId id, bool isNewModel, const std::filesystem::path& path,
               const EngineConfig& config, std::stop_token stop);
  Result<std::unique_ptr<Loaded>> prepareLoad(RequestId id, bool isNewModel,
                                              const std::filesystem::path& path,
                                              const EngineConfig& config, std::stop_token stop);
  void apply(std::unique_ptr<Loaded> loaded);
  bool leaveDevice(bool forNewModel);
  struct NewTurn {
    RequestId id = 0;
    GenerateRequest request;
    std::stop_token stop;
  };
  void preparePrompts(std::vector<NewTurn> wanted, Turn::Clock::time_point arrival);
  struct ForModel {
    std::shared_ptr<const Model> model;
    int contextTokens = 0;
  };
  Result<ForModel> modelForPrompt() const;
  template <typename Ask>
  RequestId ask(GenerateRequest request);

  // The engine's thread.
  void run();
  bool hasWork() const;
  void handle(SubmitTurns& command);
  void handle(AskForecast& command);
  void handle(AskProof& command);
  bool canAnswer(const Question& question);
  void handle(Send& command);
  void handle(EndLoad& command);
  void handle(Apply& command);
  void handle(LeaveDevice& command);
  void handle(Unload& command);
  void handle(InspectBlock& command);
  void handle(Forget& command);
  void handle(ClearCache& command);
  void handle(ClearArchive& command);
  void handle(Wake&) {}
  void endStoppedHeld();
  void endHeld();
  void applyPending();
  void dropBackendForRoom();
  void takeRoomLeft(Loaded& loaded);
  bool takesTurns() const;
  bool takesEffectAtOnce(const Loaded& loaded) const;
  bool installBackend(Loaded& loaded);
  Result<void> measureSteps(double preparedMs);
  void makeScheduler();
  void useArchive();
  void saveArchive();
  void forgetAtEnd();
  void waitForCommand(std::unique_lock<std::mutex>& lock);
  void dropModel();
  void send(const Event& event);
  void forgetRequest(RequestId id);
  Scheduler::Options schedulerOptions() const;
  void setActive(bool active);
  void noteDeviceLoss();
  void publishModel();
  void publishSnapshot();

  EventListener m_listener;
  std::atomic<RequestId> m_nextId{1};

  mutable std::mutex m_mutex;  // guards the group below
  std::condition_variable m_wake;
  std::deque<Command> m_commands;
  bool m_quit = false;
  std::unordered_map<RequestId, std::stop_source> m_stops;
  std::vector<PendingLoad> m_loads;
  std::shared_ptr<const EngineSnapshot> m_snapshot;
  std::shared_ptr<const Model> m_sharedModel;
  EngineConfig m_sharedConfig;
  /// For the pool of the backend that runs; empty: that cannot go on.
  std::optional<CacheRoom> m_sharedRoom;
  bool m_sharedOnDevice = false;
  int m_sharedContext = 0;

  // The engine's thread alone.
  std::shared_ptr<const Model> m_model;
  std::unique_ptr<Backend> m_backend;
  Records m_records;
  std::unique_ptr<KvArchive> m_archive;    // null: nothing is kept on disk
  std::unique_ptr<Scheduler> m_scheduler;  // after the backend and the archive that it uses
  EngineConfig m_config;
  int m_contextTokens = 0;
  std::unique_ptr<Loaded> m_pending;
  std::optional<LeaveDevice> m_leaving;      // waits for running turns; then there is no backend
  std::deque<std::unique_ptr<Turn>> m_held;  // came while a change waits for running turns
  bool m_active = false;
  Turn::Clock::time_point m_published{};

  std::thread m_thread;
  std::unique_ptr<Worker> m_loader, m_prompts;
};

}  // namespace vitrine::engine

#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace vitrine::engine::test {

/// An Engine and everything that its events said, for tests that wait on it from their own thread.
class EngineHarness {
 public:
  struct Heard {
    std::optional<TurnReport> report;
    std::optional<Error> error;
    std::shared_ptr<const ModelInfo> info;
    std::string streamed;
    std::vector<GeneratedToken> tokens;
    std::vector<std::string> stages;
    int prefillEvents = 0;
    std::optional<Forecast> forecast;
    std::optional<CacheProof> proof;
    std::optional<BlockContent> block;
    bool started = false, unloaded = false, kept = false;
    bool ended() const {
      return report || error || info || unloaded || forecast || proof || block;
    }
  };

  EngineHarness() : engine([this](const Event& event) { hear(event); }) {}

  /// Waits until the request ends; what was heard of it. Fails the program after `limit`.
  Heard wait(RequestId id, std::chrono::seconds limit = std::chrono::seconds(280)) {
    return waitFor(
        id, [](const Heard& heard) { return heard.ended(); }, limit);
  }
  Heard waitFor(RequestId id, const std::function<bool(const Heard&)>& until,
                std::chrono::seconds limit = std::chrono::seconds(280)) {
    std::unique_lock lock(m_mutex);
    if (!m_changed.wait_for(lock, limit, [&] { return until(m_heard[id]); })) {
      std::fprintf(stderr, "request %llu did not get there in time\n",
                   static_cast<unsigned long long>(id));
      std::abort();
    }
    return m_heard[id];
  }

  Heard load(const std::filesystem::path& path, const EngineConfig& config = {}) {
    return wait(engine.load(path, config));
  }
  Heard reconfigure(const EngineConfig& config) { return wait(engine.reconfigure(config)); }
  Heard ask(GenerateRequest request) { return wait(engine.generate(std::move(request))); }

  /// The snapshot that the engine publishes once it has nothing left to do.
  std::shared_ptr<const EngineSnapshot> idleSnapshot() {
    while (true) {
      auto snapshot = engine.snapshot();
      if (snapshot->state == EngineState::kReady || snapshot->state == EngineState::kEmpty) {
        if (snapshot->runningSequences == 0 && snapshot->time > lastEvent()) return snapshot;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  std::vector<RequestId> endOrder() {
    const std::lock_guard lock(m_mutex);
    return m_endOrder;
  }

 private:
  std::chrono::steady_clock::time_point lastEvent() {
    const std::lock_guard lock(m_mutex);
    return m_lastEvent;
  }

  void hear(const Event& event) {
    const std::lock_guard lock(m_mutex);
    m_lastEvent = std::chrono::steady_clock::now();
    std::visit([this](const auto& one) { note(m_heard[one.id], one); }, event);
    const RequestId id = std::visit([](const auto& one) { return one.id; }, event);
    if (m_heard[id].ended()) m_endOrder.push_back(id);
    m_changed.notify_all();
  }
  static void note(Heard& heard, const LoadProgressed& e) { heard.stages.push_back(e.stage); }
  static void note(Heard& heard, const ModelLoaded& e) { heard.info = e.info; }
  static void note(Heard& heard, const ModelUnloaded&) { heard.unloaded = true; }
  static void note(Heard& heard, const LoadFailed& e) {
    heard.error = e.error;
    heard.kept = e.kept;
  }
  static void note(Heard& heard, const TurnStarted&) { heard.started = true; }
  static void note(Heard& heard, const PrefillProgressed&) { ++heard.prefillEvents; }
  static void note(Heard& heard, const TokensReady& e) {
    heard.streamed += e.text;
    heard.tokens.insert(heard.tokens.end(), e.tokens.begin(), e.tokens.end());
  }
  static void note(Heard& heard, const TurnFinished& e) { heard.report = e.report; }
  static void note(Heard& heard, const TurnFailed& e) { heard.error = e.error; }
  static void note(Heard& heard, const ForecastReady& e) { heard.forecast = e.forecast; }
  static void note(Heard& heard, const CacheVerified& e) { heard.proof = e.proof; }
  static void note(Heard& heard, const BlockInspected& e) { heard.block = e.content; }

  std::mutex m_mutex;
  std::condition_variable m_changed;
  std::map<RequestId, Heard> m_heard;
  std::vector<RequestId> m_endOrder;
  std::chrono::steady_clock::time_point m_lastEvent{};

 public:
  Engine engine;  // last: its thread uses the others until it is gone
};

inline GenerateRequest greedyChat(std::vector<ChatMessage> messages, int maxTokens = 0,
                                  std::string conversation = "c") {
  GenerateRequest request;
  request.prompt = ChatPrompt{std::move(messages)};
  request.sampling.temperature = 0;
  request.maxTokens = maxTokens;
  request.conversation = std::move(conversation);
  return request;
}

}  // namespace vitrine::engine::test

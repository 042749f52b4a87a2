#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"

namespace vitrine::app {

/// The events of one turn, for the one thread that waits for them. Destroying it stops the turn if
/// it still runs.
class TurnStream final {
 public:
  TurnStream(engine::Engine& engine, engine::RequestId id) : m_engine(engine), m_id(id) {}
  ~TurnStream();
  TurnStream(const TurnStream&) = delete;
  TurnStream& operator=(const TurnStream&) = delete;

  /// The next event, or nothing when `timeout` passed without one.
  std::optional<engine::Event> next(std::chrono::milliseconds timeout);
  engine::RequestId id() const { return m_id; }

 private:
  friend class EventRouter;
  void push(const engine::Event& event);

  engine::Engine& m_engine;
  const engine::RequestId m_id;
  std::mutex m_mutex;
  std::condition_variable m_arrived;
  std::deque<engine::Event> m_events;
  bool m_ended = false;
};

/// Hands the engine's events to the threads that wait for a turn. The engine's listener calls
/// deliver(); everything else may be called from any thread. Must outlive the engine's events.
class EventRouter final {
 public:
  /// Times of turns, in seconds, in the buckets that metrics publish.
  struct Histogram {
    explicit Histogram(std::vector<double> upperBounds)
        : bounds(std::move(upperBounds)), counts(bounds.size() + 1, 0) {}
    void add(double value);
    std::vector<double> bounds;         // ascending; the last bucket has none
    std::vector<std::uint64_t> counts;  // one more than bounds
    double sum = 0;
  };
  struct Totals {
    std::map<std::string, std::uint64_t> finished;  ///< turns by finish reason
    std::uint64_t failed = 0;
    Histogram ttft{{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}};
    Histogram tpot{{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1}};
    Histogram endToEnd{{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}};
  };

  void deliver(const engine::Event& event);
  /// Starts a turn whose events come out of the stream; none is lost.
  std::shared_ptr<TurnStream> start(engine::Engine& engine, engine::GenerateRequest request);
  /// The loaded model as the engine last reported it, or null.
  std::shared_ptr<const engine::ModelInfo> modelInfo() const;
  Totals totals() const;

 private:
  void count(const engine::Event& event);

  mutable std::mutex m_mutex;
  std::map<engine::RequestId, std::weak_ptr<TurnStream>> m_streams;
  int m_starting = 0;                  // calls of start() whose id is not known yet
  std::vector<engine::Event> m_early;  // events of such turns
  std::shared_ptr<const engine::ModelInfo> m_info;
  Totals m_totals;
};

/// "stop" (the model ended, or a stop text came), "length", or "abort".
const char* finishReason(engine::StopReason reason);

}  // namespace vitrine::app

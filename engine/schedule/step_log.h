#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_types.h"

namespace vitrine::engine {

/// The latest 256 steps: who was in each, and how long it took. A row shares the names of its turn,
/// so noting a step copies no text and, once the ring is full, allocates nothing. Inference thread
/// only.
class StepLog final {
 public:
  struct Name {
    std::string conversation, branch;
  };
  struct Row {
    RequestId turn = 0;
    std::shared_ptr<const Name> name;
    int prefillTokens = 0, decodeTokens = 0;
  };
  struct Step {
    std::uint64_t number = 0;
    std::chrono::steady_clock::time_point start;
    float milliseconds = 0;
    int waiting = 0;
    std::vector<Row> rows;
  };

  /// The next step's entry, its number set and its rows empty; valid until the call after.
  Step& add();
  /// Since the start.
  std::uint64_t count() const { return m_count; }
  /// The steps that are kept, the oldest first, with their names.
  std::vector<StepRecord> records() const;

 private:
  static constexpr std::size_t kKept = 256;

  std::array<Step, kKept> m_ring;
  std::uint64_t m_count = 0;
};

}  // namespace vitrine::engine

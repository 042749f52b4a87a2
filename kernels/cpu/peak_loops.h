#pragma once

#include <cstdint>

namespace vitrine::kernels::cpu {

/// Loops over registers alone that reach what the processor's arithmetic can do at most.
struct PeakLoop {
  /// Runs `rounds` rounds; returns a value that depends on all of them.
  float (*run)(std::int64_t rounds) = nullptr;
  double operationsPerRound = 0.0;  ///< a multiply-add counts as two
  const char* instruction = "";
};

/// The best loops that this processor can run.
PeakLoop int8PeakLoop();
PeakLoop bf16PeakLoop();

}  // namespace vitrine::kernels::cpu

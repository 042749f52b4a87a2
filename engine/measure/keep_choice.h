#pragma once

#include <cstdint>

#include "engine/measure/sensitivity.h"

namespace vitrine::engine {

/// Matrices to keep in FP16.
struct KeepChoice {
  MatrixSet matrices;
  std::uint64_t bytes = 0;  ///< that they take more than in INT8
  double share = 0.0;       ///< of what all there are to choose from lose alone
};

/// The `count` most sensitive layers of a report.
KeepChoice mostSensitiveLayers(const SensitivityReport& report, int count);

/// Those that lose most a byte, as many as take no more than `bytes`. What a matrix loses is what
/// it lost alone, where that was measured (`matrices`); else its layer's loss is shared among the
/// kinds as the kinds lose in all layers together. Needs one or the other; without, nothing is
/// chosen.
KeepChoice mostLossPerByte(const SensitivityReport& report, std::uint64_t bytes);

}  // namespace vitrine::engine

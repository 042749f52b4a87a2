#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/measure/evaluate.h"
#include "engine/quant/matrix_set.h"

namespace vitrine::engine {

struct SensitivityOptions {
  WeightPrecision precision;  ///< what is done to the matrices; `keep` is of no effect
  int context = 512;
  int chunk = 128;
  std::optional<TokenId> bos = std::nullopt;  ///< as EvaluationOptions::bos
  /// The reference's logits are kept, not computed again for each row, up to this.
  std::uint64_t referenceBytes = std::uint64_t{512} << 20;
  bool layers = true;     ///< each layer alone
  bool parts = true;      ///< each of q, k, v, o, gate, up, down of all layers; the output
  bool matrices = false;  ///< each matrix alone, the output among them
};

/// One quantized alone, everything else in FP16.
struct SensitivityRow {
  std::string name;  ///< as MatrixSet::text(): "3", "*.down", "3.down", "output"
  MatrixSet quantized;
  double klMean = 0.0, klP99 = 0.0, top1Agreement = 0.0;
  std::uint64_t bytesSaved = 0;  ///< by these in INT8 instead of FP16
};

struct SensitivityReport {
  std::vector<SensitivityRow> layers, parts, matrices;  // each by klMean, largest first
  EvaluationReport all;                                 ///< everything quantized
  std::int64_t tokens = 0;                              ///< scored
};

using BackendMaker = std::function<Result<std::unique_ptr<Backend>>(const WeightPrecision&)>;

/// Measures what each layer or kind of matrix loses when it alone is quantized, against everything
/// in FP16, over the same text (windows as in evaluate()). Progress names what is measured.
///
/// One backend lives at a time, beside the reference's logits (in memory, never on disk) or, where
/// those would take more than `referenceBytes`, the reference itself. Errors: kInvalidArgument for
/// weights that are not INT8 and as in evaluate(); what making a backend reports; kCancelled,
/// within a step of the model or of `make`.
Result<SensitivityReport> measureSensitivity(const BackendMaker& make, const ModelConfig& config,
                                             std::span<const TokenId> tokens,
                                             const SensitivityOptions& options,
                                             const Progress& progress = {},
                                             std::stop_token stop = {});

}  // namespace vitrine::engine

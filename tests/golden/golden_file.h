#pragma once

#include <string>
#include <vector>

#include "engine/base/types.h"

namespace vitrine::test {

/// One text of tests/golden/data (made by make_logits.py) with what an independent implementation
/// computed for each of its positions.
struct GoldenText {
  std::string name, text;
  bool controlTokens = false;  ///< a rendered template: control tokens are recognized
  std::vector<engine::TokenId> ids;
  std::vector<double> logNorm;                        // [ids] log Σ exp(logits)
  std::vector<std::vector<engine::TokenId>> bestIds;  // [ids][8]
  std::vector<std::vector<double>> bestLogprobs;      // [ids][8]
  std::vector<float> hidden;                          // [ids, dim], what enters the output matrix
};

/// All texts; throws std::runtime_error where a file is missing or not what it should be.
std::vector<GoldenText> readGoldenTexts(const std::string& folder, int& dim);

}  // namespace vitrine::test

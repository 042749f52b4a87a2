#pragma once

#include <span>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/model/weights.h"

// What moves range from one side of a product to the other. Plain arithmetic; QuantPlan says where
// it goes.

namespace vitrine::engine {

/// maxima[j] = max(maxima[j], |W[o, j]|) over all rows, as the file's values are in FP32.
void growColumnMaxima(const TensorView& matrix, std::span<float> maxima);

/// s_j = max|x_j|^α / max|W_·j|^(1−α) (Xiao et al. 2022, equation 4), divided by the geometric mean
/// of all, so that sizes stay what they were. A column whose input was never other than zero gets
/// 1; one whose weights are all zero gets what makes its input as large as the others'. No factor
/// leaves 2^-12 to 2^12: FP16 must hold what comes of it.
std::vector<float> smoothingFactors(std::span<const float> inputMax,
                                    std::span<const float> weightMax, float alpha);

/// What keys are divided by and queries multiplied by: [nKvHeads · headDim], the square root of the
/// largest magnitude of each rotated pair of elements (both rotate into each other, so they share
/// it; elements beyond rope.dims have their own), divided by the geometric mean of a head. The root,
/// because rounding errors of a key meet the multiplied queries. `keyMax` [kvDim].
/// `shared`: the same for all KV heads, where a norm's weight of headDim elements takes it.
std::vector<float> keyFactors(const ModelConfig& config, std::span<const float> keyMax,
                              bool shared);

/// 1 / each.
std::vector<float> inverses(std::span<const float> factors);

}  // namespace vitrine::engine

#pragma once

#include <cstdint>
#include <string>

#include "engine/model/model_config.h"

namespace vitrine::engine {

/// The matrices of a layer; kOutput is the one after the last layer (layer −1).
enum class MatrixPart : std::uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown, kOutput };
inline constexpr int kLayerParts = 7;
const char* nameOf(MatrixPart part);  // "q", "k", "v", "o", "gate", "up", "down", "output"

/// The rows that enter matrix products. q, k and v read the same ones, so do gate and up.
enum class LinearInput : std::uint8_t { kAttention, kAttentionOut, kFfn, kDown, kOutput };
inline constexpr int kLayerInputs = 4;
const char* nameOf(LinearInput input);  // "attention", "o", "ffn", "down", "output"

LinearInput inputOf(MatrixPart part);
/// Columns of the matrices that read it.
int widthOf(const ModelConfig& config, LinearInput input);

/// Sites are the inputs of all layers in order, then the output's: what calibration looks at.
constexpr int siteIndex(int layer, LinearInput input) {
  return layer * kLayerInputs + static_cast<int>(input);
}
constexpr int outputSite(int nLayers) {
  return nLayers * kLayerInputs;
}
constexpr int siteCount(int nLayers) {
  return nLayers * kLayerInputs + 1;
}
/// −1 for the output's.
constexpr int layerOfSite(int site, int nLayers) {
  return site == outputSite(nLayers) ? -1 : site / kLayerInputs;
}
constexpr LinearInput inputOfSite(int site, int nLayers) {
  return site == outputSite(nLayers) ? LinearInput::kOutput
                                     : static_cast<LinearInput>(site % kLayerInputs);
}
/// "layers.3.ffn", "output": for files and scripts.
std::string siteName(int site, int nLayers);

}  // namespace vitrine::engine

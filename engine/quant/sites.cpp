#include "engine/quant/sites.h"

#include <spdlog/fmt/fmt.h>

namespace vitrine::engine {

const char* nameOf(MatrixPart part) {
  switch (part) {
    case MatrixPart::kQ:
      return "q";
    case MatrixPart::kK:
      return "k";
    case MatrixPart::kV:
      return "v";
    case MatrixPart::kO:
      return "o";
    case MatrixPart::kGate:
      return "gate";
    case MatrixPart::kUp:
      return "up";
    case MatrixPart::kDown:
      return "down";
    case MatrixPart::kOutput:
      return "output";
  }
  return "?";
}

const char* nameOf(LinearInput input) {
  switch (input) {
    case LinearInput::kAttention:
      return "attention";
    case LinearInput::kAttentionOut:
      return "o";
    case LinearInput::kFfn:
      return "ffn";
    case LinearInput::kDown:
      return "down";
    case LinearInput::kOutput:
      return "output";
  }
  return "?";
}

LinearInput inputOf(MatrixPart part) {
  switch (part) {
    case MatrixPart::kQ:
    case MatrixPart::kK:
    case MatrixPart::kV:
      return LinearInput::kAttention;
    case MatrixPart::kO:
      return LinearInput::kAttentionOut;
    case MatrixPart::kGate:
    case MatrixPart::kUp:
      return LinearInput::kFfn;
    case MatrixPart::kDown:
      return LinearInput::kDown;
    case MatrixPart::kOutput:
      break;
  }
  return LinearInput::kOutput;
}

int widthOf(const ModelConfig& config, LinearInput input) {
  switch (input) {
    case LinearInput::kAttentionOut:
      return config.qDim();
    case LinearInput::kDown:
      return config.dFfn;
    case LinearInput::kAttention:
    case LinearInput::kFfn:
    case LinearInput::kOutput:
      break;
  }
  return config.dModel;
}

std::string siteName(int site, int nLayers) {
  const LinearInput input = inputOfSite(site, nLayers);
  if (input == LinearInput::kOutput) return nameOf(input);
  return fmt::format("layers.{}.{}", layerOfSite(site, nLayers), nameOf(input));
}

}  // namespace vitrine::engine

#pragma once

#include <string>

#include "engine/model/model_config.h"

namespace vitrine::device {

/// A model's shape with nothing in it.
struct Shape {
  std::string name;
  engine::ModelConfig config;
  bool tiedOutput = false;
};

inline Shape makeShape(std::string name, int layers, int dModel, int heads, int kvHeads,
                       int headDim, int dFfn, int vocabulary, bool tiedOutput) {
  Shape shape;
  shape.name = std::move(name);
  shape.tiedOutput = tiedOutput;
  engine::ModelConfig& c = shape.config;
  c.architecture = "llama";
  c.nLayers = layers;
  c.dModel = dModel;
  c.nHeads = heads;
  c.nKvHeads = kvHeads;
  c.headDim = headDim;
  c.dFfn = dFfn;
  c.vocabSize = vocabulary;
  c.contextLength = 1 << 16;
  c.rope.style = engine::RopeStyle::kHalves;
  c.rope.dims = headDim;
  c.rope.base = 500000.0F;
  return shape;
}

/// Qwen2.5-0.5B, Llama-3.2-1B, Llama-3.1-8B; `tiny` runs anywhere.
inline Shape shape05B() {
  return makeShape("0.5B", 24, 896, 14, 2, 64, 4864, 151936, true);
}
inline Shape shape1B() {
  return makeShape("1B", 16, 2048, 32, 8, 64, 8192, 128256, true);
}
inline Shape shape8B() {
  return makeShape("8B", 32, 4096, 32, 8, 128, 14336, 128256, false);
}
inline Shape shapeTiny() {
  return makeShape("tiny", 2, 128, 4, 2, 32, 256, 512, false);
}

}  // namespace vitrine::device

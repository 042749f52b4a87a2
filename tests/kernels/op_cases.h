#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/api/tensor_type.h"

// The operations of kernels/api as values, so that one table of cases can run on every backend.
// An input owns its numbers; a backend takes an input and returns the output, doing inside
// whatever it needs (repacking, quantizing, filling a cache).

namespace vitrine::test {

using Floats = std::vector<float>;
using kernels::TensorType;

struct EmbeddingInput {
  TensorType type = TensorType::kF32;
  int vocab = 0, dim = 0;
  float scale = 1.0F;
  std::vector<std::byte> table;  // [vocab] rows of the type
  std::vector<std::int32_t> tokens;
};

struct RmsNormInput {
  int rows = 0, dim = 0;
  float eps = 1e-5F;
  Floats x, weight;
};

struct LinearInput {
  int rows = 0, out = 0, in = 0;
  TensorType type = TensorType::kF32;
  std::vector<std::byte> weight;  // [out] rows of the type
  Floats x, bias;                 // bias empty: none
};

/// W and x are FP32; the backend quantizes W in groups, and x too where `int8Activations`.
struct Int8LinearInput {
  int rows = 0, out = 0, in = 0, groupSize = 32;
  bool int8Activations = false;
  Floats weight, x, bias;
};

struct RopeInput {
  int rows = 0, nHeads = 0, headDim = 0, dims = 0;
  bool halves = false;
  float base = 10000.0F, linearScale = 1.0F;
  Floats freqFactors;  // empty: none
  std::vector<std::int32_t> positions;
  Floats x;
};

struct HadamardInput {
  int rows = 0, headDim = 0;
  Floats x;  // [rows, headDim]
};

/// k and v of all positions are appended to an empty cache through `blockTable`, then the last
/// `rows` positions attend.
struct AttentionInput {
  int rows = 0, length = 0, nHeads = 0, nKvHeads = 0, headDim = 0;
  int blockSize = 16, nBlocks = 0;
  bool int8 = false;
  float scale = 1.0F, softcap = 0.0F;
  int window = 0;
  std::vector<std::int32_t> blockTable;
  Floats k, v;  // [length, nKvHeads, headDim]
  Floats q;     // [rows, nHeads, headDim]
};

struct GateInput {
  bool gelu = false;
  Floats gate, up;
};

struct AddInput {
  Floats y, x;
};

struct SoftmaxInput {
  Floats x;
};

/// Each backend (and each instruction set of the cpu backend) is one of these. An empty function
/// means that the backend has no kernel of its own for it.
struct OpBackend {
  std::string name;
  std::function<Floats(const EmbeddingInput&)> embedding;
  std::function<Floats(const RmsNormInput&)> rmsNorm;
  std::function<Floats(const LinearInput&)> linear;
  std::function<Floats(const Int8LinearInput&)> int8Linear;
  std::function<Floats(const RopeInput&)> rope;
  std::function<Floats(const HadamardInput&)> hadamard;
  std::function<Floats(const AttentionInput&)> attention;
  std::function<Floats(const GateInput&)> gate;
  std::function<Floats(const AddInput&)> add;
  std::function<Floats(const SoftmaxInput&)> softmax;
  /// Allowed error of products with weights and of attention, relative to the sum of magnitudes:
  /// what the backend's own number formats cost (BF16 activations, say). FP32 by default.
  double linearTolerance = 2e-6;
  double int8LinearTolerance = 2e-6;
  double int8Linear64Tolerance = 2e-6;  ///< W8A8 with larger groups than 32
  double attentionTolerance = 2e-6;
  double int8AttentionTolerance = 2e-6;
};

OpBackend referenceOps();

/// Every backend of this build that can run on this processor, the reference first. With
/// VITRINE_OP_BACKEND, a name, only that one and the reference.
std::vector<OpBackend> opBackends();

}  // namespace vitrine::test

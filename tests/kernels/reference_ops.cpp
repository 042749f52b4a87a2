#include <algorithm>

#include "kernels/api/quantize.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/op_cases.h"

namespace vitrine::test {

namespace ref = kernels::reference;

namespace {

std::size_t rowBytes(TensorType type, int n) {
  const auto info = kernels::tensorTypeInfo(type);
  return static_cast<std::size_t>(n / info.blockValues) * info.blockBytes;
}

const float* dataOrNull(const Floats& values) {
  return values.empty() ? nullptr : values.data();
}

Floats embedding(const EmbeddingInput& in) {
  Floats y(in.tokens.size() * in.dim);
  ref::embedding(in.type, in.table.data(), rowBytes(in.type, in.dim), in.tokens.data(),
                 static_cast<int>(in.tokens.size()), in.dim, in.scale, y.data());
  return y;
}

Floats rmsNorm(const RmsNormInput& in) {
  Floats y(in.x.size());
  ref::rmsNorm(in.x.data(), in.weight.data(), y.data(), in.rows, in.dim, in.eps);
  return y;
}

Floats linear(const LinearInput& in) {
  Floats y(static_cast<std::size_t>(in.rows) * in.out);
  ref::linearFile(in.x.data(), in.type, in.weight.data(), rowBytes(in.type, in.in),
                  dataOrNull(in.bias), y.data(), in.rows, in.out, in.in);
  return y;
}

Floats int8Linear(const Int8LinearInput& in) {
  kernels::Int8Matrix matrix{nullptr, nullptr, in.out, in.in, in.groupSize};
  std::vector<std::int8_t> q(in.weight.size());
  Floats scales(static_cast<std::size_t>(in.out) * matrix.groups());
  for (int o = 0; o < in.out; ++o) {
    kernels::quantizeInt8Groups(in.weight.data() + static_cast<std::size_t>(o) * in.in,
                                q.data() + static_cast<std::size_t>(o) * in.in,
                                scales.data() + static_cast<std::size_t>(o) * matrix.groups(),
                                in.in, in.groupSize);
  }
  matrix.q = q.data();
  matrix.scales = scales.data();
  Floats y(static_cast<std::size_t>(in.rows) * in.out);
  const auto run = in.int8Activations ? ref::linearInt8Activations : ref::linearInt8;
  run(in.x.data(), matrix, dataOrNull(in.bias), y.data(), in.rows);
  return y;
}

Floats rope(const RopeInput& in) {
  Floats x = in.x;
  kernels::RopeParams params{in.rows,   in.nHeads, in.headDim,     in.dims,
                             in.halves, in.base,   in.linearScale, dataOrNull(in.freqFactors)};
  ref::rope(x.data(), in.positions.data(), params);
  return x;
}

Floats hadamard(const HadamardInput& in) {
  Floats x = in.x;
  ref::hadamard(x.data(), in.rows, in.headDim);
  return x;
}

Floats attention(const AttentionInput& in) {
  const std::size_t slots = static_cast<std::size_t>(in.nKvHeads) * in.blockSize;
  const std::size_t valueBytes = slots * in.headDim * (in.int8 ? 1 : 2);
  const std::size_t scaleBytes = in.int8 ? slots * sizeof(float) : 0;
  kernels::KvLayerView cache;
  cache.blockStride = 2 * (valueBytes + scaleBytes);
  cache.vOffset = valueBytes;
  cache.kScaleOffset = 2 * valueBytes;
  cache.vScaleOffset = 2 * valueBytes + scaleBytes;
  cache.element = in.int8 ? kernels::KvElement::kInt8 : kernels::KvElement::kFp16;
  cache.blockSize = in.blockSize;
  cache.nKvHeads = in.nKvHeads;
  cache.headDim = in.headDim;
  // What lies in a block before it is written must not matter: fill with NaN patterns.
  std::vector<std::byte> pool(cache.blockStride * in.nBlocks, std::byte{0xFF});
  cache.base = pool.data();
  ref::kvAppend(cache, in.blockTable.data(), 0, in.k.data(), in.v.data(), in.length);
  kernels::AttentionParams params;
  params.rows = in.rows;
  params.firstPosition = in.length - in.rows;
  params.nHeads = in.nHeads;
  params.scale = in.scale;
  params.softcap = in.softcap;
  params.window = in.window;
  params.blockTable = in.blockTable.data();
  Floats y(in.q.size());
  ref::attention(in.q.data(), cache, y.data(), params);
  return y;
}

Floats gate(const GateInput& in) {
  Floats y(in.gate.size());
  const auto run = in.gelu ? ref::geglu : ref::swiglu;
  run(in.gate.data(), in.up.data(), y.data(), y.size());
  return y;
}

Floats add(const AddInput& in) {
  Floats y = in.y;
  ref::add(y.data(), in.x.data(), y.size());
  return y;
}

Floats softmax(const SoftmaxInput& in) {
  Floats x = in.x;
  ref::softmax(x.data(), static_cast<int>(x.size()));
  return x;
}

}  // namespace

OpBackend referenceOps() {
  OpBackend ops;
  ops.name = "reference";
  ops.embedding = embedding;
  ops.rmsNorm = rmsNorm;
  ops.linear = linear;
  ops.int8Linear = int8Linear;
  ops.rope = rope;
  ops.hadamard = hadamard;
  ops.attention = attention;
  ops.gate = gate;
  ops.add = add;
  ops.softmax = softmax;
  return ops;
}

}  // namespace vitrine::test

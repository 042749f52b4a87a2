#include <cmath>

#include "kernels/cuda/rope.h"
#include "kernels/cuda/rows.h"
#include "tests/kernels/cuda_ops.h"

namespace vitrine::test {

namespace cuda = kernels::cuda;

namespace {

/// The first `width` columns of each row.
Floats columns(const Floats& values, int rows, int stride, int width) {
  Floats result;
  for (int r = 0; r < rows; ++r) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(r) * stride;
    result.insert(result.end(), first, first + width);
  }
  return result;
}

Floats embedding(const EmbeddingInput& in) {
  const auto table = onDevice(in.table);
  const auto tokens = onDevice(in.tokens);
  const int rows = static_cast<int>(in.tokens.size());
  const auto x = filled<float>(in.tokens.size() * static_cast<std::size_t>(in.dim));
  const cuda::EmbeddingTable view = {in.type, table.data(),
                                     in.table.size() / static_cast<std::size_t>(in.vocab), in.dim};
  cuda::embed(testStream(), view, tokens.data(), rows, in.scale, x.data());
  return toHost(x);
}

Floats rmsNorm(const RmsNormInput& in) {
  const auto x = onDevice(in.x);
  const auto weight = onDevice(in.weight);
  const DeviceRows y(cuda::RowType::kFp32, in.rows, in.dim);
  cuda::rmsNorm(testStream(), {x.data(), nullptr, weight.data(), in.rows, in.dim, in.eps, y.view});
  return columns(y.values(), in.rows, y.view.stride, in.dim);
}

/// The heads as queries of a step; one KV head beside them goes to a cache that nobody reads.
Floats rope(const RopeInput& in) {
  const int pairs = in.dims / 2;
  std::vector<double> turns;
  for (int i = 0; i < pairs; ++i) {
    double radians = std::pow(static_cast<double>(in.base), -2.0 * i / in.dims) / in.linearScale;
    if (!in.freqFactors.empty()) radians /= in.freqFactors[static_cast<std::size_t>(i)];
    turns.push_back(radians / (2.0 * 3.14159265358979323846));
  }
  cuda::RopeAppendParams p;
  p.heads = {in.nHeads, 1, in.headDim};
  Floats qkv;
  std::vector<std::int32_t> sequences;
  std::vector<std::vector<std::int32_t>> tables;
  const int qDim = in.nHeads * in.headDim;
  const int longest = *std::max_element(in.positions.begin(), in.positions.end());
  for (int r = 0; r < in.rows; ++r) {
    const auto first = in.x.begin() + static_cast<std::ptrdiff_t>(r) * qDim;
    qkv.insert(qkv.end(), first, first + qDim);
    qkv.insert(qkv.end(), static_cast<std::size_t>(2 * in.headDim), 0.5F);
    // Each row is a sequence of its own, and all of its blocks are one.
    sequences.push_back(r);
    tables.emplace_back(static_cast<std::size_t>(longest / 16 + 1), r);
  }
  DeviceCache cache(kernels::KvElement::kFp16, 16, 1, in.headDim, in.rows);
  const auto device = onDevice(qkv);
  const auto turnsOnDevice = onDevice(turns);
  const auto angles = filled<float2>(static_cast<std::size_t>(in.rows) * pairs);
  p.qkv = device.data();
  p.angles = angles.data();
  p.pairs = pairs;
  p.halves = in.halves;
  p.step = cache.step(in.positions, sequences, tables);
  p.kv = cache.layer;
  cuda::ropeAngles(testStream(), p.step.positions, turnsOnDevice.data(), in.rows, pairs,
                   angles.data());
  cuda::ropeAppend(testStream(), p);
  return columns(toHost(device), in.rows, p.heads.qkvDim(), qDim);
}

/// The heads as queries of one row beside an INT8 cache, with no rotation.
Floats hadamard(const HadamardInput& in) {
  cuda::RopeAppendParams p;
  p.heads = {in.rows, 1, in.headDim};
  Floats qkv = in.x;
  qkv.resize(qkv.size() + static_cast<std::size_t>(2 * in.headDim), 0.5F);
  DeviceCache cache(kernels::KvElement::kInt8, 16, 1, in.headDim, 1);
  const auto device = onDevice(qkv);
  p.qkv = device.data();
  p.step = cache.step({0}, {0}, {{0}});
  p.kv = cache.layer;
  cuda::ropeAppend(testStream(), p);
  return columns(toHost(device), 1, p.heads.qkvDim(), p.heads.qDim());
}

Floats gate(const GateInput& in) {
  Floats both = in.gate;
  both.insert(both.end(), in.up.begin(), in.up.end());
  const auto gateUp = onDevice(both);
  const int width = static_cast<int>(in.gate.size());
  const DeviceRows y(cuda::RowType::kFp32, 1, width);
  cuda::gate(testStream(), {gateUp.data(), 1, width, in.gelu, y.view});
  return columns(y.values(), 1, y.view.stride, width);
}

}  // namespace

void addCudaRowOps(OpBackend& ops) {
  ops.embedding = embedding;
  ops.rmsNorm = rmsNorm;
  ops.rope = rope;
  ops.hadamard = hadamard;
  ops.gate = gate;
}

}  // namespace vitrine::test

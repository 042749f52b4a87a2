#pragma once

#include "kernels/cuda/attention.h"
#include "tests/kernels/cuda_ops.h"

namespace vitrine::test {

/// Sequences whose K and V lie in blocks, in no order and with foreign blocks between them, and
/// rows that attend to them.
struct AttentionScene {
  int nHeads = 1, nKvHeads = 1, headDim = 64, blockSize = 16;
  bool int8 = false;
  float scale = 1.0F, softcap = 0.0F;
  int window = 0;
  std::vector<Floats> k, v;                       // of each sequence [length, nKvHeads, headDim]
  std::vector<std::vector<std::int32_t>> tables;  // of each sequence: its blocks
  int nBlocks = 0;
  std::vector<std::int32_t> positions, sequences;  // of each row; position −1: padding
  Floats q;                                        // [rows, nHeads, headDim]

  int rows() const { return static_cast<int>(positions.size()); }
  int width() const { return nHeads * headDim; }
};

/// What kernels::reference makes of it, one row at a time; zeros for padding.
Floats referenceAttention(const AttentionScene& scene);

/// The same scene on the device. Blocks hold NaN where nothing was appended.
class DeviceAttention {
 public:
  explicit DeviceAttention(const AttentionScene& scene,
                           kernels::cuda::RowType type = kernels::cuda::RowType::kFp32);
  DeviceAttention(const DeviceAttention&) = delete;
  DeviceAttention& operator=(const DeviceAttention&) = delete;

  /// [rows, nHeads · headDim]; throws std::logic_error if a column behind them is not zero.
  Floats decode(int splits);
  /// All rows, which are one sequence's, in chunks of at most `chunk` rows.
  Floats prefill(int chunk);

  kernels::cuda::AttentionParams params;

 private:
  Floats result(const DeviceRows& y) const;

  const AttentionScene& m_scene;
  kernels::cuda::RowType m_type;
  DeviceCache m_cache;
  kernels::cuda::DeviceBuffer<float> m_q;
};

}  // namespace vitrine::test

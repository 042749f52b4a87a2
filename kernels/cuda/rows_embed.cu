#include "kernels/cuda/device.cuh"
#include "kernels/cuda/rows.h"

namespace vitrine::kernels::cuda {
namespace {

constexpr int kThreads = 128;

__device__ __forceinline__ std::uint16_t word16(const std::byte* p) {
  return *reinterpret_cast<const std::uint16_t*>(p);
}

/// Value `column` of a table's row.
template <TensorType kType>
__device__ __forceinline__ float valueAt(const std::byte* row, int column) {
  if constexpr (kType == TensorType::kF32) {
    return reinterpret_cast<const float*>(row)[column];
  } else if constexpr (kType == TensorType::kF16) {
    return fromHalfBits(word16(row + 2 * static_cast<std::ptrdiff_t>(column)));
  } else if constexpr (kType == TensorType::kBF16) {
    return fromBf16Bits(word16(row + 2 * static_cast<std::ptrdiff_t>(column)));
  } else {
    const std::byte* block =
        row + static_cast<std::ptrdiff_t>(column / 32) * tensorTypeInfo(kType).blockBytes;
    const int i = column % 32;
    const float d = fromHalfBits(word16(block));
    if constexpr (kType == TensorType::kQ8_0) {
      return d * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
    } else {
      constexpr int kHeader = kType == TensorType::kQ4_0 ? 2 : 4;
      const int pair = static_cast<int>(block[kHeader + i % 16]);
      const int q = i < 16 ? pair & 15 : pair >> 4;
      if constexpr (kType == TensorType::kQ4_0) return d * static_cast<float>(q - 8);
      return d * static_cast<float>(q) + fromHalfBits(word16(block + 2));  // the product is exact
    }
  }
}

// x[r,:] = scale · E[tokens[r],:]; a token of −1 gives zeros
// E [vocab, rowBytes] as in the file, rows 2-byte aligned (4-byte for F32); x [rows, dim] FP32
// blocks (row, 128 columns), a thread a column
// moves rows · (rowBytes + 4 · dim) bytes; a few rows a step, so its loads are left narrow
// reference: kernels::reference::embedding; exact but for the product with `scale`
template <TensorType kType>
__global__ void __launch_bounds__(kThreads)
    embedKernel(EmbeddingTable table, const std::int32_t* tokens, float scale, float* x) {
  const int column = blockIdx.y * kThreads + threadIdx.x;
  if (column >= table.dim) return;
  const int token = tokens[blockIdx.x];
  float value = 0.0F;
  if (token >= 0) {
    const std::byte* row = table.data + static_cast<std::size_t>(token) * table.rowBytes;
    value = scale * valueAt<kType>(row, column);
  }
  x[static_cast<std::size_t>(blockIdx.x) * table.dim + column] = value;
}

}  // namespace

void embed(cudaStream_t stream, const EmbeddingTable& table, const std::int32_t* tokens, int rows,
           float scale, float* x) {
  const TensorTypeInfo info = tensorTypeInfo(table.type);
  require(table.dim >= 1 && table.dim % info.blockValues == 0, "embed: rows of part blocks");
  require(table.rowBytes >= static_cast<std::size_t>(table.dim / info.blockValues) *
                                static_cast<std::size_t>(info.blockBytes),
          "embed: rows longer than the table's");
  const std::size_t alignment = table.type == TensorType::kF32 ? 4 : 2;
  require(isAligned(table.data, alignment) && table.rowBytes % alignment == 0,
          "embed: a table that is not aligned");
  if (rows == 0) return;
  const auto run = [&](auto kernel) {
    const Launch where = {stream, dim3(rows, ceilDiv(table.dim, kThreads)), kThreads};
    launchKernel("embed", kernel, where, table, tokens, scale, x);
  };
  switch (table.type) {
    case TensorType::kF32:
      return run(embedKernel<TensorType::kF32>);
    case TensorType::kF16:
      return run(embedKernel<TensorType::kF16>);
    case TensorType::kBF16:
      return run(embedKernel<TensorType::kBF16>);
    case TensorType::kQ8_0:
      return run(embedKernel<TensorType::kQ8_0>);
    case TensorType::kQ4_0:
      return run(embedKernel<TensorType::kQ4_0>);
    case TensorType::kQ4_1:
      return run(embedKernel<TensorType::kQ4_1>);
  }
}

}  // namespace vitrine::kernels::cuda

#pragma once

#include <cstddef>
#include <cstdint>

// Paged KV cache. Storage is an array of blocks; a block holds K and V of `blockSize` consecutive
// positions of one sequence, for all layers. A sequence finds position p in block
// table[p / blockSize], slot p % blockSize.
//
// What a layer has in a block: four runs, each a number of bytes into the block:
//   K, V           [nKvHeads, blockSize, headDim]  FP16 bits, or int8
//   K, V scales    [nKvHeads, blockSize]           FP32, for int8 only: one a token and KV head
//
// Append writes k and v of new tokens (after RoPE). FP16: rounded to nearest even; magnitudes that
// FP16 cannot hold become ±65504, so that one large value does not turn an answer into NaN.
// INT8: quantizeInt8() of the headDim values of each head. Keys, and the queries that meet them, are
// transformed before (kernels/api/hadamard.h); append and attention do not know of it.
// Source of the layout's idea: Kwon et al. 2023, "Efficient Memory Management for Large Language
// Model Serving with PagedAttention".

namespace vitrine::kernels {

enum class KvElement : std::uint8_t { kFp16, kInt8 };

/// One layer's part of the pool. A view.
struct KvLayerView {
  std::byte* base = nullptr;    ///< block 0
  std::size_t blockStride = 0;  ///< bytes from a block to the next
  std::size_t kOffset = 0;      ///< bytes into a block
  std::size_t vOffset = 0;
  std::size_t kScaleOffset = 0;  ///< int8 only; 4-byte aligned
  std::size_t vScaleOffset = 0;
  KvElement element = KvElement::kFp16;
  int blockSize = 16;
  int nKvHeads = 0;
  int headDim = 0;
};

}  // namespace vitrine::kernels

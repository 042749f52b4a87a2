#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/api/half.h"
#include "kernels/api/quantize.h"
#include "kernels/reference/reference.h"

namespace vitrine::kernels::reference {
namespace {

struct Slot {
  std::byte* block;
  int row;  // of the [nKvHeads, blockSize] rows
};

Slot slotOf(const KvLayerView& cache, const std::int32_t* blockTable, int position, int head) {
  const std::size_t block = static_cast<std::size_t>(blockTable[position / cache.blockSize]);
  return {cache.base + block * cache.blockStride,
          head * cache.blockSize + position % cache.blockSize};
}

void store(const KvLayerView& cache, Slot slot, std::size_t offset, std::size_t scaleOffset,
           const float* values) {
  const std::size_t first = static_cast<std::size_t>(slot.row) * cache.headDim;
  if (cache.element == KvElement::kInt8) {
    auto* q = reinterpret_cast<std::int8_t*>(slot.block + offset) + first;
    const float scale = quantizeInt8(values, q, cache.headDim);
    std::memcpy(slot.block + scaleOffset + sizeof(float) * slot.row, &scale, sizeof scale);
    return;
  }
  std::byte* to = slot.block + offset + first * sizeof(std::uint16_t);
  for (int i = 0; i < cache.headDim; ++i, to += sizeof(std::uint16_t)) {
    const std::uint16_t half = floatToHalfSaturated(values[i]);
    std::memcpy(to, &half, sizeof half);
  }
}

void load(const KvLayerView& cache, Slot slot, std::size_t offset, std::size_t scaleOffset,
          float* values) {
  const std::size_t first = static_cast<std::size_t>(slot.row) * cache.headDim;
  if (cache.element == KvElement::kInt8) {
    const auto* q = reinterpret_cast<const std::int8_t*>(slot.block + offset) + first;
    float scale;
    std::memcpy(&scale, slot.block + scaleOffset + sizeof(float) * slot.row, sizeof scale);
    for (int i = 0; i < cache.headDim; ++i) values[i] = scale * static_cast<float>(q[i]);
    return;
  }
  const std::byte* from = slot.block + offset + first * sizeof(std::uint16_t);
  for (int i = 0; i < cache.headDim; ++i, from += sizeof(std::uint16_t)) {
    std::uint16_t half;
    std::memcpy(&half, from, sizeof half);
    values[i] = halfToFloat(half);
  }
}

}  // namespace

void kvAppend(const KvLayerView& cache, const std::int32_t* blockTable, int firstPosition,
              const float* k, const float* v, int rows) {
  for (int r = 0; r < rows; ++r) {
    for (int head = 0; head < cache.nKvHeads; ++head, k += cache.headDim, v += cache.headDim) {
      const Slot slot = slotOf(cache, blockTable, firstPosition + r, head);
      store(cache, slot, cache.kOffset, cache.kScaleOffset, k);
      store(cache, slot, cache.vOffset, cache.vScaleOffset, v);
    }
  }
}

void attention(const float* q, const KvLayerView& cache, float* y, const AttentionParams& params) {
  const int headDim = cache.headDim;
  const int group = params.nHeads / cache.nKvHeads;  // query heads of one KV head
  const int lastPosition = params.firstPosition + params.rows - 1;
  std::vector<float> scores(static_cast<std::size_t>(group) * (lastPosition + 1));
  std::vector<float> kv(static_cast<std::size_t>(headDim));

  for (int r = 0; r < params.rows; ++r) {
    const int position = params.firstPosition + r;
    const int begin = params.window > 0 ? std::max(0, position - params.window + 1) : 0;
    const int count = position + 1 - begin;
    for (int kvHead = 0; kvHead < cache.nKvHeads; ++kvHead) {
      const std::size_t firstHead = static_cast<std::size_t>(r) * params.nHeads + kvHead * group;
      const float* queries = q + firstHead * headDim;  // [group, headDim]
      float* outputs = y + firstHead * headDim;

      for (int j = 0; j < count; ++j) {
        load(cache, slotOf(cache, params.blockTable, begin + j, kvHead), cache.kOffset,
             cache.kScaleOffset, kv.data());
        for (int g = 0; g < group; ++g) {
          const float s = params.scale * dot(queries + g * headDim, kv.data(), headDim);
          scores[static_cast<std::size_t>(g) * count + j] = s;
        }
      }
      for (int g = 0; g < group; ++g) {
        float* row = scores.data() + static_cast<std::size_t>(g) * count;
        if (params.softcap > 0.0F) softcap(row, params.softcap, static_cast<std::size_t>(count));
        softmax(row, count);
      }
      std::fill(outputs, outputs + static_cast<std::size_t>(group) * headDim, 0.0F);
      for (int j = 0; j < count; ++j) {
        load(cache, slotOf(cache, params.blockTable, begin + j, kvHead), cache.vOffset,
             cache.vScaleOffset, kv.data());
        for (int g = 0; g < group; ++g) {
          const float p = scores[static_cast<std::size_t>(g) * count + j];
          for (int i = 0; i < headDim; ++i) outputs[g * headDim + i] += p * kv[i];
        }
      }
    }
  }
}

}  // namespace vitrine::kernels::reference

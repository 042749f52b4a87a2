#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/activation.h"
#include "kernels/api/attention.h"
#include "kernels/api/elementwise.h"
#include "kernels/api/embedding.h"
#include "kernels/api/kv_cache.h"
#include "kernels/api/linear.h"
#include "kernels/api/rms_norm.h"
#include "kernels/api/rope.h"

// The operations of kernels/api in plain FP32 loops. Slow, obviously right: every other kernel is
// tested against these. Formulas and shapes are in the operation's header.

namespace vitrine::kernels::reference {

/// y [rows, dim] = scale · table[tokens[r], :]; `rowBytes` is one row of the table in the file.
void embedding(TensorType type, const std::byte* table, std::size_t rowBytes,
               const std::int32_t* tokens, int rows, int dim, float scale, float* y);

void rmsNorm(const float* x, const float* weight, float* y, int rows, int dim, float eps);

/// y [rows, out] = x [rows, in] · W [out, in]ᵀ + bias; bias may be null.
void linear(const float* x, const float* weight, const float* bias, float* y, int rows, int out,
            int in);

/// The same with W as it lies in a model file.
void linearFile(const float* x, TensorType type, const std::byte* weight, std::size_t rowBytes,
                const float* bias, float* y, int rows, int out, int in);

/// The same with W in INT8 groups, activations as they are (W8A16).
void linearInt8(const float* x, const Int8Matrix& weight, const float* bias, float* y, int rows);

/// The same with x quantized row by row in groups of weight.groupSize (W8A8).
void linearInt8Activations(const float* x, const Int8Matrix& weight, const float* bias, float* y,
                           int rows);

/// Rows that are integers already: x[r, i] = scales[r, i / groupSize] · q[r, i]. A view.
struct IntegerRows {
  const std::int16_t* q = nullptr;  // [rows, in]
  const float* scales = nullptr;    // [rows, ceil(in / groupSize)]
  int groupSize = 32;               ///< `in`: one scale a row

  int groups(int in) const { return (in + groupSize - 1) / groupSize; }
};

/// The exact integer product, the judge of the integer kernels bit for bit: sums inside a group of
/// x in integers, each made FP32 once and multiplied by (s · sx), groups added in order. `fused`:
/// with one rounding for a multiply and its add, as processors with such an instruction do it.
/// Requires: weight.groupSize is a multiple of x.groupSize; 127 · max|q| · x.groupSize < 2^31.
void linearIntegers(const IntegerRows& x, const Int8Matrix& weight, float* y, int rows, bool fused);

/// x [rows, nHeads, headDim] in place; positions [rows].
void rope(float* x, const std::int32_t* positions, const RopeParams& params);

/// x [rows, headDim] in place.
void hadamard(float* x, int rows, int headDim);

/// k, v [rows, nKvHeads, headDim] to positions firstPosition … of a sequence.
void kvAppend(const KvLayerView& cache, const std::int32_t* blockTable, int firstPosition,
              const float* k, const float* v, int rows);

/// q, y [rows, nHeads, headDim].
void attention(const float* q, const KvLayerView& cache, float* y, const AttentionParams& params);

void swiglu(const float* gate, const float* up, float* y, std::size_t n);
void geglu(const float* gate, const float* up, float* y, std::size_t n);
void add(float* y, const float* x, std::size_t n);
void softmax(float* x, int n);
void softcap(float* x, float cap, std::size_t n);

/// Σ a_i · b_i in the one order that all sums of products here use.
float dot(const float* a, const float* b, int n);

}  // namespace vitrine::kernels::reference

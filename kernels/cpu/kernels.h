#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/quantize.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/packed_matrix.h"

// The fast kernels of one instruction set, as a table of functions. Formulas and tolerances are in
// kernels/api. Every kernel computes each output by one fixed sequence of operations, whatever the
// number of rows: equal inputs give equal bits alone or in a batch.

namespace vitrine::kernels::cpu {

/// Input of a matrix product, as the kernels for a weight format want it.
enum class ActivationFormat : std::uint8_t {
  kF32,    ///< for F32, F16 and BF16 weights
  kBf16,   ///< rounded to bfloat16, for BF16 weights where a dot instruction for it is fast
  kInt16,  ///< groups of 32 integers of 16 bits with an FP32 scale: INT8 and 4-bit weights ("A16")
  kInt8,   ///< groups of 32 integers of 8 bits with an FP32 scale ("A8")
  kInt8Row,  ///< integers of 8 bits with one FP32 scale, for INT8 weights with a scale a row
};
inline constexpr int kActivationFormats = 5;

/// Rows ready for a matrix product. The bytes of `data` are the kernels' own matter.
struct Activations {
  ActivationFormat format = ActivationFormat::kF32;
  int groups = 0;  ///< of 32 columns, the last padded with zeros
  std::size_t rowBytes = 0;
  std::byte* data = nullptr;        // [rows, rowBytes], 64-byte aligned
  float* scales = nullptr;          // [rows, groups], integers only
  std::int32_t* offsets = nullptr;  // [rows, groups] −128 · sum of the group's integers
  float* sums = nullptr;            // [rows, groups] scale · sum of the group's integers
  // kInt8Row: the first of a row's [groups] in `scales` and `offsets`, for all of the row.

  /// 8 bits: > 0 is the scale of every row; else each group or row has its own.
  float fixedScale = 0.0F;
  Int8Use* use = nullptr;  ///< counts on what a fixed scale meets; may be null
};
std::size_t activationRowBytes(ActivationFormat format, int groups);

/// y[m, r] (+)= Σ_k x[m, k] · W[r, k] for rows [16 · tileBegin, 16 · tileEnd) of W and rows
/// [0, nRows) of x. tileBegin and tileEnd are even. Outputs beyond W's rows are not written.
struct MatmulParams {
  const PackedMatrix* weights = nullptr;
  int tileBegin = 0;
  int tileEnd = 0;
  const Activations* x = nullptr;
  int nRows = 0;
  float* y = nullptr;  // [nRows, yStride]
  std::ptrdiff_t yStride = 0;
  bool accumulate = false;  ///< add to y (residual)
  float* panel = nullptr;   ///< [columns padded to 32, 2 tiles, 16]; null: weights are not widened
};

/// K and V of one layer and KV head of one sequence. A block holds, at `offset` bytes:
/// K [headDim, blockSize] · V [blockSize, headDim], FP16 or int8, then for int8
/// K scales [blockSize] · V scales [blockSize] FP32.
struct KvHead {
  std::byte* pool = nullptr;
  std::size_t blockStride = 0;
  std::size_t offset = 0;
  const std::int32_t* blockTable = nullptr;
  int blockSize = 16;
  int headDim = 0;
  bool int8 = false;
};
/// Bytes of one KV head of one layer in a block.
std::size_t kvHeadBytes(int headDim, int blockSize, bool int8);

/// Positions are cut into fixed ranges; each gives a partial result (maximum, sum, weighted V),
/// and partials are merged in the order of positions. So it does not matter who computes which.
inline constexpr int kAttentionRange = 256;

/// `heads` query heads that share a KV head, for `rows` consecutive positions.
struct AttentionTask {
  KvHead kv;
  const float* q = nullptr;  // [rows, qStride]: the heads' vectors, one after the other
  std::ptrdiff_t qStride = 0;
  int rows = 0;
  int heads = 1;
  int firstPosition = 0;
  float scale = 1.0F;
  float softcap = 0.0F;
  int window = 0;
  float* scratch = nullptr;  // attentionScratchFloats()
};
/// A partial is [roundUp16(headDim) + 16] floats: the weighted sum, the maximum, the sum.
constexpr int partialFloats(int headDim) {
  return (headDim + 15) / 16 * 16 + 16;
}
/// Most rows · heads of one task.
inline constexpr int kAttentionRows = 64;
std::size_t attentionScratchFloats(int headDim);

struct CpuKernels {
  Isa isa = Isa::kPortable;
  /// BF16 weights meet BF16 activations in dot instructions; otherwise FP32 ones.
  bool dotsBf16 = false;

  /// y = x · w / sqrt(mean(x²) + eps), n values.
  void (*rmsNorm)(const float* x, const float* weight, float* y, int n, float eps);
  /// y = act(gate) · up
  void (*swiglu)(const float* gate, const float* up, float* y, int n);
  void (*geglu)(const float* gate, const float* up, float* y, int n);
  /// Turns one head in place: x[i] = x[i] · cosines[i] + x[partner of i] · sines[i], both tables
  /// [dims] with the signs in `sines` (negative for the first of a pair). Pairs as in
  /// kernels/api/rope.h.
  void (*rope)(float* x, const float* cosines, const float* sines, int dims, bool halves);
  /// One head in place (kernels/api/hadamard.h).
  void (*hadamard)(float* x, int headDim);
  /// Row `row` of `to` from x [n].
  void (*prepare)(const float* x, int n, const Activations& to, int row);
  void (*matmul)(const MatmulParams& params);

  /// k and v [headDim] to `position`; FP16 saturates, INT8 as quantizeInt8().
  void (*kvStore)(const KvHead& kv, int position, const float* k, const float* v);
  /// Range `range` of the task: partials [rows, heads, partialFloats]. A row that has no position
  /// in the range gets the maximum −∞.
  void (*attendRange)(const AttentionTask& task, int range, float* partials);
  /// out [headDim] from partials of ranges 0 … n − 1, `stride` floats apart.
  void (*mergeRanges)(const float* partials, std::ptrdiff_t stride, int n, int headDim, float* out);
  /// All ranges: out [rows, outStride], heads one after the other.
  void (*attend)(const AttentionTask& task, float* out, std::ptrdiff_t outStride);
};

/// The format for a matrix; `int8Activations` matters for INT8 and 4-bit weights only.
ActivationFormat activationFormat(const CpuKernels& kernels, const PackedMatrix& weights,
                                  bool int8Activations);

/// The kernels of an instruction set that isSupported().
const CpuKernels& kernelsFor(Isa isa);

}  // namespace vitrine::kernels::cpu

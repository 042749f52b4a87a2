#include "kernels/cuda/linear.h"

#include <algorithm>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/gemm_int8.h"
#include "kernels/cuda/gemv.h"

namespace vitrine::kernels::cuda {
namespace {

/// Tiles of weights and of sums that stay in the L2 cache of a large GPU from one kernel to the
/// next.
constexpr std::size_t kTileBytes = std::size_t{32} << 20;

bool isAligned16(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

/// Outputs of a tile when each needs so many bytes.
int tileOutputs(const Matrix& weights, std::size_t bytesEach) {
  const std::size_t fit = kTileBytes / std::max<std::size_t>(bytesEach, 1);
  const int outputs = static_cast<int>(std::min<std::size_t>(fit, weights.paddedOut));
  return std::max(outputs / kOutputPad * kOutputPad, kOutputPad);
}

void checkProduct(const Matrix& w, const Rows& x, int rows) {
  require(rows > 0 && w.out > 0, "a product without rows or outputs");
  require(w.stride > 0 && w.stride % kColumnPad == 0 && w.paddedOut % kOutputPad == 0 &&
              w.paddedOut >= w.out,
          "weights are padded");
  require(x.stride == w.stride, "rows are as wide as the weights");
  require(isAligned16(w.values) && isAligned16(x.values), "weights and rows begin at 16 bytes");
  if (w.format != WeightFormat::kInt8) {
    require(x.type == (w.format == WeightFormat::kFp16 ? RowType::kFp16 : RowType::kBf16),
            "rows have the type of the weights");
    return;
  }
  require(isGroupSize(w.groupSize), "INT8 groups of 32, of 64, of 128, or a scale a row");
  require(w.scales != nullptr, "INT8 weights have scales");
  require(x.type == RowType::kFp16 || x.type == RowType::kInt8, "rows of FP16 or INT8");
  if (x.type == RowType::kInt8) {
    require(x.scales != nullptr && x.groupSize == w.groupSize, "rows in the groups of the weights");
    // A scale a row: one INT32 sum over everything.
    require(w.stride <= (1 << 17), "at most 131072 INT8 columns");
  }
}

GemvArgs gemvArgs(const Matrix& w, const Rows& x, int rows, int outputs, int pairs) {
  GemvArgs args;
  args.weights = w.values;
  args.weightScales = w.scales;
  args.x = x.values;
  args.xScales = x.scales;
  args.outputScale = w.format == WeightFormat::kInt8 ? w.outputScale : 1.0F;
  args.chunks = w.stride / (w.format == WeightFormat::kInt8 ? 16 : 8);
  args.groups = w.groups();
  args.rows = rows;
  args.outputs = outputs;
  args.splitShift = gemvSplitShift(pairs, args.chunks);
  const int split = 1 << args.splitShift;
  args.segment = roundUp((args.chunks + split - 1) / split, 32);
  return args;
}

void gemv(cudaStream_t stream, const Matrix& w, const Rows& x, bool gated, const GemvArgs& args) {
  if (w.format != WeightFormat::kInt8) {
    gemvFloat(stream, w.format == WeightFormat::kBf16, gated, args);
  } else if (x.type == RowType::kInt8) {
    gemvW8A8(stream, w.groupSize, gated, args);
  } else {
    gemvW8A16(stream, w.groupSize, gated, args);
  }
}

void widenedProduct(cudaStream_t stream, Blas& blas, const LinearParams& p, void* workspace) {
  const Matrix& w = p.weights;
  const int tile = tileOutputs(w, static_cast<std::size_t>(w.stride) * 2);
  for (int first = 0; first < w.out; first += tile) {
    const int outputs = std::min(tile, w.out - first);
    widenWeights(stream, w, first, outputs, workspace);
    blas.multiply(CUDA_R_16F, p.x.values, p.x.stride, workspace, w.stride, p.rows, outputs,
                  w.stride, p.y + first, p.yStride, p.accumulate, w.outputScale);
  }
}

void integerProduct(cudaStream_t stream, Blas& blas, const LinearParams& p, void* workspace) {
  const Matrix& w = p.weights;
  const int tile = tileOutputs(w, static_cast<std::size_t>(p.rows) * sizeof(std::int32_t));
  auto* sums = static_cast<std::int32_t*>(workspace);
  for (int first = 0; first < w.out; first += tile) {
    const int padded = std::min(tile, w.paddedOut - first);
    const auto* values =
        static_cast<const std::int8_t*>(w.values) + static_cast<std::size_t>(first) * w.stride;
    blas.multiplyInt8(p.x.values, p.x.stride, values, w.stride, p.rows, padded, w.stride, sums,
                      padded);
    scaleSums(stream, p, first, std::min(padded, w.out - first), sums, padded);
  }
}

}  // namespace

std::size_t linearWorkspaceBytes(const Matrix& weights, RowType activations, int rows) {
  if (rows <= kGemvRows || weights.format != WeightFormat::kInt8) return 0;
  if (activations != RowType::kInt8) {
    const auto rowBytes = static_cast<std::size_t>(weights.stride) * 2;
    return rowBytes * tileOutputs(weights, rowBytes);
  }
  if (weights.groupSize != kWholeRow) return 0;
  const std::size_t columnBytes = static_cast<std::size_t>(rows) * sizeof(std::int32_t);
  return columnBytes * tileOutputs(weights, columnBytes);
}

void linear(cudaStream_t stream, Blas& blas, const LinearParams& params, void* workspace) {
  const Matrix& w = params.weights;
  checkProduct(w, params.x, params.rows);
  require(params.y != nullptr && params.yStride >= w.out, "a place for the outputs");
  if (params.rows <= kGemvRows) {
    GemvArgs args =
        gemvArgs(w, params.x, params.rows, w.out, (w.out + kGemvOutputs - 1) / kGemvOutputs);
    args.y = params.y;
    args.yStride = params.yStride;
    args.accumulate = params.accumulate;
    gemv(stream, w, params.x, false, args);
    return;
  }
  require(linearWorkspaceBytes(w, params.x.type, params.rows) == 0 || isAligned16(workspace),
          "a workspace");
  require(params.rows <= 65535, "at most 65535 rows");
  if (w.format != WeightFormat::kInt8) {
    blas.multiply(w.format == WeightFormat::kFp16 ? CUDA_R_16F : CUDA_R_16BF, params.x.values,
                  params.x.stride, w.values, w.stride, params.rows, w.out, w.stride, params.y,
                  params.yStride, params.accumulate);
  } else if (params.x.type != RowType::kInt8) {
    widenedProduct(stream, blas, params, workspace);
  } else if (w.groupSize == kWholeRow) {
    integerProduct(stream, blas, params, workspace);
  } else {
    groupedInt8Product(stream, params);
  }
}

void gatedLinear(cudaStream_t stream, const GatedLinearParams& params) {
  const Matrix& w = params.weights;
  checkProduct(w, params.x, params.rows);
  require(params.rows <= kGemvRows, "at most 8 rows of a gated product");
  require(w.out % 2 == 0, "as many gates as up products");
  const int width = w.out / 2;
  require(params.y.values != nullptr && params.y.stride >= width, "a place for the outputs");
  require(params.y.type != RowType::kInt8, "the gated product is not quantized");
  GemvArgs args = gemvArgs(w, params.x, params.rows, width, params.y.stride);
  args.y = params.y.values;
  args.yStride = params.y.stride;
  args.yType = params.y.type;
  args.columns = params.y.stride;
  args.gelu = params.gelu;
  gemv(stream, w, params.x, true, args);
}

}  // namespace vitrine::kernels::cuda

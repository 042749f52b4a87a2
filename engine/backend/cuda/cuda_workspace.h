#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/backend/cuda/cuda_weights.h"
#include "engine/backend/precision.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/logits.h"
#include "kernels/cuda/types.h"

namespace vitrine::engine::cuda {

/// How much a step needs. Every member may only grow.
struct WorkspaceNeeds {
  int rows = 0;      ///< of a pass
  int headRows = 0;  ///< whose logits are computed together
  std::size_t partialBytes = 0;
  std::size_t linearBytes = 0;
  std::size_t candidates = 0;    ///< best tokens of all rows of a step together
  std::size_t scratchBytes = 0;  ///< of bestTokens()

  bool covers(const WorkspaceNeeds& other) const;
  WorkspaceNeeds with(const WorkspaceNeeds& other) const;  ///< the larger of each
};

/// Activations of one pass in device memory: one run, taken for a number of rows and taken anew
/// when a step needs more. Throws CudaError.
class CudaWorkspace final {
 public:
  CudaWorkspace(const ModelConfig& config, const CudaWeights& weights,
                const WeightPrecision& precision, cudaStream_t stream);

  /// The linear workspace and the rest for passes of `rows` rows, without candidates and partials.
  WorkspaceNeeds needs(int rows, int headRows) const;
  /// Bytes of the run for such needs.
  std::size_t bytesFor(const WorkspaceNeeds& needs) const;

  const WorkspaceNeeds& held() const { return m_held; }
  /// Takes a run for `needs`, giving back the one before first. Its memory is zeros: columns that
  /// pad rows of activations are never written. Requires: nothing queued uses the old one.
  void take(const WorkspaceNeeds& needs, cudaStream_t stream);

  /// Rows that enter a product with `weights` at a site, in the form that it wants: from a norm,
  /// from attention, from the gate. Each has a buffer of its own, so that its padding stays zero;
  /// those of a norm have one in FP16 and one in INT8.
  kernels::cuda::Rows normed(int site, const kernels::cuda::Matrix& weights) const;
  kernels::cuda::Rows attended(int site, const kernels::cuda::Matrix& weights) const;
  kernels::cuda::Rows gated(int site, const kernels::cuda::Matrix& weights) const;
  /// FP32 rows of the same stride, for what is converted afterwards (INT8).
  kernels::cuda::Rows wide(const kernels::cuda::Matrix& weights) const;

  float* x = nullptr;        // [rows, dModel] the residual stream
  float* qkv = nullptr;      // [rows, qkvDim]
  float* gateUp = nullptr;   // [rows, 2 · dFfn]; wide() lies in the same memory
  float2* angles = nullptr;  // [rows, rope.dims / 2]
  float* logits = nullptr;   // [headRows, vocabSize]
  void* partials = nullptr;  // of decode attention
  void* linear = nullptr;    // of linear()
  kernels::cuda::Candidate* candidates = nullptr;
  void* scratch = nullptr;  // of bestTokens()

  /// What went through the static scales so far, by site; null where there are none.
  const kernels::cuda::StaticUse* staticUse() const { return m_use.data(); }
  void forgetUse(cudaStream_t stream);
  /// The widest rows that enter a product, padding included.
  int widestRows() const { return std::max({m_normedStride, m_attendedStride, m_gatedStride}); }

  std::size_t bytes() const { return m_memory.bytes() + m_use.bytes(); }
  /// Changes with the addresses: graphs captured before are void.
  std::uint64_t generation() const { return m_generation; }
  kernels::cuda::RowType activationType(const kernels::cuda::Matrix& weights) const;

 private:
  struct Places {
    std::size_t x, qkv, gateUp, angles, logits, partials, linear, candidates, scratch;
    std::size_t normed, attended, gated, normedInt8;  // values, then scales
    std::size_t outliers;
    std::size_t total;
  };
  Places places(const WorkspaceNeeds& needs) const;
  std::size_t rowsBytes(int rows, int stride) const;
  kernels::cuda::Rows view(int site, const kernels::cuda::Matrix& weights, std::byte* values) const;

  const ModelConfig& m_config;
  WeightPrecision m_precision;
  std::vector<kernels::cuda::Matrix> m_layerShapes;  // one of each kind
  kernels::cuda::Matrix m_output;
  std::vector<CudaSite> m_sites;
  kernels::cuda::DeviceBuffer<kernels::cuda::StaticUse> m_use;
  int m_outlierStride = 0;  // most FP16 columns beside INT8 rows
  // Strides of normed(), attended() and gated() rows.
  int m_normedStride = 0;
  int m_attendedStride = 0;
  int m_gatedStride = 0;
  WorkspaceNeeds m_held;
  std::uint64_t m_generation = 0;
  kernels::cuda::DeviceBuffer<std::byte> m_memory;
  std::byte* m_normed = nullptr;
  std::byte* m_attended = nullptr;
  std::byte* m_gated = nullptr;
  std::byte* m_normedInt8 = nullptr;
  std::byte* m_outliers = nullptr;  // the rows of one site at a time
};

}  // namespace vitrine::engine::cuda

#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "engine/backend/host_memory.h"
#include "engine/backend/precision.h"
#include "engine/model/model.h"
#include "engine/quant/quant_plan.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/thread_pool.h"

namespace vitrine::engine {

/// A packed matrix, and beside it the columns of it that stay FP16: those of
/// QuantPlan::outliers(), side by side, [rows, count]; zero in `weights`. No rows: there are none.
struct CpuMatrix {
  kernels::cpu::PackedMatrix weights, outliers;
};

struct CpuLayer {
  CpuMatrix wq, wk, wv, wo, wGate, wUp, wDown;
  std::vector<float> attentionNorm, ffnNorm;
  std::vector<float> bq, bk, bv, qNorm, kNorm;  // empty where the architecture has none
};

/// A model's weights as the fast CPU kernels read them: repacked once, in one run of memory, each
/// matrix in the file's own type or converted, scaled as the plan says. Immutable after make().
class CpuWeights final {
 public:
  /// For a model run with the KV heads of `config`, which are possible (kv_regroup.h). Packs on
  /// all threads of `pool`; `progress` is called on the calling thread.
  static Result<std::unique_ptr<const CpuWeights>> make(
      const Model& model, const ModelConfig& config, const WeightPrecision& precision,
      kernels::cpu::ThreadPool& pool, const Progress& progress, std::stop_token stop);

  QuantPlan plan;
  std::vector<CpuLayer> layers;
  std::vector<float> outputNorm;
  CpuMatrix output;

  /// Every packed matrix with the tensor it comes from; `layer` −1 for the output.
  struct Entry {
    CpuMatrix* to;
    const TensorView* from;
    int layer;
    MatrixPart part;
    bool isKv() const { return part == MatrixPart::kK || part == MatrixPart::kV; }
  };

  std::uint64_t matrixBytes() const { return m_arena.bytes(); }
  std::uint64_t vectorBytes() const;

 private:
  HostMemory m_arena;
};

}  // namespace vitrine::engine

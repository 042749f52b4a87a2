#pragma once

#include <memory>
#include <stop_token>
#include <vector>

#include "engine/backend/host_memory.h"
#include "engine/backend/precision.h"
#include "engine/model/model.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/thread_pool.h"

namespace vitrine::engine {

struct CpuLayer {
  kernels::cpu::PackedMatrix wq, wk, wv, wo, wGate, wUp, wDown;
  std::vector<float> attentionNorm, ffnNorm;
  std::vector<float> bq, bk, bv, qNorm, kNorm;  // empty where the architecture has none
};

/// A model's weights as the fast CPU kernels read them: repacked once, in one run of memory, each
/// matrix in the file's own type or converted. Immutable after make().
class CpuWeights final {
 public:
  /// For a model run with `kvHeads` KV heads, which are possible (kv_regroup.h). Packs on all
  /// threads of `pool`; `progress` is called on the calling thread.
  static Result<std::unique_ptr<const CpuWeights>> make(const Model& model,
                                                        const WeightPrecision& precision,
                                                        int kvHeads, kernels::cpu::ThreadPool& pool,
                                                        const Progress& progress,
                                                        std::stop_token stop);

  std::vector<CpuLayer> layers;
  std::vector<float> outputNorm;
  kernels::cpu::PackedMatrix output;

  /// Every packed matrix with the tensor it comes from; `layer` −1 for the output.
  struct Entry {
    kernels::cpu::PackedMatrix* to;
    const TensorView* from;
    const char* name;
    int layer;
    bool kv = false;  ///< a K or V matrix, whose heads may be regrouped
  };

  std::uint64_t matrixBytes() const { return m_arena.bytes(); }
  std::uint64_t vectorBytes() const;

 private:
  HostMemory m_arena;
};

}  // namespace vitrine::engine

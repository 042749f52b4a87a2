#pragma once

#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu_weights.h"
#include "engine/backend/cpu_workspace.h"
#include "engine/backend/host_memory.h"
#include "engine/measure/machine.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/thread_pool.h"

namespace vitrine::engine {

/// The fast CPU backend. Which instruction set runs is decided when it is made: the best that the
/// processor has, or what VITRINE_ISA=avx512|avx2|portable asks for.
///
/// A step is one task of the thread pool: every thread walks the layers and they meet at barriers.
/// Long batches are cut into passes of at most kPassRows rows. The KV pool is block after block; a
/// block holds [nLayers, nKvHeads] times what kernels::cpu::KvHead describes.
class CpuBackend final : public Backend {
 public:
  CpuBackend(std::shared_ptr<const Model> model, ModelConfig config,
             const WeightPrecision& precision, const kernels::cpu::CpuKernels& kernels,
             std::unique_ptr<kernels::cpu::ThreadPool> pool,
             std::unique_ptr<const CpuWeights> weights, std::string note);

  BackendInfo info() const override;
  const WeightPrecision& precision() const override { return m_precision; }
  const ModelConfig& config() const override { return m_config; }
  Result<void> configureCache(const KvShape& shape) override;
  const KvShape& cacheShape() const override { return m_shape; }
  std::uint64_t memoryForCache() const override { return availableMemoryBytes(); }
  Result<LogitsView> forward(std::span<const BatchSequence> batch) override;
  Result<void> copyBlock(BlockId from, BlockId to, int tokens) override;
  Result<void> readBlock(BlockId block, std::span<std::byte> bytes) const override;
  Result<void> writeBlock(BlockId block, std::span<const std::byte> bytes) override;
  void setActive(bool active) override { m_pool->setActive(active); }
  BackendMemory memory() const override;
  void observe(ActivationObserver* observer) override { m_observer = observer; }
  std::vector<SiteUse> activationUse() const override;

  static constexpr int kPassRows = 256;

 private:
  friend class CpuPass;

  void touch(BlockId block);

  std::shared_ptr<const Model> m_model;
  ModelConfig m_config;
  WeightPrecision m_precision;
  ActivationObserver* m_observer = nullptr;
  std::string m_note;  // BackendInfo::note
  const kernels::cpu::CpuKernels& m_kernels;
  std::unique_ptr<kernels::cpu::ThreadPool> m_pool;
  std::unique_ptr<const CpuWeights> m_weights;
  unsigned m_activationFormats = 0;  // bit f: ActivationFormat f is used
  int m_mostOutliers = 0;            // columns that stay FP16, of the site that has most
  // What each thread met at each site under static scales [threads][sites]; empty: there are none.
  std::vector<std::vector<kernels::Int8Use>> m_use;
  std::vector<double> m_ropeFrequencies;  // [rope.dims / 2] radians a position

  KvShape m_shape;
  std::size_t m_blockBytes = 0;
  HostMemory m_kv;                      // [nBlocks, m_blockBytes]
  std::vector<std::uint8_t> m_touched;  // pieces of the pool that were written, kTouchBytes each

  CpuWorkspace m_workspace;
  std::vector<float> m_logits;
};

}  // namespace vitrine::engine

#pragma once

#include <cstdlib>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/reference_weights.h"
#include "engine/measure/machine.h"
#include "kernels/api/kv_cache.h"

namespace vitrine::engine {

/// The whole Backend in plain FP32 loops on one thread, the judge of every other backend.
///
/// Activations stay FP32 (ActivationMode::kFp16 rounds nothing); with ActivationMode::kInt8 the
/// input of every product with an INT8 matrix is rounded to INT8 and widened again: by a static
/// scale, by one of the row, or in the groups of the weights. The KV cache really
/// holds FP16 bits or INT8 with scales. A block is one run of bytes, layer after layer:
///   K [nKvHeads, blockSize, headDim] · V the same · K scales [nKvHeads, blockSize] · V scales
class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend(std::shared_ptr<const Model> model, ModelConfig config,
                   const WeightPrecision& precision,
                   std::unique_ptr<const ReferenceWeights> weights);

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
  void setActive(bool) override {}  // no worker threads
  BackendMemory memory() const override;
  void observe(ActivationObserver* observer) override { m_observer = observer; }
  std::vector<SiteUse> activationUse() const override { return m_use; }

 private:
  kernels::KvLayerView layerView(int layer) const;
  /// Rows [rows, width] are about to enter the products that read a site: shows and rounds them.
  void enter(int site, const std::vector<float>& x, int rows, int width);
  void roundRow(int site, float* row, int width);
  /// Requires: x was the last to enter().
  void linear(const std::vector<float>& x, const ReferenceMatrix& weight,
              const ReferenceMatrix* bias, std::vector<float>& y, int rows);
  void attend(int layer, std::span<const BatchSequence> batch, int rows);
  void feedForward(int layer, int rows);
  Result<LogitsView> logits(std::span<const BatchSequence> batch);

  struct FreeDelete {
    void operator()(std::byte* p) const { std::free(p); }
  };

  std::shared_ptr<const Model> m_model;
  ModelConfig m_config;
  WeightPrecision m_precision;
  ActivationObserver* m_observer = nullptr;
  std::unique_ptr<const ReferenceWeights> m_weights;

  KvShape m_shape;
  std::size_t m_blockBytes = 0;
  std::unique_ptr<std::byte[], FreeDelete> m_pool;  // [nBlocks, m_blockBytes]
  std::vector<bool> m_written;  // blocks that were written once: only they take RAM

  // Workspace of one step. x is the residual stream.
  std::vector<float> m_x, m_normed, m_q, m_k, m_v, m_attention, m_gate, m_up, m_delta;
  std::vector<float> m_rounded;   // what entered, rounded; zeros in outlier columns
  std::vector<float> m_outliers;  // those columns [rows, count]
  std::vector<float> m_logits;
  std::vector<SiteUse> m_use;  // of static scales
  std::vector<std::int32_t> m_positions;
};

}  // namespace vitrine::engine

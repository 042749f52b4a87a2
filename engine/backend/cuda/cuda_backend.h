#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/activation_tap.h"
#include "engine/backend/cuda/cuda_graphs.h"
#include "engine/backend/cuda/cuda_pass.h"
#include "engine/backend/cuda/cuda_weights.h"
#include "engine/backend/cuda/cuda_workspace.h"
#include "engine/backend/cuda/device_memory.h"
#include "engine/backend/cuda/kv_pool.h"
#include "engine/backend/cuda/step_inputs.h"
#include "engine/backend/cuda/step_plan.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/logits.h"

namespace vitrine::engine::cuda {

/// A device as it was when the backend was made.
struct CudaDevice {
  int index = 0;
  std::string name;          ///< "NVIDIA H200"
  std::string architecture;  ///< "sm_90"
  int multiprocessors = 0;
};

/// The CUDA backend. A step is laid out on the host (StepPlan), copied (StepInputs), queued pass by
/// pass (CudaPass) on one stream, and waited for once, at its end. Steps of a few new tokens, one
/// a sequence, are replayed as graphs.
///
/// CudaError ends at the public calls, where it becomes an Error. A device that answers nothing but
/// errors is lost: every further call says so at once.
class CudaBackend final : public Backend {
 public:
  /// Throws CudaError.
  CudaBackend(std::shared_ptr<const Model> model, ModelConfig config,
              const WeightPrecision& precision, CudaDevice device, DeviceFigures figures,
              kernels::cuda::Stream stream, std::unique_ptr<const CudaWeights> weights,
              std::string note);
  ~CudaBackend() override;

  BackendInfo info() const override;
  const WeightPrecision& precision() const override { return m_precision; }
  const ModelConfig& config() const override { return m_config; }
  Result<void> configureCache(const KvShape& shape) override;
  const KvShape& cacheShape() const override { return m_shape; }
  std::uint64_t memoryForCache() const override;
  Result<LogitsView> forward(std::span<const BatchSequence> batch) override;
  Result<void> copyBlock(BlockId from, BlockId to, int tokens) override;
  Result<void> readBlock(BlockId block, std::span<std::byte> bytes) const override;
  Result<void> writeBlock(BlockId block, std::span<const std::byte> bytes) override;
  void setActive(bool active) override;
  BackendMemory memory() const override;
  void observe(ActivationObserver* observer) override;
  std::vector<SiteUse> activationUse() const override;

  CudaGraphs& graphs() { return m_graphs; }
  const KvPool* pool() const { return m_pool.get(); }

 private:
  template <typename Body>
  auto guarded(Body&& body) const -> decltype(body());
  Error failed(const kernels::cuda::CudaError& error) const;
  void notePool();
  std::uint64_t roomForCache() const;

  /// The step that is planned: one new token a sequence, and nobody looks on.
  bool runsByGraph() const { return m_plan.isDecode() && !m_tap.isOn(); }
  WorkspaceNeeds needsOf(const StepPlan& plan) const;
  int splitsOf(const StepPlan::Pass& pass, int rows) const;
  // cuda_step.cpp: what forward() does, in this order.
  void makeRoom(std::span<const BatchSequence> batch);
  Result<void> prepareBlocks(std::span<const BatchSequence> batch);
  void queueStep(std::span<const BatchSequence> batch);
  LogitsView collect();

  void queuePass(const CudaPass& queued, const StepPlan::Pass& pass);
  void queueDecode(const CudaPass& queued, int rows);
  void bringBack(int firstWanted, int count);
  int bestOf(std::size_t wanted) const;
  template <typename Take>
  void withRoom(std::size_t bytes, Take&& take);

  std::shared_ptr<const Model> m_model;
  ModelConfig m_config;
  WeightPrecision m_precision;
  std::string m_note;
  CudaDevice m_device;
  DeviceFigures m_figures;
  mutable std::atomic<bool> m_lost{false};
  mutable std::string m_lastWords;  // of a lost device

  kernels::cuda::Stream m_stream;
  std::unique_ptr<const CudaWeights> m_weights;
  kernels::cuda::DeviceBuffer<std::byte> m_blasWorkspace;
  kernels::cuda::Blas m_blas;
  CudaWorkspace m_workspace;
  StepInputs m_inputs;
  ActivationTap m_tap;
  CudaGraphs m_graphs;
  std::uint64_t m_workspaceOfGraphs = 0, m_inputsOfGraphs = 0;  // generations that graphs know

  KvShape m_shape;
  std::size_t m_blockBytes = 0;
  std::vector<kernels::cuda::KvLayer> m_kvLayers;
  std::unique_ptr<KvPool> m_pool;
  std::atomic<std::uint64_t> m_poolBytes{0};  // for memoryForCache() of any thread
  std::atomic<std::uint64_t> m_workspaceBytes{0};

  StepPlan m_plan;
  std::vector<BlockId> m_read, m_written, m_fresh;  // of a step
  kernels::cuda::PinnedBuffer<float> m_rows;        // whole rows of logits
  kernels::cuda::PinnedBuffer<kernels::cuda::Candidate> m_bestTokens;
  std::size_t m_nWhole = 0;                           // wanted rows that come back whole
  std::size_t m_nCandidates = 0;                      // of the other ones together
  std::size_t m_wholeDone = 0, m_candidatesDone = 0;  // while a step is queued
  std::vector<TokenLogit> m_best;
  std::vector<LogitsView::Row> m_views;
};

}  // namespace vitrine::engine::cuda

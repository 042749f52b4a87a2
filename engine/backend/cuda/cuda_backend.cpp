#include "engine/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "engine/backend/batch_check.h"
#include "engine/backend/cuda/kv_layout.h"
#include "engine/backend/kv_bytes.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

namespace {

constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20;

/// What the driver tells of the device. Throws CudaError.
struct FreeMemory {
  std::size_t free = 0, total = 0;
};
FreeMemory freeMemory() {
  FreeMemory memory;
  gpu::check(cudaMemGetInfo(&memory.free, &memory.total), "asking for the GPU's memory");
  return memory;
}

}  // namespace

CudaBackend::CudaBackend(std::shared_ptr<const Model> model, ModelConfig config,
                         const WeightPrecision& precision, CudaDevice device, DeviceFigures figures,
                         gpu::Stream stream, std::unique_ptr<const CudaWeights> weights,
                         std::string note)
    : m_model(std::move(model)),
      m_config(std::move(config)),
      m_precision(precision),
      m_note(std::move(note)),
      m_device(std::move(device)),
      m_figures(std::move(figures)),
      m_stream(std::move(stream)),
      m_weights(std::move(weights)),
      m_blasWorkspace(kBlasWorkspace),
      m_blas(m_stream.get(), m_blasWorkspace.data(), m_blasWorkspace.bytes()),
      m_workspace(m_config, *m_weights, m_precision, m_stream.get()),
      m_inputs(m_stream.get()),
      m_tap(m_stream.get()) {}

CudaBackend::~CudaBackend() {
  // What was queued uses buffers that go away now.
  cudaSetDevice(m_device.index);
  cudaStreamSynchronize(m_stream.get());
  cudaGetLastError();
}

/// Runs the body of a public call: errors of CUDA become values here and nowhere else.
template <typename Body>
auto CudaBackend::guarded(Body&& body) const -> decltype(body()) {
  if (m_lost) {
    return fail(ErrorCode::kDeviceLost,
                "{} was lost ({}); choose the CPU, or start the program again", m_device.name,
                m_lastWords);
  }
  try {
    gpu::check(cudaSetDevice(m_device.index), "choosing the GPU");
    return body();
  } catch (const gpu::CudaError& error) {
    return tl::unexpected(failed(error));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "no memory for the tables of this step");
  }
}

/// What an error means. Afterwards nothing that was queued runs any more.
Error CudaBackend::failed(const gpu::CudaError& error) const {
  const cudaError_t code = cudaDeviceSynchronize();
  cudaGetLastError();
  if (code != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess) {
    cudaGetLastError();
    m_lastWords = error.what();
    m_lost = true;
    return {ErrorCode::kDeviceLost,
            fmt::format("{} failed ({}) and cannot be used any more; choose the CPU, or start the "
                        "program again",
                        m_device.name, m_lastWords)};
  }
  if (error.isOutOfMemory()) {
    std::size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
    return {ErrorCode::kOutOfMemory, fmt::format("{}; {} of {} MiB of {} are free", error.what(),
                                                 free >> 20, total >> 20, m_device.name)};
  }
  return {ErrorCode::kInternal, fmt::format("{}: {}", m_device.name, error.what())};
}

BackendInfo CudaBackend::info() const {
  return {BackendKind::kCuda, "cuda", m_device.architecture, m_device.name, 1, m_note};
}

Result<void> CudaBackend::configureCache(const KvShape& shape) {
  VITRINE_TRY(checkKvShape(shape, m_config));
  if (shape.hostBlocks < 0 || shape.hostBlocks >= shape.nBlocks) {
    return fail(ErrorCode::kInvalidArgument,
                "{} of {} blocks in host memory: at least one must fit on the device",
                shape.hostBlocks, shape.nBlocks);
  }
  return guarded([&]() -> Result<void> {
    m_graphs.drop();
    m_workspace.forgetUse(m_stream.get());
    m_pool.reset();
    m_poolBytes = 0;
    m_inputs.forget();
    m_shape = KvShape{};
    m_blockBytes = 0;
    const std::uint64_t blockBytes = kvBytesPerBlock(m_config, shape);
    const auto deviceBlocks = static_cast<std::uint64_t>(shape.nBlocks - shape.hostBlocks);
    const std::uint64_t wanted = blockBytes * deviceBlocks;
    const std::uint64_t available = roomForCache();
    if (wanted > available) {
      return fail(ErrorCode::kOutOfMemory,
                  "the KV cache needs {} MiB of {} ({} blocks of {} bytes); {} MiB are free",
                  wanted >> 20, m_device.name, deviceBlocks, blockBytes, available >> 20);
    }
    m_kvLayers = kvLayers(m_config, shape);
    m_pool = std::make_unique<KvPool>(shape, static_cast<std::size_t>(blockBytes), m_kvLayers,
                                      m_stream.get());
    m_poolBytes = m_pool->deviceBytes();
    m_shape = shape;
    m_blockBytes = static_cast<std::size_t>(blockBytes);
    return {};
  });
}

/// After whatever may have given memory back or taken it again. Who plans steps looks at the shape.
void CudaBackend::notePool() {
  m_poolBytes = m_pool->deviceBytes();
  m_shape.hostBlocks = m_shape.nBlocks - m_pool->deviceCapacity();
}

std::uint64_t CudaBackend::memoryForCache() const {
  if (m_lost) return 0;
  try {
    return roomForCache();
  } catch (const gpu::CudaError&) {
    return 0;
  }
}

std::uint64_t CudaBackend::roomForCache() const {
  gpu::check(cudaSetDevice(m_device.index), "choosing the GPU");
  // Steps will want their workspace beside the pool.
  const std::uint64_t steps =
      m_workspace.bytesFor(m_workspace.needs(StepPlan::kPassRows, StepPlan::kGraphRows));
  const std::uint64_t held = m_workspaceBytes;
  const std::uint64_t reserved = steps > held ? steps - held : 0;
  const std::uint64_t there = freeMemory().free + m_poolBytes;
  return there > reserved ? there - reserved : 0;
}

Result<void> CudaBackend::copyBlock(BlockId from, BlockId to, int tokens) {
  VITRINE_TRY(checkBlock(from, m_shape));
  VITRINE_TRY(checkBlock(to, m_shape));
  const int slots = std::clamp(tokens, 0, m_shape.blockSize);
  if (from == to || slots == 0) return {};
  return guarded([&]() -> Result<void> {
    m_pool->copy(from, to, slots);
    notePool();
    return {};
  });
}

Result<void> CudaBackend::readBlock(BlockId block, std::span<std::byte> bytes) const {
  VITRINE_TRY(checkBlockBytes(block, bytes.size(), m_blockBytes, m_shape));
  return guarded([&]() -> Result<void> {
    m_pool->read(block, bytes);
    return {};
  });
}

Result<void> CudaBackend::writeBlock(BlockId block, std::span<const std::byte> bytes) {
  VITRINE_TRY(checkBlockBytes(block, bytes.size(), m_blockBytes, m_shape));
  return guarded([&]() -> Result<void> {
    m_pool->write(block, bytes);
    notePool();
    return {};
  });
}

Result<LogitsView> CudaBackend::forward(std::span<const BatchSequence> batch) {
  VITRINE_TRY(checkBatch(batch, m_config, m_shape));
  if (batch.empty()) return LogitsView{};
  auto logits = guarded([&]() -> Result<LogitsView> {
    m_plan.make(batch);
    makeRoom(batch);
    VITRINE_TRY(prepareBlocks(batch));
    queueStep(batch);
    return collect();
  });
  if (!logits) m_inputs.forget();
  return logits;
}

void CudaBackend::setActive(bool active) {
  if (active || !m_pool) return;
  // A failure costs nothing now: blocks are where they were, and a lost device is told by the next
  // step.
  static_cast<void>(guarded([&]() -> Result<void> {
    m_pool->idle();
    return {};
  }));
}

void CudaBackend::observe(ActivationObserver* observer) {
  m_tap.observe(observer);
}

std::vector<SiteUse> CudaBackend::activationUse() const {
  std::vector<SiteUse> all;
  if (m_workspace.staticUse() == nullptr) return all;
  const std::vector<CudaSite>& sites = m_weights->sites;
  const auto counted = guarded([&]() -> Result<std::vector<gpu::StaticUse>> {
    std::vector<gpu::StaticUse> use(sites.size());
    gpu::copyToHost(m_stream.get(), use.data(), m_workspace.staticUse(),
                    use.size() * sizeof(gpu::StaticUse));
    m_stream.synchronize();
    return use;
  });
  if (!counted) return all;  // the next step says what is wrong
  for (std::size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].staticScale <= 0.0F) continue;
    const gpu::StaticUse& use = (*counted)[i];
    all.push_back({static_cast<int>(i), use.values, use.clipped, std::bit_cast<float>(use.largest),
                   127.0F * sites[i].staticScale});
  }
  return all;
}

BackendMemory CudaBackend::memory() const {
  BackendMemory memory;
  memory.weightBytes = m_weights->bytes();
  memory.weightBytesPerToken = m_weights->bytesPerToken();
  memory.workspaceBytes = m_workspace.bytes() + m_inputs.bytes() + m_blasWorkspace.bytes();
  DeviceMemory device = m_lost ? DeviceMemory{} : m_figures.read();
  device.weights = memory.weightBytes;
  device.workspace = memory.workspaceBytes;
  if (m_pool) {
    memory.kvBytesPerBlock = m_blockBytes;
    memory.kvScaleBytesPerBlock = kvScaleBytesPerBlock(m_config, m_shape);
    const auto written = static_cast<std::uint64_t>(m_pool->writtenBlocks());
    device.kvBlocks = written * m_blockBytes;
    device.kvScales = written * memory.kvScaleBytesPerBlock;
    device.kvFree =
        m_pool->deviceBytes() - std::min<std::uint64_t>(m_pool->deviceBytes(), device.kvBlocks);
    device.hostKv = m_pool->hostBytes();
    memory.kvAllocatedBytes = device.hostKv;
  }
  memory.device = device;
  return memory;
}

}  // namespace vitrine::engine::cuda

// Makes the CUDA backend known to a program that links it (engine/backend/gpu.h).
#include <new>
#include <utility>

#include "engine/backend/cuda/cuda_backend.h"
#include "engine/backend/cuda/device_probe.h"
#include "engine/backend/gpu.h"
#include "engine/backend/kv_regroup.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

namespace {

constexpr int kHeadDimMultiple = 8;
constexpr int kLargestHeadDim = 256;
constexpr int kLargestGroup = 16;
constexpr int kWidestModel = 16384;  // rmsNorm
constexpr int kWidestFfn = 131072;   // INT8 sums stay in INT32

/// Whether the kernels can compute such a model.
Result<void> checkModel(const ModelConfig& config) {
  if (config.headDim % kHeadDimMultiple != 0 || config.headDim > kLargestHeadDim) {
    return fail(ErrorCode::kUnsupported,
                "heads of {} elements; the cuda backend takes multiples of {} up to {}",
                config.headDim, kHeadDimMultiple, kLargestHeadDim);
  }
  if (config.groupSize() > kLargestGroup) {
    return fail(ErrorCode::kUnsupported,
                "{} query heads for each KV head; the cuda backend takes up to {}",
                config.groupSize(), kLargestGroup);
  }
  if (config.dModel > kWidestModel || config.dFfn > kWidestFfn) {
    return fail(ErrorCode::kUnsupported,
                "a model {} wide with a feed-forward of {}; the cuda backend takes up to {} and {}",
                config.dModel, config.dFfn, kWidestModel, kWidestFfn);
  }
  return {};
}

CudaDevice describe(int index) {
  cudaDeviceProp properties{};
  gpu::check(cudaGetDeviceProperties(&properties, index), "asking for the GPU's properties");
  return {index, properties.name, fmt::format("sm_{}{}", properties.major, properties.minor),
          properties.multiProcessorCount};
}

Error whileLoading(const gpu::CudaError& error, const CudaDevice& device) {
  if (!error.isOutOfMemory()) {
    return {ErrorCode::kUnsupported,
            fmt::format("the GPU {} cannot be used: {}", device.name, error.what())};
  }
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  return {ErrorCode::kOutOfMemory,
          fmt::format("the model does not fit on the GPU: {}; {} of {} MiB of {} are free; INT8 "
                      "weights take half, or choose the CPU",
                      error.what(), free >> 20, total >> 20, device.name)};
}

Result<std::unique_ptr<Backend>> make(std::shared_ptr<const Model> model,
                                      const BackendOptions& options, const Progress& progress,
                                      std::stop_token stop) {
  VITRINE_ASSIGN(ModelConfig config, regroupedConfig(model->config(), options.kvHeads));
  VITRINE_TRY(checkModel(config));
  CudaDevice device;
  device.index = options.device;
  device.name = fmt::format("GPU {}", options.device);
  try {
    DeviceFigures figures(options.device);  // before the context is made
    gpu::check(cudaSetDevice(options.device), "choosing the GPU");
    figures.contextMade();
    device = describe(options.device);
    gpu::Stream stream = gpu::Stream::make();
    VITRINE_ASSIGN(auto weights, CudaWeights::make(*model, config, options.precision, stream.get(),
                                                   progress, std::move(stop)));
    return std::make_unique<CudaBackend>(std::move(model), std::move(config), options.precision,
                                         device, std::move(figures), std::move(stream),
                                         std::move(weights), options.note);
  } catch (const gpu::CudaError& error) {
    return tl::unexpected(whileLoading(error, device));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "no memory for converting the weights");
  }
}

const bool kRegistered =
    registerCuda({&make, &probeDevices, VITRINE_CUDA_TOOLKIT, VITRINE_CUDA_ARCHITECTURES});

}  // namespace
}  // namespace vitrine::engine::cuda

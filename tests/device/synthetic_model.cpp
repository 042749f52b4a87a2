#include "tests/device/synthetic_model.h"

#include <algorithm>
#include <cstring>
#include <numbers>
#include <utility>

#include "engine/backend/model_math.h"
#include "kernels/api/half.h"

namespace vitrine::device {

namespace gpu = kernels::cuda;
using engine::WeightMode;
using engine::WeightPrecision;

namespace {

constexpr std::size_t kPatternBytes = std::size_t{1} << 22;

/// splitmix64 (Steele, Lea & Flood 2014).
std::uint64_t next(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

/// Values of a matrix: FP16 or BF16 of about ±0.03, or bytes.
std::vector<std::byte> pattern(gpu::RowType type) {
  std::vector<std::byte> bytes(kPatternBytes);
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const std::uint64_t bits = next(state);
    const float value = (static_cast<float>(bits >> 40) * 0x1p-23F - 1.0F) * 0.03F;
    auto element = static_cast<std::uint16_t>(bits);
    if (type == gpu::RowType::kFp16) element = kernels::floatToHalf(value);
    if (type == gpu::RowType::kBf16) element = kernels::floatToBfloat16(value);
    std::memcpy(bytes.data() + i, &element, 2);
  }
  return bytes;
}

gpu::WeightFormat formatOf(WeightMode mode) {
  if (mode == WeightMode::kInt8) return gpu::WeightFormat::kInt8;
  return mode == WeightMode::kBf16 ? gpu::WeightFormat::kBf16 : gpu::WeightFormat::kFp16;
}

engine::cuda::CudaDevice device() {
  cudaDeviceProp properties{};
  gpu::check(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's properties");
  return {0, properties.name,
          "sm_" + std::to_string(properties.major) + std::to_string(properties.minor),
          properties.multiProcessorCount};
}

}  // namespace

std::byte* SyntheticModel::random(std::size_t bytes, gpu::RowType type) {
  m_memory.emplace_back(bytes);
  std::byte* to = m_memory.back().data();
  const std::vector<std::byte> values = pattern(type);
  for (std::size_t done = 0; done < bytes; done += values.size()) {
    gpu::copyToDevice(m_stream.get(), to + done, values.data(),
                      std::min(values.size(), bytes - done));
  }
  m_stream.synchronize();
  return to;
}

const float* SyntheticModel::ones(int n) {
  const std::vector<float> values(static_cast<std::size_t>(n), 1.0F);
  m_memory.emplace_back(values.size() * sizeof(float));
  std::byte* to = m_memory.back().data();
  gpu::copyToDevice(m_stream.get(), to, values.data(), values.size() * sizeof(float));
  m_stream.synchronize();
  return reinterpret_cast<const float*>(to);
}

gpu::Matrix SyntheticModel::matrix(int out, int in, const WeightPrecision& precision) {
  gpu::Matrix m;
  m.format = formatOf(precision.weights);
  m.out = out;
  m.in = in;
  m.paddedOut = gpu::roundUp(out, gpu::kOutputPad);
  m.stride = gpu::roundUp(in, gpu::kColumnPad);
  const std::size_t values = static_cast<std::size_t>(m.paddedOut) * m.stride;
  if (m.format == gpu::WeightFormat::kInt8) {
    m.groupSize = precision.weightScales == engine::WeightScales::kGroup ? precision.groupSize
                                                                         : gpu::kWholeRow;
    m.values = random(values, gpu::RowType::kInt8);
    const std::size_t scales = static_cast<std::size_t>(m.paddedOut) * m.groups() * 2;
    m.scales = random(scales, gpu::RowType::kFp16);
    m.outputScale = 0x1p-7F;
    m_bytesPerToken += values + scales;
  } else {
    const bool bf16 = m.format == gpu::WeightFormat::kBf16;
    m.values = random(2 * values, bf16 ? gpu::RowType::kBf16 : gpu::RowType::kFp16);
    m_bytesPerToken += 2 * values;
  }
  return m;
}

SyntheticModel::SyntheticModel(const Shape& shape, const WeightPrecision& precision)
    : m_shape(shape), m_stream(gpu::Stream::make()) {
  const engine::ModelConfig& c = shape.config;
  auto weights = std::make_unique<engine::cuda::CudaWeights>();
  for (int i = 0; i < c.nLayers; ++i) {
    engine::cuda::CudaLayer layer;
    layer.qkv.resize(1);
    layer.qkv.front().weights = matrix(c.qDim() + 2 * c.kvDim(), c.dModel, precision);
    layer.wo.weights = matrix(c.dModel, c.qDim(), precision);
    layer.gateUp.resize(1);
    layer.gateUp.front().weights = matrix(2 * c.dFfn, c.dModel, precision);
    layer.wDown.weights = matrix(c.dModel, c.dFfn, precision);
    layer.attentionNorm = ones(c.dModel);
    layer.ffnNorm = ones(c.dModel);
    weights->layers.push_back(std::move(layer));
  }
  weights->outputNorm = ones(c.dModel);
  weights->output.weights = matrix(c.vocabSize, c.dModel, precision);
  weights->sites.resize(static_cast<std::size_t>(engine::siteCount(c.nLayers)));
  const std::size_t rowBytes = static_cast<std::size_t>(c.dModel) * 2;
  weights->embedding = {
      kernels::TensorType::kF16,
      random(rowBytes * static_cast<std::size_t>(c.vocabSize), gpu::RowType::kFp16), rowBytes,
      c.dModel};
  m_bytesPerToken += rowBytes;

  std::vector<double> turns = engine::ropeFrequencies(c.rope);
  for (double& turn : turns) turn /= 2.0 * std::numbers::pi;
  m_memory.emplace_back(turns.size() * sizeof(double));
  gpu::copyToDevice(m_stream.get(), m_memory.back().data(), turns.data(),
                    turns.size() * sizeof(double));
  m_stream.synchronize();
  weights->ropeTurns = reinterpret_cast<const double*>(m_memory.back().data());

  m_backend = std::make_unique<engine::cuda::CudaBackend>(
      nullptr, c, precision, device(), engine::cuda::DeviceFigures(0), gpu::Stream::make(),
      std::move(weights), "");
}

}  // namespace vitrine::device

#include "engine/backend/cuda/cuda_workspace.h"

#include <algorithm>

#include "kernels/cuda/linear.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

namespace {

constexpr std::size_t kAlignment = 256;
/// Smallest INT8 group of activations: bounds their scales.
constexpr int kSmallestGroup = 32;

bool sameShape(const gpu::Matrix& a, const gpu::Matrix& b) {
  return a.format == b.format && a.out == b.out && a.in == b.in && a.groupSize == b.groupSize;
}

}  // namespace

bool WorkspaceNeeds::covers(const WorkspaceNeeds& other) const {
  return rows >= other.rows && headRows >= other.headRows && partialBytes >= other.partialBytes &&
         linearBytes >= other.linearBytes && candidates >= other.candidates &&
         scratchBytes >= other.scratchBytes;
}

WorkspaceNeeds WorkspaceNeeds::with(const WorkspaceNeeds& other) const {
  return {std::max(rows, other.rows),
          std::max(headRows, other.headRows),
          std::max(partialBytes, other.partialBytes),
          std::max(linearBytes, other.linearBytes),
          std::max(candidates, other.candidates),
          std::max(scratchBytes, other.scratchBytes)};
}

CudaWorkspace::CudaWorkspace(const ModelConfig& config, const CudaWeights& weights,
                             const WeightPrecision& precision, cudaStream_t stream)
    : m_config(config),
      m_precision(precision),
      m_output(weights.output.weights),
      m_sites(weights.sites) {
  m_normedStride = m_output.stride;
  const auto add = [this](const CudaMatrix& m) {
    const bool known =
        std::any_of(m_layerShapes.begin(), m_layerShapes.end(),
                    [&](const gpu::Matrix& other) { return sameShape(m.weights, other); });
    if (!known) m_layerShapes.push_back(m.weights);
  };
  for (const CudaLayer& layer : weights.layers) {
    for (const CudaMatrix& m : layer.qkv) add(m);
    for (const CudaMatrix& m : layer.gateUp) add(m);
    add(layer.wo);
    add(layer.wDown);
    m_attendedStride = layer.wo.weights.stride;
    m_gatedStride = layer.wDown.weights.stride;
  }
  bool isStatic = false;
  for (const CudaSite& site : m_sites) {
    m_outlierStride = std::max(m_outlierStride, site.outliers.stride);
    isStatic = isStatic || site.staticScale > 0.0F;
  }
  if (!isStatic) return;
  m_use = gpu::DeviceBuffer<gpu::StaticUse>(m_sites.size());
  forgetUse(stream);
}

void CudaWorkspace::forgetUse(cudaStream_t stream) {
  if (m_use.size() == 0) return;
  gpu::check(cudaMemsetAsync(m_use.data(), 0, m_use.bytes(), stream), "clearing the counters");
}

gpu::RowType CudaWorkspace::activationType(const gpu::Matrix& weights) const {
  if (weights.format == gpu::WeightFormat::kBf16) return gpu::RowType::kBf16;
  const bool int8 = weights.format == gpu::WeightFormat::kInt8 &&
                    m_precision.activations == ActivationMode::kInt8;
  return int8 ? gpu::RowType::kInt8 : gpu::RowType::kFp16;
}

WorkspaceNeeds CudaWorkspace::needs(int rows, int headRows) const {
  WorkspaceNeeds needs;
  needs.rows = rows;
  needs.headRows = headRows;
  for (const gpu::Matrix& m : m_layerShapes) {
    needs.linearBytes =
        std::max(needs.linearBytes, gpu::linearWorkspaceBytes(m, activationType(m), rows));
  }
  if (headRows > 0) {
    needs.linearBytes = std::max(
        needs.linearBytes, gpu::linearWorkspaceBytes(m_output, activationType(m_output), headRows));
  }
  return needs;
}

CudaWorkspace::Places CudaWorkspace::places(const WorkspaceNeeds& needs) const {
  Places p{};
  const auto add = [&p](std::size_t bytes) {
    const std::size_t at = p.total;
    p.total += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  const auto rows = static_cast<std::size_t>(needs.rows);
  const auto floats = [](std::size_t count, int width) {
    return count * static_cast<std::size_t>(width) * sizeof(float);
  };
  const int kvDim = m_config.kvDim();
  p.x = add(floats(rows, m_config.dModel));
  p.qkv = add(floats(rows, m_config.qDim() + 2 * kvDim));
  p.gateUp = add(floats(rows, std::max({2 * m_config.dFfn, m_attendedStride, m_gatedStride})));
  p.angles = add(rows * static_cast<std::size_t>(m_config.rope.dims / 2) * sizeof(float2));
  p.logits = add(floats(static_cast<std::size_t>(needs.headRows), m_config.vocabSize));
  p.partials = add(needs.partialBytes);
  p.linear = add(needs.linearBytes);
  p.candidates = add(needs.candidates * sizeof(gpu::Candidate));
  p.scratch = add(needs.scratchBytes);
  p.normed = add(rowsBytes(needs.rows, m_normedStride));
  p.attended = add(rowsBytes(needs.rows, m_attendedStride));
  p.gated = add(rowsBytes(needs.rows, m_gatedStride));
  const bool int8 = m_precision.activations == ActivationMode::kInt8;
  p.normedInt8 = add(int8 ? rowsBytes(needs.rows, m_normedStride) : 0);
  p.outliers = add(rows * static_cast<std::size_t>(m_outlierStride) * sizeof(std::uint16_t));
  return p;
}

std::size_t CudaWorkspace::bytesFor(const WorkspaceNeeds& needs) const {
  return places(needs).total;
}

void CudaWorkspace::take(const WorkspaceNeeds& needs, cudaStream_t stream) {
  ++m_generation;
  m_memory = {};
  m_held = {};
  const Places p = places(needs);
  gpu::DeviceBuffer<std::byte> memory(p.total);
  gpu::check(cudaMemsetAsync(memory.data(), 0, p.total, stream), "clearing the workspace");
  m_memory = std::move(memory);
  m_held = needs;
  std::byte* base = m_memory.data();
  const auto floatsAt = [base](std::size_t at) { return reinterpret_cast<float*>(base + at); };
  x = floatsAt(p.x);
  qkv = floatsAt(p.qkv);
  gateUp = floatsAt(p.gateUp);
  angles = reinterpret_cast<float2*>(base + p.angles);
  logits = floatsAt(p.logits);
  partials = base + p.partials;
  linear = base + p.linear;
  candidates = reinterpret_cast<gpu::Candidate*>(base + p.candidates);
  scratch = base + p.scratch;
  m_normed = base + p.normed;
  m_attended = base + p.attended;
  m_gated = base + p.gated;
  m_normedInt8 = base + p.normedInt8;
  m_outliers = base + p.outliers;
}

/// Values of two bytes at most, then the scales of INT8 groups.
std::size_t CudaWorkspace::rowsBytes(int rows, int stride) const {
  const auto width = static_cast<std::size_t>(stride);
  return static_cast<std::size_t>(rows) * (width * 2 + width / kSmallestGroup * sizeof(float));
}

gpu::Rows CudaWorkspace::view(int site, const gpu::Matrix& weights, std::byte* values) const {
  gpu::Rows rows;
  rows.type = activationType(weights);
  rows.values = values;
  rows.stride = weights.stride;
  if (rows.type == gpu::RowType::kInt8) {
    const auto bytes = static_cast<std::size_t>(m_held.rows) * weights.stride;
    rows.scales = reinterpret_cast<float*>(values + bytes);
    rows.groupSize = weights.groupSize;
    const auto index = static_cast<std::size_t>(site);
    rows.staticScale = m_sites[index].staticScale;
    if (m_use.size() > 0) rows.use = m_use.data() + index;
    rows.outliers = m_sites[index].outliers;
    rows.outliers.values = reinterpret_cast<std::uint16_t*>(m_outliers);
  }
  return rows;
}

gpu::Rows CudaWorkspace::normed(int site, const gpu::Matrix& weights) const {
  return view(site, weights,
              activationType(weights) == gpu::RowType::kInt8 ? m_normedInt8 : m_normed);
}

gpu::Rows CudaWorkspace::attended(int site, const gpu::Matrix& weights) const {
  return view(site, weights, m_attended);
}

gpu::Rows CudaWorkspace::gated(int site, const gpu::Matrix& weights) const {
  return view(site, weights, m_gated);
}

gpu::Rows CudaWorkspace::wide(const gpu::Matrix& weights) const {
  gpu::Rows rows;
  rows.values = gateUp;
  rows.stride = weights.stride;
  return rows;
}

}  // namespace vitrine::engine::cuda

#include "engine/backend/cuda/cuda_weights.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numbers>
#include <utility>

#include "engine/backend/cuda/weight_plan.h"
#include "engine/backend/cuda/weight_rows.h"
#include "engine/backend/cuda/weight_staging.h"
#include "engine/backend/kv_regroup.h"
#include "engine/backend/model_math.h"
#include "kernels/api/int8_weights.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

namespace {

constexpr const char* kStage = "Copying weights to the GPU";
constexpr std::size_t kStagingBytes = std::size_t{8} << 20;

/// ropeFrequencies() as parts of a whole turn.
std::vector<double> turnsOf(const RopeConfig& rope) {
  std::vector<double> turns = ropeFrequencies(rope);
  for (double& turn : turns) turn /= 2.0 * std::numbers::pi;
  return turns;
}

std::size_t widestRow(const WeightPlan& plan) {
  std::size_t widest = 0;
  for (const WeightPlan::MatrixEntry& m : plan.matrices) {
    widest = std::max(widest, rowValueBytes(*m.to) + rowScaleBytes(*m.to));
  }
  return widest;
}

/// Carries the weights of a plan to the device.
class Upload final {
 public:
  Upload(const WeightPlan& plan, std::byte* device, cudaStream_t stream, const Progress& progress,
         std::stop_token stop)
      : m_plan(plan),
        m_device(device),
        m_stream(stream),
        m_progress(progress),
        m_stop(std::move(stop)),
        m_staging(stream, std::max(kStagingBytes, widestRow(plan))),
        m_pool(kernels::cpu::usableCores()),
        m_scratch(static_cast<std::size_t>(m_pool.threads())) {}

  Result<void> matrix(const WeightPlan::MatrixEntry& entry, int ownKvHeads, int kvHeads);
  Result<void> vector(const WeightPlan::VectorEntry& entry, int ownKvHeads, int kvHeads);
  Result<void> bytes(std::size_t offset, const std::byte* from, std::size_t count);
  void finish() {
    gpu::check(cudaStreamSynchronize(m_stream), "copying weights to the device");
    if (m_progress) m_progress(kStage, 1.0);
  }

 private:
  Result<RowReport> part(const TensorView& from, const WeightPlan::MatrixEntry& entry,
                         std::size_t firstRow);
  RowReport convert(const TensorView& from, const gpu::Matrix& to, std::int64_t first,
                    std::int64_t count, std::byte* values, std::byte* scales);
  Result<void> step(std::size_t sent);

  const WeightPlan& m_plan;
  std::byte* m_device;
  cudaStream_t m_stream;
  const Progress& m_progress;
  std::stop_token m_stop;
  WeightStaging m_staging;
  kernels::cpu::ThreadPool m_pool;
  std::vector<std::vector<float>> m_scratch;  // a row for each thread
  std::size_t m_sent = 0;
};

Result<void> Upload::step(std::size_t sent) {
  m_sent += sent;
  if (m_stop.stop_requested()) return fail(ErrorCode::kCancelled, "loading was stopped");
  if (m_progress) {
    m_progress(kStage,
               std::min(1.0, static_cast<double>(m_sent) /
                                 static_cast<double>(std::max<std::size_t>(m_plan.bytes, 1))));
  }
  return {};
}

/// Rows are independent, so the result is the same for any number of threads.
RowReport Upload::convert(const TensorView& from, const gpu::Matrix& to, std::int64_t first,
                          std::int64_t count, std::byte* values, std::byte* scales) {
  for (auto& row : m_scratch) row.resize(static_cast<std::size_t>(to.stride));
  RowReport report;
  std::mutex mutex;
  const std::size_t valueBytes = rowValueBytes(to);
  const std::size_t scaleBytes = rowScaleBytes(to);
  m_pool.run([&](int thread) {
    RowReport mine;
    for (std::int64_t r; (r = m_pool.claim(1)) < count;) {
      const auto at = static_cast<std::size_t>(r);
      mine.add(convertRow(from, first + r, to, m_scratch[static_cast<std::size_t>(thread)].data(),
                          values + valueBytes * at,
                          reinterpret_cast<std::uint16_t*>(scales + scaleBytes * at)));
    }
    const std::lock_guard lock(mutex);
    report.add(mine);
  });
  return report;
}

/// One tensor into the rows of a matrix from `firstRow` on.
Result<RowReport> Upload::part(const TensorView& from, const WeightPlan::MatrixEntry& entry,
                               std::size_t firstRow) {
  const gpu::Matrix& to = *entry.to;
  const std::size_t valueBytes = rowValueBytes(to);
  const std::size_t scaleBytes = rowScaleBytes(to);
  RowReport report;
  for (std::int64_t first = 0; first < from.rows;) {
    const std::span<std::byte> buffer = m_staging.next();
    const auto room = static_cast<std::int64_t>(buffer.size() / (valueBytes + scaleBytes));
    const std::int64_t count = std::min(room, from.rows - first);
    const auto rows = static_cast<std::size_t>(count);
    std::byte* scales = buffer.data() + valueBytes * rows;
    report.add(convert(from, to, first, count, buffer.data(), scales));
    const std::size_t row = firstRow + static_cast<std::size_t>(first);
    m_staging.send(m_device + entry.values + valueBytes * row, buffer.data(), valueBytes * rows);
    if (scaleBytes > 0) {
      m_staging.send(m_device + entry.scales + scaleBytes * row, scales, scaleBytes * rows);
    }
    m_staging.sent();
    first += count;
    VITRINE_TRY(step((valueBytes + scaleBytes) * rows));
  }
  return report;
}

Result<void> Upload::matrix(const WeightPlan::MatrixEntry& entry, int ownKvHeads, int kvHeads) {
  gpu::Matrix& to = *entry.to;
  // A second time with another outputScale where the scales of this matrix are unusual.
  for (bool again = true; again;) {
    RowReport report;
    std::size_t row = 0;
    for (const WeightPlan::Part& p : entry.parts) {
      const auto tensor = RegroupedTensor::make(*p.from, ownKvHeads, p.kv ? kvHeads : ownKvHeads);
      VITRINE_ASSIGN(const RowReport found, part(tensor.view(), entry, row));
      if (found.overflowsFp16) {
        return fail(ErrorCode::kUnsupported,
                    "{} of {} holds weights beyond 65504, which FP16 cannot represent; choose bf16 "
                    "or int8 weights",
                    p.name, entry.layer < 0 ? "the model" : fmt::format("layer {}", entry.layer));
      }
      report.add(found);
      row += static_cast<std::size_t>(tensor.view().rows);
    }
    again = to.outputScale != 1.0F && !kernels::int8ScalesFit(report.largestScale, to.outputScale);
    if (!again) break;
    const float better = kernels::outputScaleFor(report.largestScale);
    if (better == to.outputScale) break;
    to.outputScale = better;
  }
  to.values = m_device + entry.values;
  if (to.format == gpu::WeightFormat::kInt8) to.scales = m_device + entry.scales;
  return {};
}

Result<void> Upload::vector(const WeightPlan::VectorEntry& entry, int ownKvHeads, int kvHeads) {
  *entry.to = reinterpret_cast<const float*>(m_device + entry.offset);
  std::size_t offset = entry.offset;
  for (const WeightPlan::VectorPart& p : entry.parts) {
    const std::size_t size = static_cast<std::size_t>(p.count) * sizeof(float);
    if (*p.from) {
      const auto tensor = RegroupedTensor::make(*p.from, ownKvHeads, p.kv ? kvHeads : ownKvHeads);
      const TensorView& view = tensor.view();
      std::vector<float> values(static_cast<std::size_t>(p.count));
      kernels::reference::dequantize(view.type, view.data, values.data(), p.count);
      VITRINE_TRY(bytes(offset, reinterpret_cast<const std::byte*>(values.data()), size));
    }
    offset += size;
  }
  return {};
}

Result<void> Upload::bytes(std::size_t offset, const std::byte* from, std::size_t count) {
  for (std::size_t done = 0; done < count;) {
    const std::span<std::byte> buffer = m_staging.next();
    const std::size_t part = std::min(buffer.size(), count - done);
    std::memcpy(buffer.data(), from + done, part);
    m_staging.send(m_device + offset + done, buffer.data(), part);
    m_staging.sent();
    done += part;
    VITRINE_TRY(step(part));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<const CudaWeights>> CudaWeights::make(
    const Model& model, const ModelConfig& config, const WeightPrecision& precision,
    cudaStream_t stream, const Progress& progress, std::stop_token stop) {
  const Weights& from = model.weights();
  const int own = model.config().nKvHeads;
  auto weights = std::make_unique<CudaWeights>();
  const WeightPlan plan(*weights, from, own, config, precision);
  if (progress) progress(kStage, 0.0);
  weights->m_memory = gpu::DeviceBuffer<std::byte>(plan.bytes);
  std::byte* device = weights->m_memory.data();
  gpu::check(cudaMemsetAsync(device, 0, plan.bytes, stream), "clearing the memory of the weights");

  Upload upload(plan, device, stream, progress, std::move(stop));
  for (const WeightPlan::MatrixEntry& m : plan.matrices) {
    VITRINE_TRY(upload.matrix(m, own, config.nKvHeads));
  }
  for (const WeightPlan::VectorEntry& v : plan.vectors) {
    VITRINE_TRY(upload.vector(v, own, config.nKvHeads));
  }
  const std::vector<double> turns = turnsOf(config.rope);
  VITRINE_TRY(upload.bytes(plan.turns, reinterpret_cast<const std::byte*>(turns.data()),
                           turns.size() * sizeof(double)));
  weights->ropeTurns = reinterpret_cast<const double*>(device + plan.turns);
  if (!plan.embeddingIsOutput) {
    VITRINE_TRY(
        upload.bytes(plan.embedding, from.tokenEmbedding.data, from.tokenEmbedding.bytes()));
  }
  weights->embedding.data = device + plan.embedding;
  upload.finish();
  VITRINE_TRY(model.checkFile());
  const std::uint64_t table = plan.embeddingIsOutput ? 0 : from.tokenEmbedding.bytes();
  weights->m_bytesPerToken = plan.bytes - table + from.tokenEmbedding.rowBytes();
  return weights;
}

}  // namespace vitrine::engine::cuda

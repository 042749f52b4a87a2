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
#include "engine/backend/plan_queries.h"
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

/// Bytes of a row of each kind.
struct RowBytes {
  explicit RowBytes(const CudaMatrix& m)
      : values(rowValueBytes(m.weights)),
        outliers(m.hasOutliers() ? rowValueBytes(m.outliers) : 0),
        scales(rowScaleBytes(m.weights)) {}
  std::size_t all() const { return values + outliers + scales; }
  std::size_t values, outliers, scales;
};

std::size_t widestRow(const WeightPlan& plan) {
  std::size_t widest = 0;
  for (const WeightPlan::MatrixEntry& m : plan.matrices) {
    widest = std::max(widest, RowBytes(*m.to).all());
  }
  return widest;
}

/// Whether scales lie well inside FP16, and the widened weights (127 times as large) too.
bool scalesFit(float largestScale, float outputScale) {
  return kernels::int8ScalesFit(largestScale, outputScale) && largestScale / outputScale <= 512.0F;
}

/// Carries the weights of a plan to the device.
class Upload final {
 public:
  /// `oneScale`: INT8 matrices have one scale (WeightScales::kTensor).
  Upload(const WeightPlan& plan, bool oneScale, std::byte* device, cudaStream_t stream,
         const Progress& progress, std::stop_token stop)
      : m_plan(plan),
        m_oneScale(oneScale),
        m_device(device),
        m_stream(stream),
        m_progress(progress),
        m_stop(std::move(stop)),
        m_staging(stream, std::max(kStagingBytes, widestRow(plan))),
        m_pool(kernels::cpu::usableCores()),
        m_scratch(static_cast<std::size_t>(m_pool.threads())) {}

  Result<void> matrix(const WeightPlan::MatrixEntry& entry, int ownKvHeads, int kvHeads);
  Result<void> vector(const WeightPlan::VectorEntry& entry, int ownKvHeads, int kvHeads);
  Result<void> site(const WeightPlan::SiteEntry& entry);
  Result<void> bytes(std::size_t offset, const std::byte* from, std::size_t count);
  void finish() {
    gpu::check(cudaStreamSynchronize(m_stream), "copying weights to the device");
    if (m_progress) m_progress(kStage, 1.0);
  }

 private:
  Result<RowReport> part(const WeightRows& from, const WeightPlan::MatrixEntry& entry,
                         std::size_t firstRow);
  RowReport convert(const WeightRows& from, const CudaMatrix& to, std::int64_t first,
                    std::int64_t count, std::byte* buffer);
  float largestOf(const WeightRows& from);
  Result<void> step(std::size_t sent);

  const WeightPlan& m_plan;
  bool m_oneScale;
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

/// Rows are independent, so the result is the same for any number of threads. Into `buffer`: the
/// values of all rows, then what lies beside them, then the scales.
RowReport Upload::convert(const WeightRows& from, const CudaMatrix& to, std::int64_t first,
                          std::int64_t count, std::byte* buffer) {
  for (auto& row : m_scratch) row.resize(static_cast<std::size_t>(to.weights.stride));
  RowReport report;
  std::mutex mutex;
  const RowBytes bytes(to);
  std::byte* outliers = buffer + bytes.values * static_cast<std::size_t>(count);
  std::byte* scales = outliers + bytes.outliers * static_cast<std::size_t>(count);
  m_pool.run([&](int thread) {
    RowReport mine;
    for (std::int64_t r; (r = m_pool.claim(1)) < count;) {
      const auto at = static_cast<std::size_t>(r);
      const RowPlace place{buffer + bytes.values * at,
                           reinterpret_cast<std::uint16_t*>(scales + bytes.scales * at),
                           reinterpret_cast<std::uint16_t*>(outliers + bytes.outliers * at)};
      mine.add(convertRow(from, first + r, to, m_scratch[static_cast<std::size_t>(thread)].data(),
                          place));
    }
    const std::lock_guard lock(mutex);
    report.add(mine);
  });
  return report;
}

/// The largest magnitude of a whole tensor.
float Upload::largestOf(const WeightRows& from) {
  for (auto& row : m_scratch) row.resize(static_cast<std::size_t>(from.file.cols));
  float largest = 0.0F;
  std::mutex mutex;
  m_pool.run([&](int thread) {
    float mine = 0.0F;
    for (std::int64_t r; (r = m_pool.claim(1)) < from.file.rows;) {
      mine =
          std::max(mine, largestOfRow(from, r, m_scratch[static_cast<std::size_t>(thread)].data()));
    }
    const std::lock_guard lock(mutex);
    largest = std::max(largest, mine);
  });
  return largest;
}

/// One tensor into the rows of a matrix from `firstRow` on.
Result<RowReport> Upload::part(const WeightRows& from, const WeightPlan::MatrixEntry& entry,
                               std::size_t firstRow) {
  const RowBytes bytes(*entry.to);
  RowReport report;
  for (std::int64_t first = 0; first < from.file.rows;) {
    const std::span<std::byte> buffer = m_staging.next();
    const auto room = static_cast<std::int64_t>(buffer.size() / bytes.all());
    const std::int64_t count = std::min(room, from.file.rows - first);
    const auto rows = static_cast<std::size_t>(count);
    report.add(convert(from, *entry.to, first, count, buffer.data()));
    const std::size_t row = firstRow + static_cast<std::size_t>(first);
    const std::byte* source = buffer.data();
    const auto send = [&](std::size_t offset, std::size_t rowBytes) {
      if (rowBytes == 0) return;
      m_staging.send(m_device + offset + rowBytes * row, source, rowBytes * rows);
      source += rowBytes * rows;
    };
    send(entry.values, bytes.values);
    send(entry.outliers, bytes.outliers);
    send(entry.scales, bytes.scales);
    m_staging.sent();
    first += count;
    VITRINE_TRY(step(bytes.all() * rows));
  }
  return report;
}

Result<void> Upload::matrix(const WeightPlan::MatrixEntry& entry, int ownKvHeads, int kvHeads) {
  gpu::Matrix& to = entry.to->weights;
  // A second time with another outputScale where the scales of this matrix are unusual.
  for (bool again = true; again;) {
    RowReport report;
    std::size_t row = 0;
    for (const WeightPlan::Part& p : entry.parts) {
      const auto tensor =
          RegroupedTensor::make(*p.from, ownKvHeads, p.isKv() ? kvHeads : ownKvHeads);
      WeightRows rows{tensor.view(), {}, p.plan.outliers};
      if (!p.plan.rowScale.empty()) rows.change.rowScale = p.plan.rowScale.data();
      if (!p.plan.columnScale.empty()) rows.change.columnScale = p.plan.columnScale.data();
      if (to.format == gpu::WeightFormat::kInt8 && m_oneScale) rows.tensorLargest = largestOf(rows);
      VITRINE_ASSIGN(const RowReport found, part(rows, entry, row));
      if (found.overflowsFp16) {
        return fail(ErrorCode::kUnsupported,
                    "{} holds weights beyond 65504, which FP16 cannot represent; choose bf16 "
                    "weights, or int8 weights without parts that stay FP16",
                    matrixName(entry.layer, p.part));
      }
      report.add(found);
      row += static_cast<std::size_t>(tensor.view().rows);
    }
    again = to.outputScale != 1.0F && !scalesFit(report.largestScale, to.outputScale);
    if (!again) break;
    const float better = kernels::outputScaleFor(report.largestScale);
    if (better == to.outputScale) break;
    to.outputScale = better;
  }
  to.values = m_device + entry.values;
  if (to.format == gpu::WeightFormat::kInt8) to.scales = m_device + entry.scales;
  if (entry.to->hasOutliers()) entry.to->outliers.values = m_device + entry.outliers;
  return {};
}

Result<void> Upload::vector(const WeightPlan::VectorEntry& entry, int ownKvHeads, int kvHeads) {
  *entry.to = reinterpret_cast<const float*>(m_device + entry.offset);
  std::size_t offset = entry.offset;
  for (const WeightPlan::VectorSource& p : entry.parts) {
    const std::size_t size = static_cast<std::size_t>(p.count) * sizeof(float);
    if (*p.from) {
      const auto tensor = RegroupedTensor::make(*p.from, ownKvHeads, p.kv ? kvHeads : ownKvHeads);
      const TensorView& view = tensor.view();
      std::vector<float> values(static_cast<std::size_t>(p.count));
      kernels::reference::dequantize(view.type, view.data, values.data(), p.count);
      for (std::size_t i = 0; i < p.scale.size(); ++i) values[i] *= p.scale[i];
      VITRINE_TRY(bytes(offset, reinterpret_cast<const std::byte*>(values.data()), size));
    }
    offset += size;
  }
  return {};
}

Result<void> Upload::site(const WeightPlan::SiteEntry& entry) {
  const std::vector<std::int32_t> columns(entry.columns.begin(), entry.columns.end());
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(entry.stride / 32), 0);
  for (const std::int32_t c : columns) bits[static_cast<std::size_t>(c / 32)] |= 1U << (c % 32);
  VITRINE_TRY(bytes(entry.columnsAt, reinterpret_cast<const std::byte*>(columns.data()),
                    columns.size() * sizeof(std::int32_t)));
  VITRINE_TRY(bytes(entry.bitsAt, reinterpret_cast<const std::byte*>(bits.data()),
                    bits.size() * sizeof(std::uint32_t)));
  gpu::Outliers& to = entry.to->outliers;
  to.columns = reinterpret_cast<const std::int32_t*>(m_device + entry.columnsAt);
  to.isOutlier = reinterpret_cast<const std::uint32_t*>(m_device + entry.bitsAt);
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
  VITRINE_ASSIGN(const QuantPlan quant, QuantPlan::make(model, config, precision));
  const WeightPlan plan(*weights, from, own, config, precision, quant);
  if (progress) progress(kStage, 0.0);
  weights->m_memory = gpu::DeviceBuffer<std::byte>(plan.bytes);
  std::byte* device = weights->m_memory.data();
  gpu::check(cudaMemsetAsync(device, 0, plan.bytes, stream), "clearing the memory of the weights");

  Upload upload(plan, precision.weightScales == WeightScales::kTensor, device, stream, progress,
                std::move(stop));
  for (const WeightPlan::MatrixEntry& m : plan.matrices) {
    VITRINE_TRY(upload.matrix(m, own, config.nKvHeads));
  }
  for (const WeightPlan::VectorEntry& v : plan.vectors) {
    VITRINE_TRY(upload.vector(v, own, config.nKvHeads));
  }
  for (const WeightPlan::SiteEntry& s : plan.sites) VITRINE_TRY(upload.site(s));
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

#include "engine/backend/cpu_weights.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "engine/backend/kv_regroup.h"
#include "engine/backend/plan_queries.h"
#include "engine/backend/weight_bytes.h"
#include "engine/quant/calibration_profile.h"
#include "kernels/api/int8_weights.h"
#include "kernels/api/linear.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::engine {

namespace cpu = kernels::cpu;

namespace {

constexpr const char* kStage = "Packing weights";

std::vector<float> vectorOf(const TensorView& view, std::span<const float> scale) {
  std::vector<float> values;
  if (!view) return values;
  values.resize(static_cast<std::size_t>(view.rows * view.cols));
  for (std::int64_t r = 0; r < view.rows; ++r) {
    kernels::reference::dequantize(view.type, view.data + view.rowBytes() * r,
                                   values.data() + r * view.cols, view.cols);
  }
  for (std::size_t i = 0; i < scale.size(); ++i) values[i] *= scale[i];
  return values;
}

cpu::FileMatrix fileMatrix(const TensorView& view, const MatrixPlan& plan) {
  cpu::FileMatrix file{view.type, static_cast<int>(view.rows), static_cast<int>(view.cols),
                       view.rowBytes(), view.data};
  file.change.rowScale = plan.rowScale.empty() ? nullptr : plan.rowScale.data();
  file.change.columnScale = plan.columnScale.empty() ? nullptr : plan.columnScale.data();
  return file;
}

/// The matrix without its outlier columns.
cpu::FileMatrix restOf(cpu::FileMatrix file, std::span<const int> outliers) {
  file.change.zeroColumns = outliers.data();
  file.change.zeroCount = static_cast<int>(outliers.size());
  return file;
}

/// Its outlier columns alone.
cpu::FileMatrix columnsOf(cpu::FileMatrix file, std::span<const int> outliers) {
  file.columns = outliers.data();
  file.columnCount = static_cast<int>(outliers.size());
  return file;
}

cpu::WeightFormat formatFor(const TensorView& view, WeightMode mode) {
  switch (mode) {
    case WeightMode::kNative:
      return cpu::nativeFormat(view.type);
    case WeightMode::kFp16:
      return cpu::WeightFormat::kF16;
    case WeightMode::kBf16:
      return cpu::WeightFormat::kBf16;
    case WeightMode::kInt8:
      return cpu::WeightFormat::kInt8;
  }
  return cpu::nativeFormat(view.type);
}

/// Neighbours in a row that share a scale.
int groupSizeFor(WeightMode mode, const WeightPrecision& precision) {
  if (mode != WeightMode::kInt8) return cpu::kGroup;  // Q8_0 as it is
  return precision.weightScales == WeightScales::kGroup ? precision.groupSize : cpu::kWholeRow;
}

std::vector<CpuWeights::Entry> entries(CpuWeights& to, const Weights& from) {
  std::vector<CpuWeights::Entry> list;
  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const LayerWeights& f = from.layers[i];
    CpuLayer& t = to.layers[i];
    const int layer = static_cast<int>(i);
    list.push_back({&t.wq, &f.wq, layer, MatrixPart::kQ});
    list.push_back({&t.wk, &f.wk, layer, MatrixPart::kK});
    list.push_back({&t.wv, &f.wv, layer, MatrixPart::kV});
    list.push_back({&t.wo, &f.wo, layer, MatrixPart::kO});
    list.push_back({&t.wGate, &f.wGate, layer, MatrixPart::kGate});
    list.push_back({&t.wUp, &f.wUp, layer, MatrixPart::kUp});
    list.push_back({&t.wDown, &f.wDown, layer, MatrixPart::kDown});
  }
  list.push_back({&to.output, &from.output, -1, MatrixPart::kOutput});
  return list;
}

/// Lays out every matrix; the bytes that they take one after another. `planOf(entry)` gives its
/// MatrixPlan.
template <typename PlanOf>
std::size_t layOut(const std::vector<CpuWeights::Entry>& list, const WeightPrecision& precision,
                   int own, int kvHeads, PlanOf planOf) {
  const KvGrouping grouping = kvGrouping(own, kvHeads);
  std::size_t total = 0;
  for (const CpuWeights::Entry& e : list) {
    const TensorView shape = e.isKv() ? regroupedShape(*e.from, own, kvHeads) : *e.from;
    const MatrixPlan plan = planOf(e);
    const WeightMode mode = e.isKv() ? regroupedMode(e.from->type, plan.mode, grouping) : plan.mode;
    const cpu::FileMatrix file = fileMatrix(shape, plan);
    e.to->weights = cpu::planMatrix(restOf(file, plan.outliers), formatFor(shape, mode),
                                    groupSizeFor(mode, precision));
    total += e.to->weights.bytes();
    if (plan.outliers.empty()) continue;
    e.to->outliers =
        cpu::planMatrix(columnsOf(file, plan.outliers), cpu::WeightFormat::kF16, cpu::kGroup);
    total += e.to->outliers.bytes();
  }
  return total;
}

/// Forms of matrices as QuantPlan gives them, without their factors: from shapes and types alone.
class Forms {
 public:
  Forms(const Weights& from, const WeightPrecision& precision)
      : m_from(from), m_precision(precision), m_nLayers(static_cast<int>(from.layers.size())) {
    const auto sites = static_cast<std::size_t>(siteCount(m_nLayers));
    if (precision.outliers != OutlierMode::kMixed || precision.calibration == nullptr ||
        precision.calibration->sites.size() != sites) {
      return;
    }
    for (const SiteStatistics& site : precision.calibration->sites) {
      m_outliers.push_back(outlierColumns(site, precision.outlierThreshold));
    }
  }
  MatrixPlan operator()(const CpuWeights::Entry& e) const {
    MatrixPlan plan;
    plan.mode = m_precision.weights;
    if (plan.mode == WeightMode::kInt8 && m_precision.keep.contains(e.layer, e.part)) {
      plan.mode = WeightMode::kFp16;
    }
    if (plan.mode == WeightMode::kInt8 && !m_outliers.empty()) {
      plan.outliers = m_outliers[static_cast<std::size_t>(
          e.layer < 0 ? outputSite(m_nLayers) : siteIndex(e.layer, inputOf(e.part)))];
    }
    if (m_precision.keyScales == KeyScales::kChannel && e.layer >= 0) {
      const LayerWeights& layer = m_from.layers[static_cast<std::size_t>(e.layer)];
      const bool scaled =
          (e.part == MatrixPart::kQ && !layer.qNorm) || (e.part == MatrixPart::kK && !layer.kNorm);
      if (scaled) plan.mode = regroupedMode(e.from->type, plan.mode, KvGrouping::kPooled);
    }
    return plan;
  }

 private:
  const Weights& m_from;
  const WeightPrecision& m_precision;
  int m_nLayers;
  std::vector<std::vector<int>> m_outliers;  // of each site; empty: nowhere
};

/// Runs work(tile, row scratch) for every tile on all threads.
template <typename Work>
void forTiles(const cpu::FileMatrix& from, int tiles, cpu::ThreadPool& pool,
              const std::stop_token& stop, Work work) {
  pool.run([&](int) {
    std::vector<float> row(cpu::packScratchFloats(from));
    for (std::int64_t t; (t = pool.claim(1)) < tiles && !stop.stop_requested();) {
      work(static_cast<int>(t), row.data());
    }
  });
}

/// Packs one matrix on all threads. Tiles are independent, so the result is the same for any pool.
cpu::PackReport packTiles(const cpu::FileMatrix& from, const cpu::PackedMatrix& to, std::byte* out,
                          cpu::ThreadPool& pool, const std::stop_token& stop) {
  cpu::PackReport report;
  std::mutex mutex;
  forTiles(from, to.tiles, pool, stop, [&](int tile, float* row) {
    const cpu::PackReport r =
        cpu::packTile(from, to, tile, out + to.tileBytes * static_cast<std::size_t>(tile), row);
    const std::lock_guard lock(mutex);
    report.overflowsFp16 |= r.overflowsFp16;
    report.largestScale = std::max(report.largestScale, r.largestScale);
  });
  return report;
}

float largestOf(const cpu::FileMatrix& from, int tiles, cpu::ThreadPool& pool,
                const std::stop_token& stop) {
  float largest = 0.0F;
  std::mutex mutex;
  forTiles(from, tiles, pool, stop, [&](int tile, float* row) {
    const float found = cpu::tileLargest(from, tile, row);
    const std::lock_guard lock(mutex);
    largest = std::max(largest, found);
  });
  return largest;
}

/// Packs a matrix at `out`; false where FP16 cannot hold a weight.
bool pack(const cpu::FileMatrix& from, cpu::PackedMatrix& to, std::byte* out, bool oneScale,
          cpu::ThreadPool& pool, const std::stop_token& stop) {
  if (oneScale) to.tensorLargest = largestOf(from, to.tiles, pool, stop);
  cpu::PackReport report = packTiles(from, to, out, pool, stop);
  if (to.outputScale != 1.0F && !kernels::int8ScalesFit(report.largestScale, to.outputScale)) {
    to.outputScale = kernels::outputScaleFor(report.largestScale);
    report = packTiles(from, to, out, pool, stop);
  }
  to.data = out;
  return !report.overflowsFp16;
}

}  // namespace

Result<std::unique_ptr<const CpuWeights>> CpuWeights::make(
    const Model& model, const ModelConfig& config, const WeightPrecision& precision,
    cpu::ThreadPool& pool, const Progress& progress, std::stop_token stop) {
  const Weights& from = model.weights();
  const int own = model.config().nKvHeads;
  const int kvHeads = config.nKvHeads;
  auto weights = std::make_unique<CpuWeights>();
  if (progress) progress(kStage, 0.0);
  VITRINE_ASSIGN(weights->plan, QuantPlan::make(model, config, precision));
  const QuantPlan& plan = weights->plan;
  weights->layers.resize(from.layers.size());
  const std::vector<Entry> list = entries(*weights, from);

  const std::size_t total = layOut(list, precision, own, kvHeads,
                                   [&](const Entry& e) { return plan.matrix(e.layer, e.part); });
  for (const Entry& e : list) {
    if (!e.to->weights.scalePerRow || precision.activations != ActivationMode::kInt8 ||
        e.to->weights.cols <= kernels::kMostSummedColumns) {
      continue;
    }
    return fail(ErrorCode::kUnsupported,
                "{} has {} columns; with one INT8 scale a row up to {} can be summed; choose "
                "scales per group",
                matrixName(e.layer, e.part), e.to->weights.cols, kernels::kMostSummedColumns);
  }
  VITRINE_ASSIGN(weights->m_arena,
                 HostMemory::map(total, "the packed weights", MemoryUse::kWeights));

  std::size_t done = 0;
  for (const Entry& e : list) {
    if (progress) progress(kStage, static_cast<double>(done) / static_cast<double>(total));
    const RegroupedTensor tensor = RegroupedTensor::make(*e.from, own, e.isKv() ? kvHeads : own);
    const MatrixPlan matrix = plan.matrix(e.layer, e.part);
    const cpu::FileMatrix file = fileMatrix(tensor.view(), matrix);
    const bool oneScale =
        matrix.mode == WeightMode::kInt8 && precision.weightScales == WeightScales::kTensor;
    bool fits = pack(restOf(file, matrix.outliers), e.to->weights, weights->m_arena.data() + done,
                     oneScale, pool, stop);
    done += e.to->weights.bytes();
    if (!matrix.outliers.empty()) {
      fits = pack(columnsOf(file, matrix.outliers), e.to->outliers, weights->m_arena.data() + done,
                  false, pool, stop) &&
             fits;
      done += e.to->outliers.bytes();
    }
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "loading was stopped");
    if (!fits) {
      return fail(ErrorCode::kUnsupported,
                  "{} holds weights beyond 65504, which FP16 cannot represent; choose native, bf16 "
                  "or int8 weights, all of it INT8",
                  matrixName(e.layer, e.part));
    }
  }

  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const LayerWeights& f = from.layers[i];
    CpuLayer& t = weights->layers[i];
    const auto scale = [&](VectorPart part) { return plan.vectorScale(static_cast<int>(i), part); };
    t.attentionNorm = vectorOf(f.attentionNorm, scale(VectorPart::kAttentionNorm));
    t.ffnNorm = vectorOf(f.ffnNorm, scale(VectorPart::kFfnNorm));
    t.bq = vectorOf(f.bq, scale(VectorPart::kBq));
    t.bk = vectorOf(RegroupedTensor::make(f.bk, own, kvHeads).view(), scale(VectorPart::kBk));
    t.bv = vectorOf(RegroupedTensor::make(f.bv, own, kvHeads).view(), scale(VectorPart::kBv));
    t.qNorm = vectorOf(f.qNorm, scale(VectorPart::kQNorm));
    t.kNorm = vectorOf(f.kNorm, scale(VectorPart::kKNorm));
  }
  weights->outputNorm = vectorOf(from.outputNorm, plan.vectorScale(-1, VectorPart::kOutputNorm));
  VITRINE_TRY(model.checkFile());
  if (progress) progress(kStage, 1.0);
  return weights;
}

std::uint64_t cpuWeightBytes(const Weights& from, int ownKvHeads, const WeightPrecision& precision,
                             int kvHeads) {
  CpuWeights weights;
  weights.layers.resize(from.layers.size());
  const int heads = kvHeads > 0 ? kvHeads : ownKvHeads;
  const std::size_t matrices =
      layOut(entries(weights, from), precision, ownKvHeads, heads, Forms(from, precision));
  std::uint64_t values = 0;
  const auto add = [&](const TensorView& vector, int ownHeads, int ranHeads) {
    if (!vector) return;
    const TensorView shape = regroupedShape(vector, ownHeads, ranHeads);  // without data
    values += static_cast<std::uint64_t>(shape.rows * shape.cols);
  };
  add(from.outputNorm, 1, 1);
  for (const LayerWeights& layer : from.layers) {
    for (const TensorView* vector :
         {&layer.attentionNorm, &layer.ffnNorm, &layer.bq, &layer.qNorm, &layer.kNorm}) {
      add(*vector, 1, 1);
    }
    add(layer.bk, ownKvHeads, heads);
    add(layer.bv, ownKvHeads, heads);
  }
  return matrices + values * sizeof(float);
}

std::uint64_t CpuWeights::vectorBytes() const {
  std::size_t values = outputNorm.size();
  for (const CpuLayer& l : layers) {
    values += l.attentionNorm.size() + l.ffnNorm.size() + l.bq.size() + l.bk.size() + l.bv.size() +
              l.qNorm.size() + l.kNorm.size();
  }
  return values * sizeof(float);
}

}  // namespace vitrine::engine

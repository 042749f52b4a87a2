#include "engine/backend/cpu_weights.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "engine/backend/kv_regroup.h"
#include "engine/backend/weight_bytes.h"
#include "kernels/api/int8_weights.h"
#include "kernels/reference/dequantize.h"

namespace vitrine::engine {

namespace cpu = kernels::cpu;

namespace {

constexpr const char* kStage = "Packing weights";

std::vector<float> vectorOf(const TensorView& view) {
  std::vector<float> values;
  if (!view) return values;
  values.resize(static_cast<std::size_t>(view.rows * view.cols));
  for (std::int64_t r = 0; r < view.rows; ++r) {
    kernels::reference::dequantize(view.type, view.data + view.rowBytes() * r,
                                   values.data() + r * view.cols, view.cols);
  }
  return values;
}

cpu::FileMatrix fileMatrix(const TensorView& view) {
  return {view.type, static_cast<int>(view.rows), static_cast<int>(view.cols), view.rowBytes(),
          view.data};
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

std::vector<CpuWeights::Entry> entries(CpuWeights& to, const Weights& from) {
  std::vector<CpuWeights::Entry> list;
  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const LayerWeights& f = from.layers[i];
    CpuLayer& t = to.layers[i];
    const int layer = static_cast<int>(i);
    list.push_back({&t.wq, &f.wq, "the query matrix", layer});
    list.push_back({&t.wk, &f.wk, "the key matrix", layer, true});
    list.push_back({&t.wv, &f.wv, "the value matrix", layer, true});
    list.push_back({&t.wo, &f.wo, "the attention output matrix", layer});
    list.push_back({&t.wGate, &f.wGate, "the gate matrix", layer});
    list.push_back({&t.wUp, &f.wUp, "the up matrix", layer});
    list.push_back({&t.wDown, &f.wDown, "the down matrix", layer});
  }
  list.push_back({&to.output, &from.output, "the output matrix", -1});
  return list;
}

/// Lays out every matrix; the bytes that they take one after another.
std::size_t plan(const std::vector<CpuWeights::Entry>& list, const WeightPrecision& precision,
                 int own, int kvHeads) {
  const KvGrouping grouping = kvGrouping(own, kvHeads);
  std::size_t total = 0;
  for (const CpuWeights::Entry& e : list) {
    const TensorView shape = e.kv ? regroupedShape(*e.from, own, kvHeads) : *e.from;
    const WeightMode mode =
        e.kv ? regroupedMode(e.from->type, precision.weights, grouping) : precision.weights;
    *e.to = cpu::planMatrix(fileMatrix(shape), formatFor(shape, mode), precision.groupSize);
    total += e.to->bytes();
  }
  return total;
}

/// Packs one matrix on all threads. Tiles are independent, so the result is the same for any pool.
cpu::PackReport pack(const cpu::FileMatrix& from, const cpu::PackedMatrix& to, std::byte* out,
                     cpu::ThreadPool& pool, const std::stop_token& stop) {
  cpu::PackReport report;
  std::mutex mutex;
  pool.run([&](int) {
    cpu::PackReport mine;
    std::vector<float> row(static_cast<std::size_t>(to.groups) * cpu::kGroup);
    for (std::int64_t t; (t = pool.claim(1)) < to.tiles && !stop.stop_requested();) {
      const int tile = static_cast<int>(t);
      const cpu::PackReport r = cpu::packTile(
          from, to, tile, out + to.tileBytes * static_cast<std::size_t>(tile), row.data());
      mine.overflowsFp16 |= r.overflowsFp16;
      mine.largestScale = std::max(mine.largestScale, r.largestScale);
    }
    const std::lock_guard lock(mutex);
    report.overflowsFp16 |= mine.overflowsFp16;
    report.largestScale = std::max(report.largestScale, mine.largestScale);
  });
  return report;
}

}  // namespace

Result<std::unique_ptr<const CpuWeights>> CpuWeights::make(const Model& model,
                                                           const WeightPrecision& precision,
                                                           int kvHeads, cpu::ThreadPool& pool,
                                                           const Progress& progress,
                                                           std::stop_token stop) {
  const Weights& from = model.weights();
  const int own = model.config().nKvHeads;
  auto weights = std::make_unique<CpuWeights>();
  weights->layers.resize(from.layers.size());
  const std::vector<Entry> list = entries(*weights, from);

  const std::size_t total = plan(list, precision, own, kvHeads);
  VITRINE_ASSIGN(weights->m_arena,
                 HostMemory::map(total, "the packed weights", MemoryUse::kWeights));

  std::size_t done = 0;
  for (const Entry& e : list) {
    if (progress) progress(kStage, static_cast<double>(done) / static_cast<double>(total));
    std::byte* out = weights->m_arena.data() + done;
    const RegroupedTensor tensor = RegroupedTensor::make(*e.from, own, e.kv ? kvHeads : own);
    const cpu::FileMatrix source = fileMatrix(tensor.view());
    cpu::PackReport report = pack(source, *e.to, out, pool, stop);
    if (e.to->outputScale != 1.0F &&
        !kernels::int8ScalesFit(report.largestScale, e.to->outputScale)) {
      e.to->outputScale = kernels::outputScaleFor(report.largestScale);
      report = pack(source, *e.to, out, pool, stop);
    }
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "loading was stopped");
    if (report.overflowsFp16) {
      return fail(ErrorCode::kUnsupported,
                  "{} of {} holds weights beyond 65504, which FP16 cannot represent; choose "
                  "native, bf16 or int8 weights",
                  e.name, e.layer < 0 ? "the model" : fmt::format("layer {}", e.layer));
    }
    e.to->data = out;
    done += e.to->bytes();
  }

  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const LayerWeights& f = from.layers[i];
    CpuLayer& t = weights->layers[i];
    t.attentionNorm = vectorOf(f.attentionNorm);
    t.ffnNorm = vectorOf(f.ffnNorm);
    t.bq = vectorOf(f.bq);
    t.bk = vectorOf(RegroupedTensor::make(f.bk, own, kvHeads).view());
    t.bv = vectorOf(RegroupedTensor::make(f.bv, own, kvHeads).view());
    t.qNorm = vectorOf(f.qNorm);
    t.kNorm = vectorOf(f.kNorm);
  }
  weights->outputNorm = vectorOf(from.outputNorm);
  VITRINE_TRY(model.checkFile());
  if (progress) progress(kStage, 1.0);
  return weights;
}

std::uint64_t cpuWeightBytes(const Weights& from, int ownKvHeads, const WeightPrecision& precision,
                             int kvHeads) {
  CpuWeights weights;
  weights.layers.resize(from.layers.size());
  const std::size_t matrices =
      plan(entries(weights, from), precision, ownKvHeads, kvHeads > 0 ? kvHeads : ownKvHeads);
  std::uint64_t values = 0;
  const auto add = [&](const TensorView& vector) {
    if (vector) values += static_cast<std::uint64_t>(vector.rows * vector.cols);
  };
  const auto regrouped = [&](const TensorView& vector) {
    if (vector) add(regroupedShape(vector, ownKvHeads, kvHeads > 0 ? kvHeads : ownKvHeads));
  };
  add(from.outputNorm);
  for (const LayerWeights& layer : from.layers) {
    for (const TensorView* vector :
         {&layer.attentionNorm, &layer.ffnNorm, &layer.bq, &layer.qNorm, &layer.kNorm}) {
      add(*vector);
    }
    regrouped(layer.bk);
    regrouped(layer.bv);
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

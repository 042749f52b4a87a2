#include "engine/quant/quant_plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <thread>

#include "engine/backend/kv_regroup.h"
#include "engine/quant/calibration_profile.h"
#include "engine/quant/smoothing.h"

namespace vitrine::engine {
namespace {

constexpr MatrixPart kReaders[][3] = {
    {MatrixPart::kQ, MatrixPart::kK, MatrixPart::kV},
    {MatrixPart::kO, MatrixPart::kO, MatrixPart::kO},
    {MatrixPart::kGate, MatrixPart::kUp, MatrixPart::kUp},
    {MatrixPart::kDown, MatrixPart::kDown, MatrixPart::kDown},
    {MatrixPart::kOutput, MatrixPart::kOutput, MatrixPart::kOutput},
};

std::span<const MatrixPart> readersOf(LinearInput input) {
  const auto& parts = kReaders[static_cast<std::size_t>(input)];
  const std::size_t count = input == LinearInput::kAttention ? 3
                            : input == LinearInput::kFfn     ? 2
                                                             : 1;
  return {parts, count};
}

const TensorView& viewOf(const Weights& weights, int layer, MatrixPart part) {
  if (part == MatrixPart::kOutput) return weights.output;
  const LayerWeights& l = weights.layers[static_cast<std::size_t>(layer)];
  switch (part) {
    case MatrixPart::kQ:
      return l.wq;
    case MatrixPart::kK:
      return l.wk;
    case MatrixPart::kV:
      return l.wv;
    case MatrixPart::kO:
      return l.wo;
    case MatrixPart::kGate:
      return l.wGate;
    case MatrixPart::kUp:
      return l.wUp;
    case MatrixPart::kDown:
    case MatrixPart::kOutput:
      break;
  }
  return l.wDown;
}

/// How a matrix of the file's type is held once its values are scaled.
WeightMode scaledMode(kernels::TensorType type, WeightMode mode) {
  return regroupedMode(type, mode, KvGrouping::kPooled);
}

/// to[q-head h, d] = from[KV head of h, d].
std::vector<float> overQueryHeads(const ModelConfig& config, std::span<const float> from) {
  const auto headDim = static_cast<std::size_t>(config.headDim);
  std::vector<float> to(static_cast<std::size_t>(config.qDim()));
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t kvHead = i / headDim / static_cast<std::size_t>(config.groupSize());
    to[i] = from[kvHead * headDim + i % headDim];
  }
  return to;
}

/// to[KV head, d] = the largest of its query heads'.
std::vector<float> largestOfGroups(const ModelConfig& config, std::span<const float> from) {
  const auto headDim = static_cast<std::size_t>(config.headDim);
  std::vector<float> to(static_cast<std::size_t>(config.kvDim()), 0.0F);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::size_t kvHead = i / headDim / static_cast<std::size_t>(config.groupSize());
    float& largest = to[kvHead * headDim + i % headDim];
    largest = std::max(largest, from[i]);
  }
  return to;
}

bool isW8A8(const WeightPrecision& p) {
  return p.weights == WeightMode::kInt8 && p.activations == ActivationMode::kInt8;
}

}  // namespace

Result<void> checkPrecision(const WeightPrecision& p) {
  if (p.activations == ActivationMode::kInt8 && p.weights != WeightMode::kInt8) {
    return fail(ErrorCode::kInvalidArgument,
                "INT8 activations need INT8 weights, not {}; choose --weights int8",
                nameOf(p.weights));
  }
  if (p.weights == WeightMode::kInt8 && p.weightScales == WeightScales::kGroup &&
      p.groupSize != 32 && p.groupSize != 64 && p.groupSize != 128) {
    return fail(ErrorCode::kInvalidArgument,
                "groups of {} INT8 weights are not possible; choose 32, 64 or 128", p.groupSize);
  }
  if (!isW8A8(p) && p.activationScales == ActivationScales::kStatic) {
    return fail(ErrorCode::kInvalidArgument,
                "static scales are for INT8 activations, which are off; switch them on or choose "
                "dynamic scales");
  }
  if (!isW8A8(p) && p.outliers != OutlierMode::kNone) {
    return fail(ErrorCode::kInvalidArgument,
                "{} is for INT8 activations, which are off; switch them on or choose no treatment "
                "of outliers",
                p.outliers == OutlierMode::kMixed ? "keeping outlier columns" : "smoothing");
  }
  if (p.outliers == OutlierMode::kSmooth && !(p.smoothing >= 0.0F && p.smoothing <= 1.0F)) {
    return fail(ErrorCode::kInvalidArgument,
                "the strength of smoothing is {}, but must lie between 0 and 1", p.smoothing);
  }
  if (p.outliers == OutlierMode::kMixed &&
      !(p.outlierThreshold > 1.0F && std::isfinite(p.outlierThreshold))) {
    return fail(ErrorCode::kInvalidArgument,
                "the threshold of outlier columns is {}, but must be a number above 1 (times the "
                "median column)",
                p.outlierThreshold);
  }
  return {};
}

/// Fills a plan, step by step.
class QuantPlan::Maker {
 public:
  Maker(const Model& model, const ModelConfig& config, QuantPlan& plan)
      : m_model(model),
        m_config(config),
        m_precision(plan.m_precision),
        m_profile(*plan.m_precision.calibration),
        m_plan(plan) {}

  void make() {
    m_plan.m_sites.resize(static_cast<std::size_t>(siteCount(m_config.nLayers)));
    m_plan.m_layers.resize(static_cast<std::size_t>(m_config.nLayers));
    if (m_precision.outliers == OutlierMode::kSmooth) {
      forEachSite([this](int site) { smooth(site); });
    }
    for (int site = 0; site < siteCount(m_config.nLayers); ++site) {
      if (m_precision.outliers == OutlierMode::kMixed && hasInt8Reader(site)) {
        at(site).outliers = outlierColumns(statistics(site), m_precision.outlierThreshold);
      }
      if (m_precision.activationScales == ActivationScales::kStatic) {
        at(site).staticScale = staticScale(site);
      }
    }
    if (m_precision.keyScales == KeyScales::kChannel) {
      for (int layer = 0; layer < m_config.nLayers; ++layer) scaleKeys(layer);
    }
  }

 private:
  SitePlan& at(int site) { return m_plan.m_sites[static_cast<std::size_t>(site)]; }
  const SiteStatistics& statistics(int site) const {
    return m_profile.sites[static_cast<std::size_t>(site)];
  }

  bool hasInt8Reader(int site) const {
    const int layer = layerOfSite(site, m_config.nLayers);
    const auto parts = readersOf(inputOfSite(site, m_config.nLayers));
    return std::any_of(parts.begin(), parts.end(),
                       [&](MatrixPart part) { return !m_precision.keep.contains(layer, part); });
  }

  /// All sites, on a few threads: each reads its matrices once. The output, the largest, first.
  template <typename Work>
  void forEachSite(Work work) {
    std::atomic<int> left{siteCount(m_config.nLayers)};
    std::atomic<bool> noMemory{false};
    const auto run = [&] {
      try {
        for (int site = --left; site >= 0; site = --left) work(site);
      } catch (const std::bad_alloc&) {
        noMemory = true;
      }
    };
    {
      std::vector<std::jthread> threads;
      const int others =
          std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8) - 1;
      for (int i = 0; i < others; ++i) threads.emplace_back(run);
      run();
    }
    if (noMemory) throw std::bad_alloc();
  }

  /// The largest |W| of each column over all matrices that read a site.
  std::vector<float> weightMaxima(int site) const {
    const int layer = layerOfSite(site, m_config.nLayers);
    const LinearInput input = inputOfSite(site, m_config.nLayers);
    std::vector<float> maxima(static_cast<std::size_t>(widthOf(m_config, input)), 0.0F);
    for (const MatrixPart part : readersOf(input)) {
      const TensorView& view = viewOf(m_model.weights(), layer, part);
      const int ownKvHeads = m_model.config().nKvHeads;
      const bool pooled = kvGrouping(ownKvHeads, m_config.nKvHeads) == KvGrouping::kPooled &&
                          (part == MatrixPart::kK || part == MatrixPart::kV);
      if (pooled) {
        growColumnMaxima(RegroupedTensor::make(view, ownKvHeads, m_config.nKvHeads).view(), maxima);
      } else {
        growColumnMaxima(view, maxima);  // repeated heads have the same maxima
      }
    }
    return maxima;
  }

  void smooth(int site) {
    if (!hasInt8Reader(site)) return;
    const LinearInput input = inputOfSite(site, m_config.nLayers);
    std::vector<float> inputs = statistics(site).channelMax, weights = weightMaxima(site);
    SitePlan& plan = at(site);
    if (input == LinearInput::kAttentionOut) {
      inputs = largestOfGroups(m_config, inputs);
      weights = largestOfGroups(m_config, weights);
    }
    plan.columnScale = smoothingFactors(inputs, weights, m_precision.smoothing);
    plan.inverse = inverses(plan.columnScale);
    const int layer = layerOfSite(site, m_config.nLayers);
    if (input == LinearInput::kDown) {
      m_plan.m_layers[static_cast<std::size_t>(layer)].upRows = plan.inverse;
    } else if (input == LinearInput::kAttentionOut) {
      m_plan.m_layers[static_cast<std::size_t>(layer)].valueRows = plan.inverse;
      plan.columnScale = overQueryHeads(m_config, plan.columnScale);
      plan.inverse = overQueryHeads(m_config, plan.inverse);
    }
  }

  /// 127 scales are the limit. Never 0: that would mean "no static scale".
  float staticScale(int site) {
    const SiteStatistics& seen = statistics(site);
    const SitePlan& plan = at(site);
    float limit = staticLimit(seen, m_profile.method, m_profile.percentile);
    if (!plan.columnScale.empty()) {
      const float share = std::min(1.0F, limit / medianColumn(seen.channelMax));
      float largest = 0.0F;
      for (std::size_t i = 0; i < seen.channelMax.size(); ++i) {
        largest = std::max(largest, seen.channelMax[i] * plan.inverse[i]);
      }
      limit = largest * share;
    } else if (!plan.outliers.empty()) {
      float largest = 0.0F;
      for (std::size_t i = 0; i < seen.channelMax.size(); ++i) {
        if (!std::binary_search(plan.outliers.begin(), plan.outliers.end(), static_cast<int>(i))) {
          largest = std::max(largest, seen.channelMax[i]);
        }
      }
      limit = std::min(limit, largest);
    }
    constexpr float kNothingSeen = 1.0F;  // a limit for live values of a site that was always zero
    return (std::isfinite(limit) && limit > 0.0F ? limit : kNothingSeen) / 127.0F;
  }

  void scaleKeys(int layer) {
    const auto index = static_cast<std::size_t>(layer);
    const LayerWeights& weights = m_model.weights().layers[index];
    LayerPlan& plan = m_plan.m_layers[index];
    const bool shared = weights.qNorm || weights.kNorm;
    const std::vector<float> factors = keyFactors(m_config, m_profile.keyMax[index], shared);
    const auto head = std::span(factors).first(static_cast<std::size_t>(m_config.headDim));
    if (weights.kNorm) {
      plan.keyNorm = inverses(head);
    } else {
      plan.keyRows = inverses(factors);
      plan.keyMode = scaledMode(weights.wk.type, m_precision.weights);
    }
    if (weights.qNorm) {
      plan.queryNorm.assign(head.begin(), head.end());
    } else {
      plan.queryRows = overQueryHeads(m_config, factors);
      plan.queryMode = scaledMode(weights.wq.type, m_precision.weights);
    }
  }

  const Model& m_model;
  const ModelConfig& m_config;
  const WeightPrecision& m_precision;
  const CalibrationProfile& m_profile;
  QuantPlan& m_plan;
};

Result<QuantPlan> QuantPlan::make(const Model& model, const ModelConfig& config,
                                  const WeightPrecision& precision) {
  VITRINE_TRY(checkPrecision(precision));
  QuantPlan plan;
  plan.m_precision = precision;
  plan.m_nLayers = config.nLayers;
  if (precision.weights == WeightMode::kInt8) {
    for (const MatrixSet::Item& item : precision.keep.items()) {
      if (item.layer < config.nLayers) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "layer {} cannot stay FP16: the model has the layers 0 to {}", item.layer,
                  config.nLayers - 1);
    }
  }
  if (!precision.needsCalibration()) return plan;
  if (precision.calibration == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "static scales, outlier columns, smoothing and keys per channel need a calibration "
                "profile of the model; calibrate it, or choose dynamic scales, no treatment of "
                "outliers and keys per token");
  }
  VITRINE_TRY(checkProfile(*precision.calibration, model.fingerprint(), config));
  try {
    Maker(model, config, plan).make();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "no memory to plan the INT8 form of the weights");
  }
  VITRINE_TRY(model.checkFile());
  return plan;
}

MatrixPlan QuantPlan::matrix(int layer, MatrixPart part) const {
  MatrixPlan matrix;
  const bool kept =
      m_precision.weights == WeightMode::kInt8 && m_precision.keep.contains(layer, part);
  matrix.mode = kept ? WeightMode::kFp16 : m_precision.weights;
  if (m_sites.empty()) return matrix;
  const int site =
      part == MatrixPart::kOutput ? outputSite(m_nLayers) : siteIndex(layer, inputOf(part));
  const SitePlan& input = m_sites[static_cast<std::size_t>(site)];
  matrix.columnScale = input.columnScale;
  if (matrix.mode == WeightMode::kInt8) matrix.outliers = input.outliers;
  if (part == MatrixPart::kOutput) return matrix;
  const LayerPlan& plan = m_layers[static_cast<std::size_t>(layer)];
  if (part == MatrixPart::kV) matrix.rowScale = plan.valueRows;
  if (part == MatrixPart::kUp) matrix.rowScale = plan.upRows;
  if (part == MatrixPart::kQ) matrix.rowScale = plan.queryRows;
  if (part == MatrixPart::kK) matrix.rowScale = plan.keyRows;
  if (matrix.mode == WeightMode::kNative && matrix.changesValues()) {
    matrix.mode = part == MatrixPart::kQ ? plan.queryMode : plan.keyMode;
  }
  return matrix;
}

std::span<const float> QuantPlan::vectorScale(int layer, VectorPart part) const {
  if (m_sites.empty()) return {};
  if (part == VectorPart::kOutputNorm) {
    return m_sites[static_cast<std::size_t>(outputSite(m_nLayers))].inverse;
  }
  const auto site = [&](LinearInput input) -> const SitePlan& {
    return m_sites[static_cast<std::size_t>(siteIndex(layer, input))];
  };
  const LayerPlan& plan = m_layers[static_cast<std::size_t>(layer)];
  switch (part) {
    case VectorPart::kAttentionNorm:
      return site(LinearInput::kAttention).inverse;
    case VectorPart::kFfnNorm:
      return site(LinearInput::kFfn).inverse;
    case VectorPart::kBq:
      return plan.queryRows;
    case VectorPart::kBk:
      return plan.keyRows;
    case VectorPart::kBv:
      return plan.valueRows;
    case VectorPart::kQNorm:
      return plan.queryNorm;
    case VectorPart::kKNorm:
      return plan.keyNorm;
    case VectorPart::kOutputNorm:
      break;
  }
  return {};
}

float QuantPlan::staticScale(int site) const {
  return m_sites.empty() ? 0.0F : m_sites[static_cast<std::size_t>(site)].staticScale;
}

std::span<const int> QuantPlan::outliers(int site) const {
  if (m_sites.empty()) return {};
  return m_sites[static_cast<std::size_t>(site)].outliers;
}

}  // namespace vitrine::engine

#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/measure/calibrate.h"
#include "engine/quant/calibration_profile.h"
#include "tests/engine/backend/backend_fixture.h"
#include "tests/tiny_models.h"

// Every INT8 form of a model (WeightPrecision), for tests that go over all of them. Needs
// vitrine_test_models and the engine's calibrate().

namespace vitrine::test {

struct PrecisionMode {
  std::string name;
  engine::WeightPrecision precision;
};

/// A profile of a model from `tokens`; `plain` is a backend for it without INT8 activations, whose
/// cache is left configured for calibration.
inline engine::CalibrationPtr calibrationOf(
    engine::Backend& plain, const engine::Model& model, std::vector<engine::TokenId> tokens,
    engine::ScaleMethod method = engine::ScaleMethod::kMax) {
  const engine::CalibrationText text{"test", std::move(tokens)};
  engine::CalibrationOptions options;
  options.name = "test";
  options.method = method;
  options.percentile = 99.0;
  options.context = 64;
  return valueOf(engine::calibrate(plain, model, std::span(&text, 1), options));
}

/// The modes for a model of at least two layers. `profile`: of the model; null leaves out what
/// needs one. `outlierThreshold`: with which some of its sites have outlier columns.
inline std::vector<PrecisionMode> precisionModes(const engine::CalibrationPtr& profile,
                                                 float outlierThreshold) {
  using namespace engine;
  std::vector<PrecisionMode> modes;
  WeightPrecision base;
  base.weights = WeightMode::kInt8;
  base.outlierThreshold = outlierThreshold;
  base.calibration = profile;
  const auto kept = [](const char* text) { return valueOf(MatrixSet::parse(text, 2)); };
  const auto scales = [](WeightPrecision p, WeightScales s, int groupSize = 32) {
    p.weightScales = s;
    p.groupSize = groupSize;
    return p;
  };
  const auto add = [&](std::string name, const WeightPrecision& p) {
    if (profile != nullptr || !p.needsCalibration()) modes.push_back({std::move(name), p});
  };
  const auto addScales = [&](const std::string& name, const WeightPrecision& p) {
    add(name + " groups of 32", scales(p, WeightScales::kGroup));
    add(name + " groups of 64", scales(p, WeightScales::kGroup, 64));
    add(name + " groups of 128", scales(p, WeightScales::kGroup, 128));
    add(name + " per channel", scales(p, WeightScales::kChannel));
    add(name + " per tensor", scales(p, WeightScales::kTensor));
  };
  addScales("W8A16", base);
  WeightPrecision a8 = base;
  a8.activations = ActivationMode::kInt8;
  addScales("W8A8", a8);
  WeightPrecision fixed = a8;
  fixed.activationScales = ActivationScales::kStatic;
  addScales("W8A8 static", fixed);
  WeightPrecision mixed = a8;
  mixed.outliers = OutlierMode::kMixed;
  addScales("W8A8 mixed", mixed);
  WeightPrecision smooth = a8;
  smooth.outliers = OutlierMode::kSmooth;
  addScales("W8A8 smooth", smooth);

  const auto perChannel = [&](WeightPrecision p) { return scales(p, WeightScales::kChannel); };
  for (const auto& [name, p] : {std::pair{"mixed", mixed}, {"smooth", smooth}}) {
    WeightPrecision both = p;
    both.activationScales = ActivationScales::kStatic;
    add(std::string("W8A8 ") + name + " static per channel", perChannel(both));
    both.weightScales = WeightScales::kTensor;
    add(std::string("W8A8 ") + name + " static per tensor", both);
  }
  // Matrices that stay FP16 beside INT8 ones that read the same rows, and whole layers.
  const auto keeping = [&](std::string name, WeightPrecision p, const char* set) {
    p.keep = kept(set);
    add(std::move(name), perChannel(p));
  };
  keeping("W8A16 per channel, some kept", base, "0.k,0.up,1,output");
  keeping("W8A8 per channel, some kept", a8, "0.q,0.v,0.down,1.gate,output");
  keeping("W8A8 static per channel, some kept", fixed, "0.q,0.k,0.v,1.o,1.up");
  keeping("W8A8 mixed per channel, some kept", mixed, "0.k,1.gate,1.down");
  keeping("W8A8 smooth per channel, some kept", smooth, "0.v,0.gate,1.o,output");
  // Keys per channel change W_q and W_k alone.
  const auto keys = [&](std::string name, WeightPrecision p) {
    p.keyScales = KeyScales::kChannel;
    add(std::move(name), p);
  };
  WeightPrecision native;
  native.calibration = profile;
  keys("native, keys per channel", native);
  keys("W8A8 per channel, keys per channel", perChannel(a8));
  keys("W8A8 smooth static per channel, keys per channel", [&] {
    WeightPrecision p = perChannel(smooth);
    p.activationScales = ActivationScales::kStatic;
    return p;
  }());
  return modes;
}

/// With which random models have outlier columns; they have no real ones.
inline constexpr float kRandomThreshold = 1.35F;

/// A random model, a profile of it, and its answers without INT8.
struct TestedModel {
  const char* name;
  std::shared_ptr<const engine::Model> model;
  engine::CalibrationPtr profile;
  std::vector<float> exact;  // [tokens, vocabSize] logits of someTokens(tokens, 10)

  static TestedModel make(const char* name, const TinyModelOptions& options, int tokens) {
    TestedModel one{name, loadModel(randomModel(options)), nullptr, {}};
    const auto plain = makeBackend(engine::BackendKind::kReference, one.model);
    one.profile = calibrationOf(*plain, *one.model, someTokens(200, 3));
    configureCache(*plain, *one.model, engine::KvType::kFp16, 3);
    one.exact = forward(*plain, someTokens(tokens, 10), 0, blocks(3), tokens);
    return one;
  }
};

/// Notes every row that it is shown.
class RowRecorder final : public engine::ActivationObserver {
 public:
  using Row = std::vector<float>;
  using Rows = std::vector<Row>;
  void row(int site, std::span<const float> values, int) override {
    const std::lock_guard lock(m_mutex);
    rows[site].emplace_back(values.begin(), values.end());
  }
  void keys(int layer, std::span<const float> values, int) override {
    const std::lock_guard lock(m_mutex);
    keyRows[layer].emplace_back(values.begin(), values.end());
  }
  std::map<int, Rows> rows, keyRows;

 private:
  std::mutex m_mutex;
};

}  // namespace vitrine::test

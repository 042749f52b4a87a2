// Smoothing and keys per channel leave the function of a model as it is; static scales, outlier
// columns and kept matrices are what the profile and the precision say.
#include <QtTest>

#include <cmath>
#include <functional>

#include "engine/backend/reference_backend.h"
#include "engine/measure/calibrate.h"
#include "engine/quant/quant_plan.h"
#include "engine/quant/smoothing.h"
#include "kernels/reference/dequantize.h"
#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::test;
using vitrine::kernels::TensorType;

namespace {

constexpr int kTokens = 40;

/// How a model differs from the plain one.
struct Trait {
  const char* name;
  TinyModelOptions options;
  std::function<void(ModelConfig&)> change;
  bool headNorm = false;
};

std::vector<Trait> traits() {
  std::vector<Trait> list;
  const auto add = [&](const char* name, int nHeads, int nKvHeads) {
    TinyModelOptions options;
    options.nHeads = nHeads;
    options.nKvHeads = nKvHeads;
    options.seed = list.size() + 20;
    list.push_back({name, options, {}, false});
    return &list.back();
  };
  add("two query heads for a KV head", 4, 2);
  add("a KV head for each head", 4, 4);
  add("one KV head for all", 4, 1);
  add("biases", 4, 2)->options.attentionBias = true;
  add("norms of heads", 4, 2)->headNorm = true;
  add("tied output", 4, 2)->options.tiedOutput = true;
  add("RoPE over halves", 4, 2)->change = [](ModelConfig& c) { c.rope.style = RopeStyle::kHalves; };
  add("RoPE over halves of a part", 2, 1)->change = [](ModelConfig& c) {
    c.rope.style = RopeStyle::kHalves;
    c.rope.dims = c.headDim / 2;
  };
  add("RoPE over neighbours in a part", 2, 2)->change = [](ModelConfig& c) {
    c.rope.dims = c.headDim / 4;
  };
  Trait& all = *add("halves, biases and norms of heads", 4, 2);
  all.options.attentionBias = true;
  all.headNorm = true;
  all.change = [](ModelConfig& c) { c.rope.style = RopeStyle::kHalves; };
  add("GELU", 4, 2)->change = [](ModelConfig& c) { c.activation = Activation::kGeluTanh; };
  return list;
}

std::unique_ptr<Backend> plainBackend(const std::shared_ptr<const Model>& model,
                                      const ModelConfig& config,
                                      const WeightPrecision& precision = {}) {
  auto weights = valueOf(ReferenceWeights::make(*model, config, precision, {}, {}));
  return std::make_unique<ReferenceBackend>(model, config, precision, std::move(weights));
}

CalibrationPtr profileOf(Backend& backend, const Model& model,
                         ScaleMethod method = ScaleMethod::kMax) {
  const CalibrationText text{"test", someTokens(180, 5)};
  CalibrationOptions options;
  options.name = "test";
  options.method = method;
  options.context = 60;
  return valueOf(calibrate(backend, model, {&text, 1}, options));
}

std::vector<float> logitsOf(Backend& backend) {
  valueOf(backend.configureCache({KvType::kFp16, 16, 4, backend.config().nKvHeads}));
  return forward(backend, someTokens(kTokens, 9), 0, blocks(3), kTokens);
}

/// Replaces the weights of a loaded model; what they point to lives as long as this.
class Editor {
 public:
  explicit Editor(const Model& model) : m_weights(const_cast<Weights&>(model.weights())) {}

  TensorView hold(TensorView shape, std::vector<float> values) {
    m_values.push_back(std::make_unique<std::vector<float>>(std::move(values)));
    shape.type = TensorType::kF32;
    shape.data = reinterpret_cast<const std::byte*>(m_values.back()->data());
    return shape;
  }

  /// No architecture of the table has norms of heads yet: as a file would give them.
  void giveHeadNorms(int headDim) {
    for (LayerWeights& layer : m_weights.layers) {
      const TensorView shape{TensorType::kF32, 1, headDim, nullptr};
      std::vector<float> q, k;
      for (int i = 0; i < headDim; ++i) {
        q.push_back(0.8F + 0.05F * static_cast<float>(i % 9));
        k.push_back(0.6F + 0.09F * static_cast<float>(i % 7));
      }
      layer.qNorm = hold(shape, q);
      layer.kNorm = hold(shape, k);
    }
  }

  /// The model with the plan's factors in its own FP32 weights, nothing rounded.
  void apply(const QuantPlan& plan) {
    const auto matrix = [&](TensorView& view, int layer, MatrixPart part) {
      const MatrixPlan how = plan.matrix(layer, part);
      view = scaled(view, how.rowScale, how.columnScale);
    };
    const auto vector = [&](TensorView& view, int layer, VectorPart part) {
      if (view) view = scaled(view, {}, plan.vectorScale(layer, part));
    };
    for (int i = 0; i < static_cast<int>(m_weights.layers.size()); ++i) {
      LayerWeights& layer = m_weights.layers[static_cast<std::size_t>(i)];
      matrix(layer.wq, i, MatrixPart::kQ);
      matrix(layer.wk, i, MatrixPart::kK);
      matrix(layer.wv, i, MatrixPart::kV);
      matrix(layer.wo, i, MatrixPart::kO);
      matrix(layer.wGate, i, MatrixPart::kGate);
      matrix(layer.wUp, i, MatrixPart::kUp);
      matrix(layer.wDown, i, MatrixPart::kDown);
      vector(layer.attentionNorm, i, VectorPart::kAttentionNorm);
      vector(layer.ffnNorm, i, VectorPart::kFfnNorm);
      vector(layer.bq, i, VectorPart::kBq);
      vector(layer.bk, i, VectorPart::kBk);
      vector(layer.bv, i, VectorPart::kBv);
      vector(layer.qNorm, i, VectorPart::kQNorm);
      vector(layer.kNorm, i, VectorPart::kKNorm);
    }
    matrix(m_weights.output, -1, MatrixPart::kOutput);
    vector(m_weights.outputNorm, -1, VectorPart::kOutputNorm);
  }

 private:
  TensorView scaled(const TensorView& view, std::span<const float> rows,
                    std::span<const float> columns) {
    std::vector<float> values(static_cast<std::size_t>(view.rows * view.cols));
    for (std::int64_t r = 0; r < view.rows; ++r) {
      float* row = values.data() + r * view.cols;
      vitrine::kernels::reference::dequantize(
          view.type, view.data + view.rowBytes() * static_cast<std::size_t>(r), row, view.cols);
      for (std::int64_t i = 0; i < view.cols; ++i) {
        if (!rows.empty()) row[i] *= rows[static_cast<std::size_t>(r)];
        if (!columns.empty()) row[i] *= columns[static_cast<std::size_t>(i)];
      }
    }
    return hold(view, std::move(values));
  }

  Weights& m_weights;
  std::vector<std::unique_ptr<std::vector<float>>> m_values;
};

WeightPrecision w8a8(CalibrationPtr profile) {
  WeightPrecision precision;
  precision.weights = WeightMode::kInt8;
  precision.activations = ActivationMode::kInt8;
  precision.calibration = std::move(profile);
  return precision;
}

bool spreads(std::span<const float> factors, float least = 1.2F) {
  const auto [low, high] = std::minmax_element(factors.begin(), factors.end());
  return !factors.empty() && *high > least * *low;
}

}  // namespace

class TestQuantPlan : public QObject {
  Q_OBJECT

 private slots:
  void theFunctionStays_data() {
    QTest::addColumn<int>("trait");
    QTest::addColumn<float>("smoothing");
    QTest::addColumn<bool>("keys");
    const auto list = traits();
    for (int i = 0; i < static_cast<int>(list.size()); ++i) {
      const auto row = [&](const char* what, float smoothing, bool keys) {
        QTest::addRow("%s, %s", list[static_cast<std::size_t>(i)].name, what)
            << i << smoothing << keys;
      };
      row("smoothed by half", 0.5F, false);
      row("smoothed wholly", 1.0F, false);
      row("by the weights alone", 0.0F, false);
      row("keys per channel", -1.0F, true);
      row("both", 0.85F, true);
    }
  }
  void theFunctionStays() {
    QFETCH(int, trait);
    QFETCH(float, smoothing);
    QFETCH(bool, keys);
    const Trait how = traits()[static_cast<std::size_t>(trait)];
    const auto model = loadModel(randomModel(how.options));
    ModelConfig config = model->config();
    if (how.change) how.change(config);
    Editor editor(*model);
    if (how.headNorm) editor.giveHeadNorms(config.headDim);
    const auto exact = plainBackend(model, config);
    const CalibrationPtr profile = profileOf(*exact, *model);
    const std::vector<float> wanted = logitsOf(*exact);

    WeightPrecision precision = w8a8(profile);
    if (smoothing >= 0.0F) {
      precision.outliers = OutlierMode::kSmooth;
      precision.smoothing = smoothing;
    }
    if (keys) precision.keyScales = KeyScales::kChannel;
    const QuantPlan plan = valueOf(QuantPlan::make(*model, config, precision));
    if (smoothing >= 0.0F) {
      QVERIFY(spreads(plan.matrix(0, MatrixPart::kQ).columnScale));
      QVERIFY(spreads(plan.matrix(1, MatrixPart::kO).columnScale));
      QVERIFY(spreads(plan.matrix(1, MatrixPart::kUp).columnScale));
      QVERIFY(spreads(plan.matrix(0, MatrixPart::kDown).columnScale));
      QVERIFY(spreads(plan.matrix(-1, MatrixPart::kOutput).columnScale));
    }
    if (keys) {
      QVERIFY(spreads(how.headNorm ? plan.vectorScale(0, VectorPart::kKNorm)
                                   : plan.matrix(0, MatrixPart::kK).rowScale,
                      std::sqrt(1.2F)));
      QCOMPARE(plan.matrix(0, MatrixPart::kQ).rowScale.empty(), how.headNorm);
    }
    editor.apply(plan);
    const auto scaled = plainBackend(model, config);
    // The cache holds FP16: scaled keys and values are rounded in other places.
    const double error = difference(wanted, logitsOf(*scaled));
    QVERIFY2(error < 1e-3, qPrintable(QString::number(error)));
  }

  void keysPerChannelInTheFilesTypes_data() {
    QTest::addColumn<int>("type");
    QTest::addColumn<int>("mode");
    QTest::newRow("F32") << int(TensorType::kF32) << int(WeightMode::kNative);
    QTest::newRow("F16") << int(TensorType::kF16) << int(WeightMode::kFp16);
    QTest::newRow("BF16") << int(TensorType::kBF16) << int(WeightMode::kBf16);
    QTest::newRow("Q8_0") << int(TensorType::kQ8_0) << int(WeightMode::kFp16);
    QTest::newRow("Q4_1") << int(TensorType::kQ4_1) << int(WeightMode::kFp16);
  }
  void keysPerChannelInTheFilesTypes() {
    QFETCH(int, type);
    QFETCH(int, mode);
    TinyModelOptions options;
    options.weightType = static_cast<TensorType>(type);
    const auto model = loadModel(randomModel(options));
    const auto exact = plainBackend(model, model->config());
    WeightPrecision precision;
    precision.keyScales = KeyScales::kChannel;
    precision.calibration = profileOf(*exact, *model);
    const QuantPlan plan = valueOf(QuantPlan::make(*model, model->config(), precision));
    QCOMPARE(int(plan.matrix(0, MatrixPart::kQ).mode), mode);
    QCOMPARE(int(plan.matrix(1, MatrixPart::kK).mode), mode);
    QCOMPARE(int(plan.matrix(1, MatrixPart::kV).mode), int(WeightMode::kNative));
    const auto scaled = plainBackend(model, model->config(), precision);
    const double error = difference(logitsOf(*exact), logitsOf(*scaled));
    QVERIFY2(error < (type == int(TensorType::kBF16) ? 1e-2 : 2e-3),
             qPrintable(QString::number(error)));
  }

  void otherNumbersOfKvHeads_data() {
    QTest::addColumn<int>("kvHeads");
    QTest::newRow("pooled") << 1;
    QTest::newRow("own") << 2;
    QTest::newRow("repeated") << 4;
  }
  void otherNumbersOfKvHeads() {
    QFETCH(int, kvHeads);
    TinyModelOptions options;
    options.attentionBias = true;
    const auto model = loadModel(randomModel(options));
    ModelConfig config = model->config();
    config.nKvHeads = kvHeads;
    const auto exact = plainBackend(model, config);
    WeightPrecision precision = w8a8(profileOf(*exact, *model));
    precision.outliers = OutlierMode::kSmooth;
    precision.keyScales = KeyScales::kChannel;
    const auto smooth = plainBackend(model, config, precision);
    const double error = difference(logitsOf(*exact), logitsOf(*smooth));
    QVERIFY2(error < 0.04, qPrintable(QString::number(error)));  // INT8's own
    if (kvHeads == 2) return;
    const auto foreign = QuantPlan::make(*model, model->config(), precision);
    QVERIFY(!foreign && foreign.error().code == ErrorCode::kInvalidArgument);
    QVERIFY(foreign.error().message.find("KV heads") != std::string::npos);
  }

  void smoothingFollowsItsFormula() {
    const std::vector<float> inputs{1.0F, 4.0F, 16.0F, 0.5F};
    const std::vector<float> weights{0.5F, 0.25F, 1.0F, 2.0F};
    for (const float alpha : {0.0F, 0.3F, 0.5F, 1.0F}) {
      const auto s = smoothingFactors(inputs, weights, alpha);
      double logSum = 0.0;
      for (std::size_t i = 0; i < s.size(); ++i) {
        logSum += std::log(s[i]);
        const double formula = std::pow(inputs[i], alpha) / std::pow(weights[i], 1.0F - alpha);
        const double first = std::pow(inputs[0], alpha) / std::pow(weights[0], 1.0F - alpha);
        QVERIFY(std::fabs(s[i] / s[0] - formula / first) < 1e-4 * formula / first);
      }
      QVERIFY(std::fabs(logSum) < 1e-4);
    }
    // α = 1 makes all inputs equally large.
    const auto s = smoothingFactors(inputs, weights, 1.0F);
    for (std::size_t i = 0; i < s.size(); ++i) {
      QVERIFY(std::fabs(inputs[i] / s[i] - inputs[0] / s[0]) < 1e-4F);
    }
  }

  void smoothingSurvivesStrangeColumns() {
    const float infinite = std::numeric_limits<float>::infinity();
    const std::vector<float> inputs{1.0F, 0.0F, 30.0F, 2.0F, 1e-38F, 3e38F, infinite};
    const std::vector<float> weights{1.0F, 1.0F, 0.0F, infinite, 1.0F, 1e-38F, 1.0F};
    for (const float alpha : {0.0F, 0.5F, 1.0F}) {
      const auto s = smoothingFactors(inputs, weights, alpha);
      for (const float factor : s) QVERIFY(factor >= 0x1p-12F && factor <= 0x1p12F);
      QCOMPARE(s[1], 1.0F);
      QCOMPARE(s[6], 1.0F);
    }
    QCOMPARE(smoothingFactors(std::vector<float>(3, 0.0F), weights, 0.5F),
             std::vector<float>(3, 1.0F));
  }

  void rotatedPairsShareAFactor() {
    ModelConfig c;
    c.nHeads = 4;
    c.nKvHeads = 2;
    c.headDim = 8;
    c.rope.dims = 4;
    std::vector<float> keyMax;
    for (int i = 1; i <= 16; ++i) keyMax.push_back(static_cast<float>(i * i));
    keyMax[7] = 0.0F;
    for (const RopeStyle style : {RopeStyle::kInterleaved, RopeStyle::kHalves}) {
      c.rope.style = style;
      const int other = style == RopeStyle::kHalves ? 2 : 1;
      for (const bool shared : {false, true}) {
        const auto f = keyFactors(c, keyMax, shared);
        for (int h = 0; h < 2; ++h) {
          const auto head = std::span(f).subspan(static_cast<std::size_t>(8 * h), 8);
          QCOMPARE(head[0], head[static_cast<std::size_t>(other)]);
          QCOMPARE(head[3], head[static_cast<std::size_t>(3 - other)]);
          QVERIFY(head[0] != head[3]);
          for (int i = 4; i < 7; ++i) QVERIFY(head[std::size_t(i)] != head[std::size_t(i + 1)]);
          if (!shared) {  // the root of 6²/5² and, in the second head, 14²/13²
            const float wanted = h == 0 ? 6.0F / 5.0F : 14.0F / 13.0F;
            QVERIFY(std::fabs(head[5] / head[4] - wanted) < 1e-5F);
          }
          double logSum = 0.0;
          for (const float factor : head) logSum += std::log(factor);
          QVERIFY(std::fabs(logSum) < 1e-4);
        }
        QCOMPARE(std::equal(f.begin(), f.begin() + 8, f.begin() + 8), shared);
      }
    }
  }

  void staticScalesHoldWhatWasSeen() {
    const auto model = loadModel(randomModel());
    const auto exact = plainBackend(model, model->config());
    WeightPrecision precision = w8a8(profileOf(*exact, *model));
    precision.activationScales = ActivationScales::kStatic;
    const CalibrationProfile& profile = *precision.calibration;
    for (const OutlierMode mode : {OutlierMode::kNone, OutlierMode::kMixed, OutlierMode::kSmooth}) {
      precision.outliers = mode;
      precision.outlierThreshold = 1.3F;
      const QuantPlan plan = valueOf(QuantPlan::make(*model, model->config(), precision));
      bool anyOutliers = false;
      for (int site = 0; site < siteCount(2); ++site) {
        const auto& seen = profile.sites[static_cast<std::size_t>(site)].channelMax;
        const auto outliers = plan.outliers(site);
        anyOutliers = anyOutliers || !outliers.empty();
        const MatrixPart reader[] = {MatrixPart::kQ, MatrixPart::kO, MatrixPart::kGate,
                                     MatrixPart::kDown, MatrixPart::kOutput};
        const auto columns =
            plan.matrix(layerOfSite(site, 2), reader[int(inputOfSite(site, 2))]).columnScale;
        float largest = 0.0F;
        for (std::size_t i = 0; i < seen.size(); ++i) {
          if (std::binary_search(outliers.begin(), outliers.end(), static_cast<int>(i))) continue;
          largest = std::max(largest, columns.empty() ? seen[i] : seen[i] / columns[i]);
        }
        const float limit = 127.0F * plan.staticScale(site);
        QVERIFY(std::fabs(limit - largest) < 1e-4F * largest);
      }
      QCOMPARE(anyOutliers, mode == OutlierMode::kMixed);
    }
    precision.activationScales = ActivationScales::kDynamic;
    QCOMPARE(valueOf(QuantPlan::make(*model, model->config(), precision)).staticScale(0), 0.0F);
  }

  void keptMatricesTakePart() {
    const auto model = loadModel(randomModel());
    const auto exact = plainBackend(model, model->config());
    WeightPrecision precision = w8a8(profileOf(*exact, *model));
    precision.outliers = OutlierMode::kSmooth;
    precision.keep = valueOf(MatrixSet::parse("0.k,1.gate,1.up", 2));
    const QuantPlan plan = valueOf(QuantPlan::make(*model, model->config(), precision));
    QVERIFY(plan.matrix(0, MatrixPart::kK).mode == WeightMode::kFp16);
    QVERIFY(plan.matrix(0, MatrixPart::kQ).mode == WeightMode::kInt8);
    // Its input is divided like that of q and v, so it is multiplied like them.
    QVERIFY(!plan.matrix(0, MatrixPart::kK).columnScale.empty());
    QVERIFY(std::ranges::equal(plan.matrix(0, MatrixPart::kK).columnScale,
                               plan.matrix(0, MatrixPart::kQ).columnScale));
    // Nobody reads this one as INT8.
    QVERIFY(plan.matrix(1, MatrixPart::kGate).columnScale.empty());
    QVERIFY(plan.vectorScale(1, VectorPart::kFfnNorm).empty());
    QVERIFY(!plan.vectorScale(0, VectorPart::kFfnNorm).empty());

    precision.outliers = OutlierMode::kMixed;
    precision.outlierThreshold = 1.2F;
    const QuantPlan mixed = valueOf(QuantPlan::make(*model, model->config(), precision));
    QVERIFY(mixed.outliers(siteIndex(1, LinearInput::kFfn)).empty());
    QVERIFY(mixed.matrix(0, MatrixPart::kK).outliers.empty());
    QVERIFY(std::ranges::equal(mixed.matrix(0, MatrixPart::kQ).outliers,
                               mixed.outliers(siteIndex(0, LinearInput::kAttention))));
  }

  void modesThatDoNotGoTogetherAreRefused() {
    const auto refused = [](auto change, const char* word) {
      WeightPrecision p;
      change(p);
      const auto result = checkPrecision(p);
      return !result && result.error().code == ErrorCode::kInvalidArgument &&
             result.error().message.find(word) != std::string::npos;
    };
    const auto int8 = [](WeightPrecision& p) {
      p.weights = WeightMode::kInt8;
      p.activations = ActivationMode::kInt8;
    };
    const float nan = std::nanf("");
    QVERIFY(refused([](auto& p) { p.activations = ActivationMode::kInt8; }, "INT8 weights"));
    QVERIFY(refused([](auto& p) { p.activationScales = ActivationScales::kStatic; }, "static"));
    QVERIFY(refused([](auto& p) { p.outliers = OutlierMode::kMixed; }, "outlier columns"));
    QVERIFY(refused([](auto& p) { p.outliers = OutlierMode::kSmooth; }, "smoothing"));
    for (const int group : {0, 16, 48, 256}) {
      QVERIFY(refused([&](auto& p) { int8(p), p.groupSize = group; }, "32, 64 or 128"));
    }
    for (const float alpha : {-0.1F, 1.1F, nan}) {
      QVERIFY(
          refused([&](auto& p) { int8(p), p.outliers = OutlierMode::kSmooth, p.smoothing = alpha; },
                  "between 0 and 1"));
    }
    for (const float threshold : {1.0F, -3.0F, nan, std::numeric_limits<float>::infinity()}) {
      QVERIFY(refused(
          [&](auto& p) {
            int8(p), p.outliers = OutlierMode::kMixed, p.outlierThreshold = threshold;
          },
          "threshold"));
    }
    WeightPrecision good;
    int8(good);
    good.groupSize = 128;
    QVERIFY(checkPrecision(good).has_value());
    good.weightScales = WeightScales::kTensor;
    good.groupSize = 7;  // of no effect
    QVERIFY(checkPrecision(good).has_value());
  }

  void whatIsMissingIsSaid() {
    const auto model = loadModel(randomModel());
    const auto other = loadModel(randomModel({.seed = 2}));
    const auto error = [&](const WeightPrecision& p) {
      const auto plan = QuantPlan::make(*model, model->config(), p);
      return plan ? std::string() : plan.error().message;
    };
    WeightPrecision precision = w8a8(nullptr);
    QCOMPARE(error(precision), std::string());
    precision.outliers = OutlierMode::kSmooth;
    QVERIFY(error(precision).find("need a calibration profile") != std::string::npos);
    const auto foreign = plainBackend(other, other->config());
    precision.calibration = profileOf(*foreign, *other);
    QVERIFY(error(precision).find("another model") != std::string::npos);
    precision.outliers = OutlierMode::kNone;  // then the profile is not read
    QCOMPARE(error(precision), std::string());
    precision.keep.addLayer(2);
    QVERIFY(error(precision).find("layers 0 to 1") != std::string::npos);
  }

  // ------------------------------------------------------------ calibrate()

  void calibrationSeesEveryRow() {
    const auto model = loadModel(randomModel());
    const auto reference = plainBackend(model, model->config());
    const auto cpu = makeBackend(BackendKind::kCpu, model);
    const CalibrationPtr a = profileOf(*reference, *model), b = profileOf(*cpu, *model);
    QCOMPARE(a->tokens, std::int64_t{180});
    QCOMPARE(a->sites.size(), std::size_t{9});
    for (std::size_t i = 0; i < a->sites.size(); ++i) {
      const std::size_t width = a->sites[i].channelMax.size();
      QCOMPARE(a->sites[i].histogram.count(), std::uint64_t{180} * width);
      QCOMPARE(b->sites[i].histogram.count(), std::uint64_t{180} * width);
      QVERIFY(difference(a->sites[i].channelMax, b->sites[i].channelMax) < 2e-2);
      QVERIFY(std::fabs(a->sites[i].sumOfSquares / b->sites[i].sumOfSquares - 1.0) < 1e-2);
    }
    for (std::size_t i = 0; i < 2; ++i) QVERIFY(difference(a->keyMax[i], b->keyMax[i]) < 2e-2);
    QCOMPARE(QString::fromStdString(a->id),
             QString::fromStdString(profileOf(*reference, *model)->id));
  }

  void calibrationRefusesWhatItCannotUse() {
    const auto model = loadModel(randomModel());
    const auto plain = plainBackend(model, model->config());
    CalibrationText text{"test", someTokens(20, 1)};
    CalibrationOptions options;
    const auto code = [&](Backend& backend, std::stop_token stop = {}) {
      const auto result = calibrate(backend, *model, {&text, 1}, options, {}, stop);
      return result ? ErrorCode::kInternal : result.error().code;
    };
    const auto int8 = plainBackend(model, model->config(), w8a8(nullptr));
    QVERIFY(code(*int8) == ErrorCode::kInvalidArgument);
    std::stop_source stopped;
    stopped.request_stop();
    QVERIFY(code(*plain, stopped.get_token()) == ErrorCode::kCancelled);
    options.context = 100000;
    QVERIFY(code(*plain) == ErrorCode::kInvalidArgument);
    options = {};
    options.percentile = 0.0;
    QVERIFY(code(*plain) == ErrorCode::kInvalidArgument);
    options = {};
    text.tokens.clear();
    QVERIFY(code(*plain) == ErrorCode::kInvalidArgument);
    text.tokens = {100000};
    QVERIFY(code(*plain) != ErrorCode::kInternal);  // what the backend says about such a token
  }
};

QTEST_APPLESS_MAIN(TestQuantPlan)
#include "tst_quant_plan.moc"

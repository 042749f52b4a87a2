// A model into which outlier columns were built, function unchanged: plain W8A8 breaks on it; mixed
// decomposition, smoothing and kept layers each bring it back. On the real model they cost nothing.
// Judged on answers of the model itself, where its best token is seldom a matter of chance.
#include <QtTest>

#include <cmath>

#include "app/studio/bundled_texts.h"
#include "app/studio/range_watch.h"
#include "engine/measure/calibrate.h"
#include "engine/measure/distribution.h"
#include "engine/measure/evaluate.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/backend/backend_fixture.h"
#include "tests/engine/quant/outlier_model.h"
#include "tests/test_model.h"

using namespace vitrine::engine;
using namespace vitrine::test;
using vitrine::app::studio::bundledText;

namespace {

constexpr int kThreads = 1;  // threads that wait for each other are slow beside other programs
// A column in each group of 32, in six layers: no group of INT8 activations is spared.
constexpr int kColumns = 18;
constexpr float kStrength = 2048.0F;
constexpr const char* kOutlierLayers = "3,8,13,18,23,28,output";

std::vector<TokenId> ownAnswers(Backend& backend, const Model& model) {
  std::vector<TokenId> tokens;
  for (const char* question :
       {"What is a lighthouse?", "Explain how bread is made.", "Write a short story about a ferry.",
        "How does a bicycle stay upright?"}) {
    std::vector<TokenId> part = model.tokenizer().encodeWithControlTokens(
        std::string("<|im_start|>user\n") + question + "<|im_end|>\n<|im_start|>assistant\n");
    configureCache(backend, model, KvType::kFp16, 16);
    std::size_t done = 0;
    while (part.size() < 256) {
      const auto logits =
          forward(backend, std::span(part).subspan(done), static_cast<int>(done), blocks(16));
      done = part.size();
      part.push_back(bestToken(logits));
    }
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  return tokens;
}

}  // namespace

class TestOutlierModel : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY2(haveTestModel(), missingModelMessage().c_str());
    m_model = valueOf(Model::load(testModelPath()));
    m_exact = makeBackend(BackendKind::kCpu, m_model, fp16(), kThreads);
    m_text = ownAnswers(*m_exact, *m_model);
  }

  void outliersBreakPlainInt8AndEachTreatmentBringsItBack() {
    OutlierModel edited;
    edited.model = valueOf(Model::load(testModelPath()));
    edited.build({3, 8, 13, 18, 23, 28}, kColumns, kStrength);
    const auto exact = makeBackend(BackendKind::kCpu, edited.model, fp16(), kThreads);
    const auto same = valueOf(evaluate(*exact, m_exact.get(), m_model->config(), m_text, {}));
    qInfo("the edited model in FP16 against the real one: KL %.1e", same.klMean);
    QVERIFY(same.klMean < 1e-3);  // the function stayed

    const auto profile = profileOf(*exact, *edited.model);
    const auto top1 = [&](const char* name, const WeightPrecision& precision) {
      return 100.0 * measure(name, *exact, edited.model, precision).top1Agreement;
    };
    QVERIFY(top1("plain W8A8", w8a8(profile)) < 80.0);
    QVERIFY(top1("plain W8A8, per channel and token", perChannel(w8a8(profile))) < 80.0);
    QVERIFY(top1("mixed", mixed(profile)) > 97.0);
    QVERIFY(top1("smooth", smooth(profile)) > 97.0);
    QVERIFY(top1("kept layers", kept(profile)) > 97.0);
  }

  void onTheRealModelNothingGetsWorse() {
    const auto profile = profileOf(*m_exact, *m_model);
    for (const bool channel : {false, true}) {
      const auto kl = [&](const char* name, const WeightPrecision& precision) {
        return measure(name, *m_exact, m_model, channel ? perChannel(precision) : precision).klMean;
      };
      const double plain = kl("real model, W8A8", w8a8(profile));
      QVERIFY(plain > 1e-4);
      QVERIFY(kl("real model, mixed", mixed(profile)) <= 1.05 * plain);
      QVERIFY(kl("real model, smooth", smooth(profile)) <= 1.05 * plain);
      QVERIFY(kl("real model, kept layers", kept(profile)) <= 1.05 * plain);
    }
  }

  // Static scales are as good as the text that they were calibrated on.
  void scalesOfAnotherTextAreSeen() {
    const auto all = m_model->tokenizer().encode(bundledText("chat"));
    const std::vector<TokenId> live(all.begin(), all.begin() + 1024);
    const CalibrationText chat{"chat", {all.begin() + 1024, all.end()}};
    const CalibrationText chinese{"chinese", m_model->tokenizer().encode(bundledText("chinese"))};
    double divergence[2][2];  // [static][of another text]
    double clipped[2];
    std::size_t warnings[2];
    for (const bool other : {false, true}) {
      const auto profile =
          valueOf(calibrate(*m_exact, *m_model, {other ? &chinese : &chat, 1}, {}));
      for (const bool fixed : {false, true}) {
        WeightPrecision precision = perChannel(mixed(profile));
        precision.outlierThreshold = fixed ? 3.0F : 6.0F;
        if (fixed) precision.activationScales = ActivationScales::kStatic;
        if (!fixed) precision.outliers = OutlierMode::kNone;
        const auto backend = makeBackend(BackendKind::kCpu, m_model, precision, kThreads);
        const auto report = valueOf(evaluate(*backend, m_exact.get(), m_model->config(), live, {}));
        divergence[fixed][other] = report.klMean;
        std::uint64_t values = 0, beyond = 0;
        for (const SiteUse& use : backend->activationUse()) {
          values += use.values;
          beyond += use.clipped;
        }
        QCOMPARE(values > 0, fixed);
        if (fixed) {
          vitrine::app::studio::RangeWatch watch;
          std::vector<SiteUse> before = backend->activationUse();
          for (SiteUse& use : before) use.values = use.clipped = 0;
          watch.look(before, *profile);
          warnings[other] = watch.look(backend->activationUse(), *profile).size();
        }
        if (fixed) clipped[other] = static_cast<double>(beyond) / static_cast<double>(values);
        qInfo("%s scales, calibrated on %s: KL %.5f, clipped %.1e", fixed ? "static" : "dynamic",
              other ? "Chinese" : "chat", report.klMean, fixed ? clipped[other] : 0.0);
      }
    }
    QVERIFY(divergence[true][true] >= 2.0 * divergence[true][false]);
    QVERIFY(clipped[true] >= 2.0 * clipped[false]);
    qInfo("layers' inputs that are warned of: %zu with Chinese, %zu with chat", warnings[true],
          warnings[false]);
    QVERIFY(warnings[true] > 0 && warnings[true] >= 2 * warnings[false]);
    QCOMPARE(divergence[false][true], divergence[false][false]);
  }

 private:
  static WeightPrecision fp16() {
    WeightPrecision precision;
    precision.weights = WeightMode::kFp16;
    return precision;
  }
  static WeightPrecision w8a8(const CalibrationPtr& profile) {
    WeightPrecision precision;
    precision.weights = WeightMode::kInt8;
    precision.activations = ActivationMode::kInt8;
    precision.calibration = profile;
    return precision;
  }
  static WeightPrecision perChannel(WeightPrecision precision) {
    precision.weightScales = WeightScales::kChannel;
    return precision;
  }
  static WeightPrecision mixed(const CalibrationPtr& profile) {
    WeightPrecision precision = w8a8(profile);
    precision.outliers = OutlierMode::kMixed;
    return precision;
  }
  static WeightPrecision smooth(const CalibrationPtr& profile) {
    WeightPrecision precision = w8a8(profile);
    precision.outliers = OutlierMode::kSmooth;
    return precision;
  }
  WeightPrecision kept(const CalibrationPtr& profile) const {
    WeightPrecision precision = w8a8(profile);
    precision.keep = valueOf(MatrixSet::parse(kOutlierLayers, m_model->config().nLayers));
    return precision;
  }

  static CalibrationPtr profileOf(Backend& backend, const Model& model) {
    const CalibrationText text{"chat", model.tokenizer().encode(bundledText("chat"))};
    return valueOf(calibrate(backend, model, {&text, 1}, {}));
  }

  EvaluationReport measure(const char* name, Backend& exact,
                           const std::shared_ptr<const Model>& model,
                           const WeightPrecision& precision) const {
    const auto backend = makeBackend(BackendKind::kCpu, model, precision, kThreads);
    EvaluationOptions options;
    options.context = 256;  // an answer a window
    const auto report = valueOf(evaluate(*backend, &exact, model->config(), m_text, options));
    qInfo("%-34s KL %.5f, p99 %.4f, best token agrees at %.2f %%", name, report.klMean,
          report.klP99, 100 * report.top1Agreement);
    return report;
  }

  std::shared_ptr<const Model> m_model;
  std::unique_ptr<Backend> m_exact;
  std::vector<TokenId> m_text;
};

QTEST_GUILESS_MAIN(TestOutlierModel)
#include "tst_outlier_model.moc"

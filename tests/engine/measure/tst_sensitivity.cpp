// Which layers lose most when they alone are quantized, against evaluations made here.
#include <QtTest>

#include "engine/measure/keep_choice.h"
#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::test;

class TestSensitivity : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    TinyModelOptions options;
    options.nLayers = 3;
    options.contextLength = 128;
    m_model = loadModel(randomModel(options));
    m_options.precision.weights = WeightMode::kInt8;
    m_options.precision.activations = ActivationMode::kInt8;
    m_options.context = 32;
    m_options.chunk = 16;
  }

  void rowsNameWhatIsQuantizedAlone() {
    m_options.matrices = true;
    const auto report = measured(m_options);
    m_options.matrices = false;
    QCOMPARE(report.layers.size(), 3U);
    QCOMPARE(report.parts.size(), 8U);
    QCOMPARE(report.matrices.size(), 3U * 7 + 1);
    QCOMPARE(report.tokens, 3 * 16);
    std::vector<std::string> names;
    for (const auto* rows : {&report.layers, &report.parts, &report.matrices}) {
      for (std::size_t i = 0; i < rows->size(); ++i) {
        const SensitivityRow& row = (*rows)[i];
        names.push_back(row.name);
        if (i > 0) QVERIFY((*rows)[i - 1].klMean >= row.klMean);
        QCOMPARE(valueOf(MatrixSet::parse(row.name, 3)), row.quantized);
      }
    }
    for (const char* name : {"0", "2", "*.q", "*.down", "output", "1.gate", "2.down"}) {
      QVERIFY2(std::find(names.begin(), names.end(), name) != names.end(), name);
    }
  }

  // A row is what evaluate() finds for a backend that keeps all other matrices.
  void aRowIsAnEvaluation() {
    const auto text = someTokens(96, 3);
    const auto report = measured(m_options);
    WeightPrecision fp16;
    fp16.weights = WeightMode::kFp16;
    const auto exact = makeBackend(BackendKind::kCpu, m_model, fp16);
    for (const SensitivityRow& row : report.layers) {
      WeightPrecision precision = m_options.precision;
      precision.keep = MatrixSet::all(3);
      for (const auto& item : row.quantized.items()) precision.keep.remove(item.layer, item.part);
      const auto backend = makeBackend(BackendKind::kCpu, m_model, precision);
      const auto wanted = valueOf(
          evaluate(*backend, exact.get(), m_model->config(), text, {.context = 32, .chunk = 16}));
      QCOMPARE(row.klMean, wanted.klMean);
      QCOMPARE(row.klP99, wanted.klP99);
      QCOMPARE(row.top1Agreement, wanted.top1Agreement);
    }
    const auto all = makeBackend(BackendKind::kCpu, m_model, m_options.precision);
    const auto wanted =
        valueOf(evaluate(*all, exact.get(), m_model->config(), text, {.context = 32, .chunk = 16}));
    QCOMPARE(report.all.klMean, wanted.klMean);
    QCOMPARE(report.all.perplexity, wanted.perplexity);
  }

  void keptLogitsAndASecondBackendAgree() {
    SensitivityOptions sideBySide = m_options;
    sideBySide.referenceBytes = 0;
    const auto kept = measured(m_options);
    const auto again = measured(sideBySide);
    QCOMPARE(again.all.klMean, kept.all.klMean);
    QCOMPARE(again.all.referencePerplexity, kept.all.referencePerplexity);
    for (std::size_t i = 0; i < kept.layers.size(); ++i) {
      QCOMPARE(again.layers[i].name, kept.layers[i].name);
      QCOMPARE(again.layers[i].klMean, kept.layers[i].klMean);
    }
  }

  void theMostSensitiveLayersAreKept() {
    const auto report = measured(m_options);
    QVERIFY(mostSensitiveLayers(report, 0).matrices.empty());
    const KeepChoice two = mostSensitiveLayers(report, 2);
    QCOMPARE(two.matrices.size(), 2 * kLayerParts);
    for (int i = 0; i < 2; ++i) {
      const SensitivityRow& row = report.layers[static_cast<std::size_t>(i)];
      QVERIFY(two.matrices.containsLayer(std::stoi(row.name)));
    }
    QCOMPARE(two.bytes, report.layers[0].bytesSaved + report.layers[1].bytesSaved);
    QVERIFY(two.share > 2.0 / 3 && two.share < 1);
    const KeepChoice all = mostSensitiveLayers(report, 99);
    QCOMPARE(all.matrices.size(), 3 * kLayerParts);
    QVERIFY(std::abs(all.share - 1) < 1e-12);
  }

  // Small and lossy before large and lossy; what does not fit is passed over.
  void matricesAreChosenByLossPerByte() {
    SensitivityReport report;
    const auto row = [](const char* name, double loss, std::uint64_t bytes) {
      SensitivityRow made;
      made.name = name;
      made.quantized = valueOf(MatrixSet::parse(name, 3));
      made.klMean = loss;
      made.bytesSaved = bytes;
      return made;
    };
    QVERIFY(mostLossPerByte(report, 1000).matrices.empty());
    report.matrices = {row("output", 6, 600), row("0.down", 4, 100), row("1.v", 2, 10),
                       row("2.q", 1, 50)};
    QCOMPARE(mostLossPerByte(report, 9).matrices.text(), std::string());
    const KeepChoice some = mostLossPerByte(report, 159);
    QCOMPARE(some.matrices, valueOf(MatrixSet::parse("0.down,1.v", 3)));
    QCOMPARE(some.bytes, std::uint64_t{110});
    QVERIFY(std::abs(some.share - 6.0 / 13) < 1e-12);
    QCOMPARE(mostLossPerByte(report, 60).matrices, valueOf(MatrixSet::parse("1.v,2.q", 3)));

    // From layers and kinds: 2.v loses 3 · 2 / 3 for 10 bytes, 2.down 3 · 1 / 3 for 20.
    report.matrices.clear();
    report.layers = {row("2", 3, 30), row("0", 1.5, 30), row("1", 0.3, 30)};
    report.parts = {row("*.v", 2, 30), row("*.down", 1, 60), row("output", 0.1, 500)};
    const KeepChoice guessed = mostLossPerByte(report, 40);
    QCOMPARE(guessed.matrices, valueOf(MatrixSet::parse("0.v,2.v,2.down", 3)));
    QCOMPARE(guessed.bytes, std::uint64_t{40});
    QVERIFY(std::abs(guessed.share - (2 + 1 + 1) / 4.9) < 1e-12);
  }

  void progressNamesWhatIsMeasuredAndRises() {
    std::vector<std::string> stages;
    double last = 0;
    bool rose = true;
    valueOf(measureSensitivity(maker(), m_model->config(), someTokens(96, 3), m_options,
                               [&](const std::string& stage, double fraction) {
                                 if (stages.empty() || stages.back() != stage)
                                   stages.push_back(stage);
                                 rose = rose && fraction >= last && fraction <= 1.0;
                                 last = fraction;
                               }));
    QVERIFY(rose);
    QVERIFY(last > 0.99);
    QCOMPARE(stages.size(), 2U + 3 + 8);
    QCOMPARE(stages.front(), std::string("Reference"));
    QCOMPARE(stages[1], std::string("All"));
    QCOMPARE(stages[2], std::string("0"));
    QCOMPARE(stages.back(), std::string("output"));
  }

  void itStopsWithinAStep() {
    std::stop_source source;
    int calls = 0;
    const auto result = measureSensitivity(
        maker(), m_model->config(), someTokens(96, 3), m_options,
        [&](const std::string&, double) {
          if (++calls == 20) source.request_stop();
        },
        source.get_token());
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::kCancelled);
    QCOMPARE(calls, 20);
  }

  void nonsenseIsRefused() {
    SensitivityOptions native = m_options;
    native.precision = {};
    const auto result = measureSensitivity(maker(), m_model->config(), someTokens(96, 3), native);
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::kInvalidArgument);
    QVERIFY(!measureSensitivity(maker(), m_model->config(), someTokens(1, 3), m_options));
    const auto broken = measureSensitivity(
        [](const WeightPrecision&) -> Result<std::unique_ptr<Backend>> {
          return fail(ErrorCode::kOutOfMemory, "no memory");
        },
        m_model->config(), someTokens(96, 3), m_options);
    QVERIFY(!broken);
    QCOMPARE(broken.error().code, ErrorCode::kOutOfMemory);
  }

 private:
  BackendMaker maker() const {
    return [this](const WeightPrecision& precision) {
      BackendOptions options;
      options.precision = precision;
      options.threads = 1;
      return vitrine::engine::makeBackend(BackendKind::kCpu, m_model, options);
    };
  }
  SensitivityReport measured(const SensitivityOptions& options) const {
    return valueOf(measureSensitivity(maker(), m_model->config(), someTokens(96, 3), options));
  }

  std::shared_ptr<const Model> m_model;
  SensitivityOptions m_options;
};

QTEST_APPLESS_MAIN(TestSensitivity)
#include "tst_sensitivity.moc"

// Which backend is made, and what is refused with which sentence.
#include <QtTest>

#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::test;

class TestBackendFactory : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { m_model = loadModel(randomModel()); }
  void cleanup() { qunsetenv("VITRINE_BACKEND"); }

  void environmentOverridesAutoAlone() {
    qputenv("VITRINE_BACKEND", "reference");
    QCOMPARE(makeBackend(BackendKind::kAuto, m_model)->info().kind, BackendKind::kReference);
    qputenv("VITRINE_BACKEND", "cuda");
    QCOMPARE(makeBackend(BackendKind::kReference, m_model)->info().kind, BackendKind::kReference);
    QCOMPARE(errorOf(BackendKind::kAuto, {}).code, ErrorCode::kUnsupported);
    qputenv("VITRINE_BACKEND", "gpu");
    const Error error = errorOf(BackendKind::kAuto, {});
    QCOMPARE(error.code, ErrorCode::kInvalidArgument);
    QVERIFY(error.message.find("\"gpu\"") != std::string::npos);
    qputenv("VITRINE_BACKEND", "");
    QVERIFY(makeBackend(BackendKind::kAuto, m_model) != nullptr);
  }

  void cudaIsAClearError() {
    const Error error = errorOf(BackendKind::kCuda, {});
    QCOMPARE(error.code, ErrorCode::kUnsupported);
    QVERIFY(error.message.find("without CUDA") != std::string::npos);
  }

  void precisionsWithoutMeaningAreRefused() {
    WeightPrecision precision;
    precision.activations = ActivationMode::kInt8;
    QCOMPARE(errorOf(BackendKind::kReference, precision).code, ErrorCode::kInvalidArgument);
    precision.weights = WeightMode::kInt8;
    precision.groupSize = 48;
    QCOMPARE(errorOf(BackendKind::kReference, precision).code, ErrorCode::kInvalidArgument);
  }

  void weightsBeyondFp16AreNamed() {
    GgufWriter file = randomModel();
    file.setTensor("blk.1.attn_v.weight", 32, 64, std::vector<float>(32 * 64, 1e6F));
    const auto model = loadModel(file);
    BackendOptions options;
    options.precision.weights = WeightMode::kFp16;
    const auto made = vitrine::engine::makeBackend(BackendKind::kReference, model, options);
    QVERIFY(!made);
    QCOMPARE(made.error().code, ErrorCode::kUnsupported);
    QVERIFY(made.error().message.find("value matrix of layer 1") != std::string::npos);
  }

  void loadingReportsAndStops() {
    std::stop_source source;
    int calls = 0;
    double last = -1.0;
    const auto watch = [&](const std::string&, double fraction) {
      ++calls;
      QVERIFY(fraction >= last && fraction <= 1.0);
      last = fraction;
    };
    QVERIFY(vitrine::engine::makeBackend(BackendKind::kReference, m_model, {}, watch));
    QVERIFY(calls > 1);
    source.request_stop();
    const auto stopped =
        vitrine::engine::makeBackend(BackendKind::kReference, m_model, {}, {}, source.get_token());
    QVERIFY(!stopped);
    QCOMPARE(stopped.error().code, ErrorCode::kCancelled);
  }

 private:
  Error errorOf(BackendKind kind, const WeightPrecision& precision) {
    BackendOptions options;
    options.precision = precision;
    const auto made = vitrine::engine::makeBackend(kind, m_model, options);
    return made ? Error{ErrorCode::kInternal, "no error"} : made.error();
  }

  std::shared_ptr<const Model> m_model;
};

QTEST_APPLESS_MAIN(TestBackendFactory)
#include "tst_backend_factory.moc"

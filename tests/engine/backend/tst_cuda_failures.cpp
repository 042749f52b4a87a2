// Each call of CUDA and cuBLAS in turn fails: while loading, while the cache is made, in prompts,
// in decode steps by graph and without, when blocks are copied, leave the device and come back;
// with FP16 weights, and with everything that INT8 has while an observer looks on. No
// crash, nothing stays allocated, and the turn after it gives the right answer or says that the
// device is lost.
// Before Qt, whose macros take the word `slots`.
#include "tests/engine/backend/cuda_fixture.h"

#include <QtTest>

#include <optional>

#include "tests/engine/backend/precision_modes.h"

using namespace vitrine::engine;
using namespace vitrine::test;

namespace {

constexpr int kBlocks = 8;
constexpr int kHostBlocks = 4;

struct Failure {
  Error error;
  std::string where;
};

/// Counts what it is shown.
class Looker final : public ActivationObserver {
 public:
  void row(int, std::span<const float>, int) override { ++seen; }
  void keys(int, std::span<const float>, int) override { ++seen; }
  int seen = 0;
};

/// Takes the value of a Result, or throws its error.
template <typename T>
T orThrow(Result<T> result, const char* where) {
  if (!result) throw Failure{result.error(), where};
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::vector<float> step(Backend& backend, std::span<const TokenId> tokens, int position,
                        const std::vector<BlockId>& table, const char* where) {
  const BatchSequence one{tokens, position, table, 1};
  const auto logits = orThrow(backend.forward({&one, 1}), where);
  return {logits.values().begin(), logits.values().end()};
}

}  // namespace

class TestCudaFailures : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    TinyModelOptions options;
    options.nLayers = 1;
    options.dModel = 32;
    options.nHeads = 2;
    options.nKvHeads = 1;
    options.dFfn = 64;
    m_model = loadModel(randomModel(options));
    QVERIFY(!probeGpus().devices.empty());
    m_int8.weights = WeightMode::kInt8;
    m_int8.activations = ActivationMode::kInt8;
    m_int8.weightScales = WeightScales::kTensor;
    m_int8.activationScales = ActivationScales::kStatic;
    m_int8.outliers = OutlierMode::kMixed;
    m_int8.outlierThreshold = 1.35F;
    m_int8.keep = valueOf(MatrixSet::parse("0.k", 1));
    {
      const auto plain = makeBackend(BackendKind::kReference, m_model);
      m_int8.calibration = calibrationOf(*plain, *m_model, someTokens(100, 3));
    }
    start();
  }

  void everyCallFailsOnce_data() {
    QTest::addColumn<int>("code");
    QTest::newRow("out of memory") << static_cast<int>(cudaErrorMemoryAllocation);
    QTest::newRow("invalid value") << static_cast<int>(cudaErrorInvalidValue);
  }
  void everyCallFailsOnce() {
    QFETCH(int, code);
    failEach(static_cast<cudaError_t>(code), 1);
  }

  void int8CallsFail_data() { everyCallFailsOnce_data(); }
  void int8CallsFail() {
    QFETCH(int, code);
    m_precision = m_int8;
    m_observes = true;
    start();
    if (QTest::currentTestFailed()) return;
    failEach(static_cast<cudaError_t>(code), 5);
    m_precision = {};
    m_observes = false;
    start();
  }

  void deviceIsLostAtEveryTenthCall() {
    for (std::uint64_t n = 1; n <= m_calls; n += 10) {
      cuda_on_cpu::loseDeviceAt(n);
      std::unique_ptr<Backend> backend;
      std::vector<float> got;
      std::optional<Failure> failure;
      try {
        life(backend, got);
      } catch (const Failure& f) {
        failure = f;
      }
      const QString about =
          QString("call %1 (%2)").arg(n).arg(QString::fromStdString(cuda_on_cpu::failedFunction()));
      if (backend) {
        // The loss may fall into a call that has no result (setActive): then the next one tells.
        try {
          turns(*backend, got);
        } catch (const Failure& f) {
          failure = f;
        }
        QVERIFY2(failure.has_value(), qPrintable(about));
        QVERIFY2(failure->error.code == ErrorCode::kDeviceLost,
                 qPrintable(about + ": " + QString::fromStdString(failure->error.message)));
        std::vector<std::byte> bytes(backend->memory().kvBytesPerBlock);
        if (!bytes.empty()) {
          const auto read = backend->readBlock(0, bytes);
          QVERIFY2(!read && read.error().code == ErrorCode::kDeviceLost, qPrintable(about));
        }
        QCOMPARE(backend->memoryForCache(), std::uint64_t{0});
        backend->setActive(false);
      }
      QVERIFY2(failure.has_value(), qPrintable(about));
      QVERIFY2(!failure->error.message.empty(), qPrintable(about));
      backend.reset();
      const auto settings = cuda_on_cpu::settings();
      cuda_on_cpu::reset();
      cuda_on_cpu::settings() = settings;
    }
  }

 private:
  /// What a life gives without faults, and its calls.
  void start() {
    std::unique_ptr<Backend> backend;
    life(backend, m_wanted);
    backend.reset();
    QVERIFY2(cuda_on_cpu::counts().holdsNothing(), cuda_on_cpu::describeHeld().c_str());
    const std::uint64_t before = cuda_on_cpu::counts().calls;
    std::vector<float> again;
    life(backend, again);
    m_calls = cuda_on_cpu::counts().calls - before;
    backend.reset();
    QVERIFY(again == m_wanted);
    qInfo("%llu calls", static_cast<unsigned long long>(m_calls));
    QVERIFY(m_calls > 100);
  }

  /// Each `step`-th call of a life fails, in a life of its own.
  void failEach(cudaError_t code, std::uint64_t step) {
    int failures = 0, served = 0, lives = 0;
    for (std::uint64_t n = 1; n <= m_calls; n += step, ++lives) {
      cuda_on_cpu::failCall(n, code);
      std::unique_ptr<Backend> backend;
      std::vector<float> got;
      std::optional<Failure> failure;
      try {
        life(backend, got);
      } catch (const Failure& f) {
        failure = f;
      }
      const std::string call = cuda_on_cpu::failedFunction();
      cuda_on_cpu::clearFaults();
      const QString about = QString("call %1 (%2)").arg(n).arg(QString::fromStdString(call));
      QVERIFY2(!call.empty(), qPrintable(about));
      if (failure) {
        ++failures;
        QVERIFY2(!failure->error.message.empty(), qPrintable(about));
        QVERIFY2(failure->error.code != ErrorCode::kDeviceLost, qPrintable(about));
      } else {
        QVERIFY2(got == m_wanted, qPrintable(about));
      }
      if (backend) {
        ++served;
        std::vector<float> next;
        try {
          turns(*backend, next);
        } catch (const Failure& f) {
          QFAIL(qPrintable(
              QString("%1, then %2: %3").arg(about, f.where.c_str(), f.error.message.c_str())));
        }
        QVERIFY2(next == m_wanted, qPrintable(about));
      }
      backend.reset();
      QVERIFY2(cuda_on_cpu::counts().holdsNothing(),
               qPrintable(about + ": " + QString::fromStdString(cuda_on_cpu::describeHeld())));
    }
    qInfo("%d of %d lives had an error; %d backends went on", failures, lives, served);
    QVERIFY(failures > lives / 2);
    QVERIFY(served > 0);
  }

  /// From loading to the last answer. `backend` is set as soon as there is one.
  void life(std::unique_ptr<Backend>& backend, std::vector<float>& logits) {
    BackendOptions options;
    options.precision = m_precision;
    backend = orThrow(cudaSupport()->make(m_model, options, {}, {}), "loading");
    turns(*backend, logits);
  }

  /// Two conversations in turns; they do not fit on the device together.
  void turns(Backend& backend, std::vector<float>& logits) {
    logits.clear();
    const auto keep = [&](const std::vector<float>& row) {
      logits.insert(logits.end(), row.begin(), row.end());
    };
    orThrow(backend.configureCache({KvType::kFp16, 16, kBlocks, 1, kHostBlocks}), "the cache");
    backend.setActive(true);
    const auto a = someTokens(42, 1), b = someTokens(40, 2);
    const std::vector<BlockId> tableA{0, 1, 2}, tableB{5, 4, 3};
    keep(step(backend, std::span(a).first(34), 0, tableA, "a prompt"));
    for (int i = 34; i < 37; ++i) {
      keep(step(backend, std::span(a).subspan(i, 1), i, tableA, "decoding"));
    }
    keep(step(backend, std::span(b).first(36), 0, tableB, "a second prompt"));
    orThrow(backend.copyBlock(2, 7, 5), "copying a block");
    backend.setActive(false);
    keep(step(backend, std::span(a).subspan(37, 1), 37, tableA, "coming back"));
    const std::vector<BlockId> branch{0, 1, 7};
    keep(step(backend, std::span(a).subspan(37, 1), 37, branch, "a branch"));
    std::vector<std::byte> bytes(backend.memory().kvBytesPerBlock);
    orThrow(backend.readBlock(0, bytes), "reading a block");
    orThrow(backend.writeBlock(6, bytes), "writing a block");
    const std::vector<BlockId> moved{6, 1, 2};
    keep(step(backend, std::span(a).subspan(38, 1), 38, moved, "a block that was moved"));
    if (!m_observes) return;
    Looker looker;
    backend.observe(&looker);
    try {
      keep(step(backend, std::span(a).subspan(39, 1), 39, moved, "a step that is observed"));
    } catch (...) {
      backend.observe(nullptr);
      throw;
    }
    backend.observe(nullptr);
    if (looker.seen == 0) throw std::runtime_error("nothing was observed");
    static_cast<void>(backend.activationUse());  // nothing where a call fails
  }

  std::shared_ptr<const Model> m_model;
  WeightPrecision m_int8;       // all that INT8 has
  WeightPrecision m_precision;  // of a life
  bool m_observes = false;
  std::vector<float> m_wanted;
  std::uint64_t m_calls = 0;
};

QTEST_APPLESS_MAIN(TestCudaFailures)
#include "tst_cuda_failures.moc"

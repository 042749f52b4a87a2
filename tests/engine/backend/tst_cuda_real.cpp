// The real model, whole, on the CUDA backend: its answers are the CPU's.

// Before Qt, whose macros take the word `slots`.
#include "tests/engine/backend/cuda_fixture.h"

#include <QtTest>

#include "engine/tokenizer/tokenizer.h"
#include "tests/test_model.h"

using namespace vitrine::engine;
using namespace vitrine::test;

class TestCudaReal : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY2(haveTestModel(), missingModelMessage().c_str());
    m_model = valueOf(Model::load(testModelPath()));
  }

  void answersAreThoseOfTheCpu_data() {
    QTest::addColumn<int>("weights");
    QTest::addColumn<bool>("int8");  // activations and KV
    QTest::addColumn<int>("steps");
    QTest::newRow("FP16") << static_cast<int>(WeightMode::kFp16) << false << 16;
    QTest::newRow("W8A8, KV8") << static_cast<int>(WeightMode::kInt8) << true << 4;
  }
  void answersAreThoseOfTheCpu() {
    QFETCH(int, weights);
    QFETCH(bool, int8);
    QFETCH(int, steps);
    WeightPrecision precision;
    precision.weights = static_cast<WeightMode>(weights);
    precision.activations = int8 ? ActivationMode::kInt8 : ActivationMode::kFp16;
    const KvType kv = int8 ? KvType::kInt8 : KvType::kFp16;
    const auto cpu = makeBackend(BackendKind::kCpu, m_model, precision);
    const auto cuda = makeBackend(BackendKind::kCuda, m_model, precision);
    for (Backend* backend : {cpu.get(), cuda.get()}) configureCache(*backend, *m_model, kv, 4);

    std::vector<TokenId> tokens = m_model->tokenizer().encode(
        "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n");
    const auto vocab = m_model->config().vocabSize;
    double largest = 0.0;
    int position = 0;
    for (int step = 0; step <= steps; ++step) {
      const auto fresh = std::span(tokens).subspan(static_cast<std::size_t>(position));
      const auto wanted = forward(*cpu, fresh, position, blocks(4));
      const auto got = forward(*cuda, fresh, position, blocks(4));
      largest = std::max(largest, divergence(wanted, got, vocab).largest);
      QCOMPARE(bestToken(got), bestToken(wanted));
      position = static_cast<int>(tokens.size());
      tokens.push_back(bestToken(wanted));
    }
    qInfo("largest KL %.3g", largest);
    // Sums in another order round some of 30 layers' INT8 activations the other way, each by a
    // whole step. Two instruction sets of the CPU are as far from each other.
    QVERIFY2(largest <= (int8 ? 1e-1 : 1e-3), qPrintable(QString::number(largest)));
    QVERIFY(cudaOf(*cuda).graphs().replays() > 0);
    QCOMPARE(QString::fromStdString(cuda_on_cpu::report()), QString());
  }

 private:
  std::shared_ptr<const Model> m_model;
};

QTEST_APPLESS_MAIN(TestCudaReal)
#include "tst_cuda_real.moc"

// Logits of SmolLM2-135M-Instruct against an independent implementation (transformers, FP32, on the
// same dequantized weights), over the whole vocabulary at every position of five texts.
#include <QtTest>

#include <cmath>
#include <numeric>

#include "engine/backend/backend.h"
#include "engine/measure/distribution.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/reference/reference.h"
#include "tests/golden/golden_file.h"
#include "tests/test_model.h"

using namespace vitrine;
using namespace vitrine::engine;
using namespace vitrine::test;

class TestGoldenLogits : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY2(haveTestModel(), missingModelMessage().c_str());
    auto model = Model::load(testModelPath());
    QVERIFY2(model, model ? "" : model.error().message.c_str());
    m_model = *model;
    int dim = 0;
    m_texts = readGoldenTexts(VITRINE_GOLDEN_DATA, dim);
    QCOMPARE(m_texts.size(), std::size_t{5});
    QCOMPARE(dim, m_model->config().dModel);
    for (const GoldenText& text : m_texts) m_golden.push_back(goldenLogits(text));
  }

  void tokenIdsAreTheOriginals_data() { rows(); }
  void tokenIdsAreTheOriginals() {
    QFETCH(int, index);
    const GoldenText& text = m_texts[index];
    const Tokenizer& tokenizer = m_model->tokenizer();
    QCOMPARE(text.controlTokens ? tokenizer.encodeWithControlTokens(text.text)
                                : tokenizer.encode(text.text),
             text.ids);
  }

  // The stored values times the file's output matrix are the logits that were there.
  void storedFileIsConsistent_data() { rows(); }
  void storedFileIsConsistent() {
    QFETCH(int, index);
    const GoldenText& text = m_texts[index];
    for (std::size_t p = 0; p < text.ids.size(); ++p) {
      const auto logits = goldenRow(index, p);
      const double norm = logSumExp(logits);
      QVERIFY2(std::fabs(norm - text.logNorm[p]) < 1e-4, qPrintable(QString::number(norm)));
      for (std::size_t i = 0; i < text.bestIds[p].size(); ++i) {
        const double logprob = logits[text.bestIds[p][i]] - norm;
        QVERIFY(std::fabs(logprob - text.bestLogprobs[p][i]) < 1e-4);
      }
      QCOMPARE(bestToken(logits), text.bestIds[p].front());
    }
  }

  void referenceAgrees_data() { rows(); }
  void referenceAgrees() { compare(BackendKind::kReference, WeightMode::kNative, 1e-5, true); }

  void cpuAgreesOnTheFilesValues_data() { rows(); }
  void cpuAgreesOnTheFilesValues() { compare(BackendKind::kCpu, WeightMode::kNative, 1e-4, true); }

  void cpuAgreesWithFp16Weights_data() { rows(); }
  void cpuAgreesWithFp16Weights() { compare(BackendKind::kCpu, WeightMode::kFp16, 1e-3, true); }

 private:
  void rows() {
    QTest::addColumn<int>("index");
    for (std::size_t i = 0; i < m_texts.size(); ++i) {
      QTest::newRow(m_texts[i].name.c_str()) << static_cast<int>(i);
    }
  }

  std::vector<float> goldenLogits(const GoldenText& text) {
    const TensorView& output = m_model->weights().output;
    std::vector<float> logits(text.ids.size() * static_cast<std::size_t>(output.rows));
    kernels::reference::linearFile(text.hidden.data(), output.type, output.data, output.rowBytes(),
                                   nullptr, logits.data(), static_cast<int>(text.ids.size()),
                                   static_cast<int>(output.rows), static_cast<int>(output.cols));
    return logits;
  }

  std::span<const float> goldenRow(int index, std::size_t position) {
    const auto vocab = static_cast<std::size_t>(m_model->config().vocabSize);
    return std::span(m_golden[static_cast<std::size_t>(index)]).subspan(position * vocab, vocab);
  }

  /// KL at every position is at most `limit` on average over the text and ten times it anywhere.
  void compare(BackendKind kind, WeightMode weights, double limit, bool sameBest) {
    QFETCH(int, index);
    const GoldenText& text = m_texts[index];
    BackendOptions options;
    options.precision.weights = weights;
    options.threads = 1;  // the same bits as with more, and no waiting on a busy machine
    if (!m_backend || m_backend->info().kind != kind || m_backend->precision().weights != weights) {
      m_backend.reset();
      auto made = makeBackend(kind, m_model, options);
      QVERIFY2(made, made ? "" : made.error().message.c_str());
      m_backend = std::move(*made);
    }
    const int length = static_cast<int>(text.ids.size());
    const int nBlocks = (length + 15) / 16;
    QVERIFY(m_backend->configureCache({KvType::kFp16, 16, nBlocks, m_model->config().nKvHeads}));
    std::vector<BlockId> table(static_cast<std::size_t>(nBlocks));
    std::iota(table.rbegin(), table.rend(), 0);
    const BatchSequence sequence{text.ids, 0, table, length};
    const auto logits = m_backend->forward({&sequence, 1});
    QVERIFY2(logits, logits ? "" : logits.error().message.c_str());
    double sum = 0.0;
    double worst = 0.0;
    int agreeing = 0;
    for (int p = 0; p < length; ++p) {
      const auto row = compareRows(goldenRow(index, static_cast<std::size_t>(p)), logits->row(p));
      QVERIFY2(row.sameBest || !sameBest,
               qPrintable(QString("position %1: another best token").arg(p)));
      agreeing += row.sameBest ? 1 : 0;
      sum += row.divergence;
      worst = std::max(worst, row.divergence);
    }
    qInfo("%s: KL mean %.2e, worst %.2e; best token agrees at %d of %d positions",
          m_backend->info().name.c_str(), sum / length, worst, agreeing, length);
    QVERIFY2(sum / length <= limit && worst <= 10 * limit, qPrintable(QString::number(worst)));
  }

  std::shared_ptr<const Model> m_model;
  std::vector<GoldenText> m_texts;
  std::vector<std::vector<float>> m_golden;  // [text][positions, vocabSize]
  std::unique_ptr<Backend> m_backend;
};

QTEST_APPLESS_MAIN(TestGoldenLogits)
#include "tst_golden_logits.moc"

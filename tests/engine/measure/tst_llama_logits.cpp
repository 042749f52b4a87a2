// Files of llama-perplexity --kl-divergence-base, written here as llama.cpp writes them.
#include <QFile>
#include <QTemporaryDir>
#include <QtTest>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/measure/distribution.h"
#include "engine/measure/llama_logits.h"

using namespace vitrine::engine;

namespace {

constexpr int kContext = 8, kVocab = 5, kWindows = 2, kRows = 3;  // rows: 8 - 1 - 8 / 2

template <typename T>
void append(QByteArray& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Logits of a row, the same each time; token 4 lies far below the others.
std::vector<float> logitsOf(int window, int row) {
  std::vector<float> logits(kVocab);
  for (int id = 0; id < kVocab; ++id) {
    logits[static_cast<std::size_t>(id)] =
        static_cast<float>(std::sin(7.0 * window + 3.0 * row + id)) * 4.0F;
  }
  logits[4] = -30.0F;
  return logits;
}

/// As process_logits() of llama.cpp: 16-bit steps over the 16 nats below the best.
void appendRow(QByteArray& bytes, const std::vector<float>& logits) {
  const float best = *std::max_element(logits.begin(), logits.end());
  const float least = std::max(*std::min_element(logits.begin(), logits.end()), best - 16.0F);
  const float scale = (best - least) / 65535.0F;
  append(bytes, scale);
  append(bytes, static_cast<float>(least - logSumExp(logits)));
  for (const float logit : logits) {
    const float step = logit > least ? std::nearbyint((logit - least) / scale) : 0.0F;
    append(bytes, static_cast<std::uint16_t>(step));
  }
  if (kVocab % 2 == 1) append(bytes, std::uint16_t{0});
}

QByteArray header(int context, int vocab, int windows) {
  QByteArray bytes("_logits_");
  for (const std::int32_t value : {context, vocab, windows}) append(bytes, value);
  return bytes;
}

QByteArray wholeFile() {
  QByteArray bytes = header(kContext, kVocab, kWindows);
  for (std::int32_t i = 0; i < kContext * kWindows; ++i) append(bytes, i % kVocab);
  for (int window = 0; window < kWindows; ++window) {
    for (int row = 0; row < kRows; ++row) appendRow(bytes, logitsOf(window, row));
  }
  return bytes;
}

}  // namespace

class TestLlamaLogits : public QObject {
  Q_OBJECT

 private slots:
  void rowsAreTheDistributions() {
    auto opened = LlamaLogits::open(write(wholeFile()));
    QVERIFY2(opened, opened ? "" : opened.error().message.c_str());
    QCOMPARE(opened->context(), kContext);
    QCOMPARE(opened->vocabSize(), kVocab);
    QCOMPARE(opened->windows(), kWindows);
    QCOMPARE(opened->rowsPerWindow(), kRows);
    QCOMPARE(opened->tokens().size(), std::size_t{16});
    QCOMPARE(opened->tokens()[9], 4);
    for (int window = 0; window < kWindows; ++window) {
      for (int row = 0; row < kRows; ++row) {
        const auto logits = logitsOf(window, row);
        const auto found = opened->row(window, row, 0);
        for (std::size_t id = 0; id < 4; ++id) {
          QVERIFY(std::abs(found[id] - (logits[id] - logSumExp(logits))) < 2e-4);
        }
        QVERIFY2(found[4] < -25.0F, "what llama.cpp did not tell apart counts as impossible");
        QVERIFY(compareRows(found, logits).divergence < 1e-7);
      }
    }
  }

  void theNextTokenIsNeverImpossible() {
    auto opened = LlamaLogits::open(write(wholeFile()));
    QVERIFY(opened);
    const auto logits = logitsOf(1, 2);
    const float best = *std::max_element(logits.begin(), logits.end());
    QVERIFY(std::abs(opened->row(1, 2, 4)[4] - (best - 16.0F - logSumExp(logits))) < 1e-4);
  }

  void equalLogitsAreUniform() {
    QByteArray bytes = header(3, 2, 1);
    for (const std::int32_t token : {0, 1, 0}) append(bytes, token);
    append(bytes, 0.0F);
    append(bytes, std::log(0.5F));
    append(bytes, std::uint32_t{0});
    auto opened = LlamaLogits::open(write(bytes));
    QVERIFY(opened);
    for (const float value : opened->row(0, 0, 1)) {
      QVERIFY(std::abs(value - std::log(0.5F)) < 1e-6);
    }
  }

  void everyTruncationIsNoticed() {
    const QByteArray whole = wholeFile();
    for (qsizetype size = 0; size < whole.size(); ++size) {
      const auto opened = LlamaLogits::open(write(whole.left(size)));
      QVERIFY2(!opened, qPrintable(QString::number(size)));
    }
  }

  void forgedHeadersAreRefused_data() {
    QTest::addColumn<QByteArray>("bytes");
    const QByteArray rest(200, '\0');
    const int huge = std::numeric_limits<std::int32_t>::max();
    QTest::newRow("another format") << QByteArray("GGUF") + rest;
    QTest::newRow("no context") << header(0, kVocab, 1) + rest;
    QTest::newRow("a context without rows") << header(2, kVocab, 1) + rest;
    QTest::newRow("no vocabulary") << header(kContext, 0, 1) + rest;
    QTest::newRow("negative windows") << header(kContext, kVocab, -1) + rest;
    QTest::newRow("more than fits in 64 bits") << header(huge, huge, huge) + rest;
    QTest::newRow("many windows") << header(kContext, kVocab, huge) + rest;
    QByteArray token = header(3, 2, 1);
    for (const std::int32_t id : {0, 2, 0}) append(token, id);
    QTest::newRow("token outside the vocabulary") << token + rest;
  }
  void forgedHeadersAreRefused() {
    QFETCH(QByteArray, bytes);
    const auto opened = LlamaLogits::open(write(bytes));
    QVERIFY(!opened);
    QVERIFY(opened.error().code == ErrorCode::kInvalidFile);
    QVERIFY(opened.error().message.find("base.kld") != std::string::npos);
  }

 private:
  QTemporaryDir m_folder;
  std::string write(const QByteArray& bytes) {
    QFile file(m_folder.filePath("base.kld"));
    if (!file.open(QIODevice::WriteOnly)) qFatal("cannot write the test's file");
    file.write(bytes);
    return file.fileName().toStdString();
  }
};

QTEST_GUILESS_MAIN(TestLlamaLogits)
#include "tst_llama_logits.moc"

// Models whose weights are zero, subnormal or of very different sizes answer the same in every
// precision: nothing divides by a zero scale, overflows half precision or turns into NaN.
#include <QtTest>

#include <cmath>

#include "engine/measure/distribution.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::test;
using vitrine::kernels::TensorType;

namespace {

std::vector<float> filled(std::size_t n, float value) {
  return std::vector<float>(n, value);
}

/// Row r of an [rows, cols] matrix grows from 1 to 3000 times a small pattern.
std::vector<float> steepRows(int rows, int cols) {
  std::vector<float> values;
  for (int r = 0; r < rows; ++r) {
    const float size = 1.0F + 2999.0F * static_cast<float>(r) / static_cast<float>(rows - 1);
    for (int c = 0; c < cols; ++c) {
      values.push_back(0.05F * size * static_cast<float>((r * 7 + c * 13) % 11 - 5) / 5.0F);
    }
  }
  return values;
}

}  // namespace

class TestInt8Models : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    ParrotOptions options;
    options.pieces = {"zeros", " do", " not", " divide"};
    const int d = options.dModel;
    const int kv = d / options.nHeads * options.nKvHeads;
    const auto square = static_cast<std::size_t>(d) * d;

    options.weightType = TensorType::kQ8_0;
    add("Q8_0 with zero blocks", parrotModel(options));
    options.weightType = TensorType::kF32;
    GgufWriter plain = parrotModel(options);
    add("F32", plain);

    GgufWriter tiny = plain;
    for (int layer = 0; layer < options.nLayers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      tiny.setTensor(block + "attn_output.weight", d, d, filled(square, 1e-41F));
      tiny.setTensor(block + "ffn_down.weight", d, options.dFfn,
                     filled(static_cast<std::size_t>(d) * options.dFfn, 1.4e-45F));
    }
    add("subnormal weights", tiny);

    // Values of a head grow 3000 times over its rows; nothing of it reaches the answer through an
    // output matrix of zeros unless it becomes infinite or NaN on the way.
    GgufWriter steep = plain;
    for (int layer = 0; layer < options.nLayers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      steep.setTensor(block + "attn_v.weight", kv, d, steepRows(kv, d));
    }
    add("rows of very different size", steep);

    GgufWriter huge = plain;
    for (int layer = 0; layer < options.nLayers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      auto values = steepRows(kv, d);
      for (float& v : values) v *= 1e3F;  // K and V far beyond 65504
      huge.setTensor(block + "attn_v.weight", kv, d, values);
      huge.setTensor(block + "attn_k.weight", kv, d, values);
    }
    add("K and V beyond half precision", huge);
    m_firstBeyondHalf = static_cast<int>(m_models.size()) - 1;
  }

  void answersAreTheSame_data() {
    QTest::addColumn<int>("kind");
    QTest::addColumn<int>("model");
    QTest::addColumn<int>("weights");
    QTest::addColumn<bool>("int8Activations");
    QTest::addColumn<bool>("int8Kv");
    for (BackendKind kind : backendKinds()) {
      for (std::size_t m = 0; m < m_models.size(); ++m) {
        const auto row = [&](const char* name, WeightMode weights, bool activations, bool kv) {
          const QString title = QString("%1, %2, %3").arg(nameOf(kind), m_names[m], name);
          QTest::newRow(qPrintable(title)) << static_cast<int>(kind) << static_cast<int>(m)
                                           << static_cast<int>(weights) << activations << kv;
        };
        // On a GPU the native form of FP32 weights is FP16, and these are beyond it.
        const bool fits = static_cast<int>(m) < m_firstBeyondHalf;
        if (fits || kind != BackendKind::kCuda) {
          row("native", WeightMode::kNative, false, false);
          row("native, int8 KV", WeightMode::kNative, false, true);
        }
        row("bf16", WeightMode::kBf16, false, false);
        row("int8", WeightMode::kInt8, false, false);
        row("int8 with int8 activations and KV", WeightMode::kInt8, true, true);
        if (fits) row("fp16", WeightMode::kFp16, false, false);
      }
    }
  }
  void answersAreTheSame() {
    QFETCH(int, kind);
    QFETCH(int, model);
    QFETCH(int, weights);
    QFETCH(bool, int8Activations);
    QFETCH(bool, int8Kv);
    const auto& loaded = m_models[static_cast<std::size_t>(model)];
    WeightPrecision precision;
    precision.weights = static_cast<WeightMode>(weights);
    precision.activations = int8Activations ? ActivationMode::kInt8 : ActivationMode::kFp16;
    const auto backend = makeBackend(static_cast<BackendKind>(kind), loaded, precision);
    configureCache(*backend, *loaded, int8Kv ? KvType::kInt8 : KvType::kFp16, 4);

    const Tokenizer& tokenizer = loaded->tokenizer();
    std::vector<TokenId> tokens = tokenizer.encode("what do zeros do\n");
    std::string answer;
    int position = 0;
    for (int step = 0; step < 10; ++step) {
      const auto logits =
          forward(*backend, std::span(tokens).subspan(position), position, blocks(4));
      for (float logit : logits) QVERIFY(std::isfinite(logit));
      position = static_cast<int>(tokens.size());
      tokens.push_back(bestToken(logits));
      if (tokenizer.isControl(tokens.back())) break;
      answer += tokenizer.bytes(tokens.back());
    }
    QCOMPARE(answer, std::string("zeros do not divide"));
  }

 private:
  void add(const char* name, const GgufWriter& file) {
    m_names.emplace_back(name);
    m_models.push_back(loadModel(file));
  }

  std::vector<QString> m_names;
  std::vector<std::shared_ptr<const Model>> m_models;
  int m_firstBeyondHalf = 0;
};

QTEST_APPLESS_MAIN(TestInt8Models)
#include "tst_int8_models.moc"

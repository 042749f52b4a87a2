// A model with other KV heads than its own: repeated heads change no bit of the answer, averaged
// ones give what a model file with averaged weights gives.
#include <QtTest>

#include <cmath>
#include <cstring>

#include "engine/backend/kv_regroup.h"
#include "kernels/reference/dequantize.h"
#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::test;
using vitrine::kernels::TensorType;

namespace {

TinyModelOptions eightHeads(TensorType type) {
  TinyModelOptions options;
  options.dModel = 256;  // heads of 32
  options.nHeads = 8;
  options.nKvHeads = 4;
  options.attentionBias = true;
  options.headNorm = true;
  options.weightType = type;
  return options;
}

std::vector<float> widened(const TensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.rows * view.cols));
  for (std::int64_t r = 0; r < view.rows; ++r) {
    vitrine::kernels::reference::dequantize(view.type, view.data + view.rowBytes() * r,
                                            values.data() + r * view.cols, view.cols);
  }
  return values;
}

/// Means of neighbouring heads, written from the definition: for each output of the small model,
/// the outputs of the large one that it stands for.
std::vector<float> means(const std::vector<float>& from, int headDim, int cols, int fromHeads,
                         int toHeads) {
  const int pooled = fromHeads / toHeads;
  std::vector<float> to(static_cast<std::size_t>(toHeads * headDim * cols));
  for (int row = 0; row < toHeads * headDim; ++row) {
    const int head = row / headDim, d = row % headDim;
    for (int c = 0; c < cols; ++c) {
      double sum = 0.0;
      for (int p = 0; p < pooled; ++p) {
        const int source = (head * pooled + p) * headDim + d;
        sum += static_cast<double>(from[static_cast<std::size_t>(source * cols + c)]);
      }
      to[static_cast<std::size_t>(row * cols + c)] = static_cast<float>(sum / pooled);
    }
  }
  return to;
}

/// The model file that pooling by hand makes of another, its averages in `type`.
GgufWriter pooledFile(const Model& model, GgufWriter file, int kvHeads, TensorType type) {
  const ModelConfig& c = model.config();
  file.setU32("llama.attention.head_count_kv", static_cast<std::uint32_t>(kvHeads));
  for (int i = 0; i < c.nLayers; ++i) {
    const LayerWeights& layer = model.weights().layers[static_cast<std::size_t>(i)];
    const std::string name = "blk." + std::to_string(i) + ".attn_";
    const auto set = [&](const std::string& what, const TensorView& view) {
      const int cols = view.rows == 1 ? 1 : static_cast<int>(view.cols);
      const auto values = means(widened(view), c.headDim, cols, c.nKvHeads, kvHeads);
      const int outputs = kvHeads * c.headDim;
      if (view.rows == 1) {
        file.setTensor(name + what, 0, outputs, values);
      } else {
        file.setTensor(name + what, outputs, cols, values, type);
      }
    };
    set("k.weight", layer.wk);
    set("v.weight", layer.wv);
    set("k.bias", layer.bk);
    set("v.bias", layer.bv);
  }
  return file;
}

std::unique_ptr<Backend> backendWith(BackendKind kind, const std::shared_ptr<const Model>& model,
                                     int kvHeads, KvType type = KvType::kFp16,
                                     const WeightPrecision& precision = {}) {
  BackendOptions options;
  options.precision = precision;
  options.threads = 2;
  options.kvHeads = kvHeads;
  auto backend = valueOf(vitrine::engine::makeBackend(kind, model, options));
  valueOf(backend->configureCache({type, 16, 6, backend->config().nKvHeads}));
  return backend;
}

}  // namespace

class TestKvRegroup : public QObject {
  Q_OBJECT

 private slots:
  void possibleNumbersAreMultiplesAndDivisors() {
    QCOMPARE(possibleKvHeads(9, 3), (std::vector<int>{1, 3, 9}));
    QCOMPARE(possibleKvHeads(32, 8), (std::vector<int>{1, 2, 4, 8, 16, 32}));
    QCOMPARE(possibleKvHeads(14, 2), (std::vector<int>{1, 2, 14}));
    QCOMPARE(possibleKvHeads(12, 12), (std::vector<int>{1, 2, 3, 4, 6, 12}));
    QVERIFY(kvGrouping(3, 0) == KvGrouping::kOwn && kvGrouping(3, 3) == KvGrouping::kOwn);
    QVERIFY(kvGrouping(3, 9) == KvGrouping::kRepeated);
    QVERIFY(kvGrouping(3, 1) == KvGrouping::kPooled);
  }

  void impossibleNumbersAreNamed_data() {
    QTest::addColumn<int>("kvHeads");
    for (int n : {-3, 2, 4, 6, 18, 1 << 30}) QTest::newRow(qPrintable(QString::number(n))) << n;
  }
  void impossibleNumbersAreNamed() {
    QFETCH(int, kvHeads);
    ModelConfig model;
    model.nHeads = 9;
    model.nKvHeads = 3;
    const auto refused = regroupedConfig(model, kvHeads);
    QVERIFY(!refused);
    QCOMPARE(refused.error().code, ErrorCode::kInvalidArgument);
    QCOMPARE(refused.error().message,
             std::to_string(kvHeads) +
                 " KV heads are not possible for this model of 9 query heads and 3 KV heads; it "
                 "may be 1, 3, 9");
    QCOMPARE(regroupedConfig(model, 0)->nKvHeads, 3);
    QCOMPARE(regroupedConfig(model, 9)->nKvHeads, 9);
    QCOMPARE(regroupedConfig(model, 1)->nKvHeads, 1);
  }

  void repeatedRowsAreTheFilesBytes_data() { types(); }
  void repeatedRowsAreTheFilesBytes() {
    const auto model = loadModel(randomModel(eightHeads(type())));
    const TensorView& own = model->weights().layers[1].wk;
    const auto tensor = RegroupedTensor::make(own, 4, 8);
    const TensorView& view = tensor.view();
    QCOMPARE(view.type, own.type);
    QCOMPARE(view.rows, std::int64_t{256});
    for (int head = 0; head < 8; ++head) {
      QVERIFY(std::memcmp(view.data + view.rowBytes() * 32 * head,
                          own.data + own.rowBytes() * 32 * (head / 2), own.rowBytes() * 32) == 0);
    }
    // Nothing is copied where nothing changes, and what is not there stays away.
    QCOMPARE(RegroupedTensor::make(own, 4, 4).view().data, own.data);
    QVERIFY(!RegroupedTensor::make(TensorView{}, 4, 8).view());
  }

  void repeatedHeadsGiveTheSameBits_data() { backends(); }
  void repeatedHeadsGiveTheSameBits() {
    const auto model = loadModel(randomModel(eightHeads(type())));
    const auto tokens = someTokens(70, 3);
    for (KvType kv : {KvType::kFp16, KvType::kInt8}) {
      const auto own = backendWith(kind(), model, 0, kv);
      const auto repeated = backendWith(kind(), model, 8, kv);
      QCOMPARE(own->config().nKvHeads, 4);
      QCOMPARE(repeated->config().nKvHeads, 8);
      QCOMPARE(repeated->memory().kvBytesPerBlock, 2 * own->memory().kvBytesPerBlock);
      const auto wanted = forward(*own, tokens, 0, blocks(5), 70);
      QVERIFY(forward(*repeated, tokens, 0, blocks(5), 70) == wanted);
    }
  }

  void pooledHeadsAreThoseOfAPooledFile_data() { backends(); }
  void pooledHeadsAreThoseOfAPooledFile() {
    const GgufWriter file = randomModel(eightHeads(type()));
    const auto model = loadModel(file);
    const auto tokens = someTokens(70, 4);
    const auto wanted = forward(*backendWith(kind(), model, 0), tokens, 0, blocks(5), 70);
    // Averages of blocks are held in FP16, plain types stay what they are.
    const bool plain = vitrine::kernels::tensorTypeInfo(type()).blockValues == 1;
    const TensorType held = plain ? type() : TensorType::kF16;
    for (int heads : {2, 1}) {
      const auto byHand = loadModel(pooledFile(*model, file, heads, held));
      QCOMPARE(byHand->config().nKvHeads, heads);
      const auto expected = forward(*backendWith(kind(), byHand, 0), tokens, 0, blocks(5), 70);
      const auto pooled = backendWith(kind(), model, heads);
      QCOMPARE(pooled->config().nKvHeads, heads);
      const auto got = forward(*pooled, tokens, 0, blocks(5), 70);
      QVERIFY(got == expected);
      QVERIFY(got != wanted);  // lossy
    }
  }

  void everyPrecisionCanBePooled_data() { backends(); }
  void everyPrecisionCanBePooled() {
    const auto model = loadModel(randomModel(eightHeads(type())));
    const auto tokens = someTokens(40, 5);
    const auto exact =
        forward(*backendWith(BackendKind::kReference, model, 1), tokens, 0, blocks(3), 40);
    for (WeightMode mode : {WeightMode::kFp16, WeightMode::kBf16, WeightMode::kInt8}) {
      WeightPrecision precision;
      precision.weights = mode;
      if (mode == WeightMode::kInt8) precision.activations = ActivationMode::kInt8;
      const auto backend = backendWith(kind(), model, 1, KvType::kInt8, precision);
      const auto got = forward(*backend, tokens, 0, blocks(3), 40);
      const double error = difference(exact, got);
      QVERIFY2(error < 0.1, qPrintable(QString::number(error)));
    }
  }

  void backendsRefuseImpossibleNumbers() {
    const auto model = loadModel(randomModel(eightHeads(TensorType::kF32)));
    for (BackendKind kind : backendKinds()) {
      BackendOptions options;
      options.kvHeads = 3;
      const auto refused = vitrine::engine::makeBackend(kind, model, options);
      QVERIFY(!refused);
      QCOMPARE(refused.error().code, ErrorCode::kInvalidArgument);
      QVERIFY(refused.error().message.find("it may be 1, 2, 4, 8") != std::string::npos);
    }
  }

 private:
  static constexpr std::pair<const char*, TensorType> kTypes[] = {
      {"F32", TensorType::kF32},   {"F16", TensorType::kF16},   {"BF16", TensorType::kBF16},
      {"Q8_0", TensorType::kQ8_0}, {"Q4_0", TensorType::kQ4_0}, {"Q4_1", TensorType::kQ4_1}};
  static void types() {
    QTest::addColumn<int>("type");
    for (const auto& [name, type] : kTypes) QTest::newRow(name) << static_cast<int>(type);
  }
  static void backends() {
    QTest::addColumn<int>("kind");
    QTest::addColumn<int>("type");
    for (BackendKind k : backendKinds()) {
      for (const auto& [name, type] : kTypes) {
        QTest::newRow(qPrintable(QString("%1 %2").arg(nameOf(k), name)))
            << static_cast<int>(k) << static_cast<int>(type);
      }
    }
  }
  static BackendKind kind() {
    QFETCH(int, kind);
    return static_cast<BackendKind>(kind);
  }
  static TensorType type() {
    QFETCH(int, type);
    return static_cast<TensorType>(type);
  }
};

QTEST_APPLESS_MAIN(TestKvRegroup)
#include "tst_kv_regroup.moc"

// The CUDA backend gives the answers of the others, for everything in which models differ: numbers
// and sizes of heads, biases, norms of heads, RoPE, activations, soft caps, windows, types of the
// file; in every precision; prompts at once, in chunks and token by token.
// Before Qt, whose macros take the word `slots`.
#include "tests/engine/backend/cuda_fixture.h"

#include <QtTest>

#include <cmath>
#include <functional>

using namespace vitrine::engine;
using namespace vitrine::test;
using vitrine::kernels::TensorType;

namespace {

/// How a model differs from the plain one.
struct Trait {
  std::string name;
  TinyModelOptions options;
  std::function<void(ModelConfig&)> change;
  bool headNorm = false;
};

std::vector<Trait> traits() {
  std::vector<Trait> list;
  const auto add = [&](const char* name, int dModel, int nHeads, int nKvHeads, int dFfn) {
    TinyModelOptions options;
    options.dModel = dModel;
    options.nHeads = nHeads;
    options.nKvHeads = nKvHeads;
    options.dFfn = dFfn;
    options.seed = list.size() + 1;
    list.push_back({name, options, {}, false});
    return &list.back();
  };
  add("plain", 64, 4, 2, 96);
  add("a KV head for each head", 64, 4, 4, 96);
  add("16 heads of 8 for one KV head", 128, 16, 1, 64);
  add("3 heads of 64 for one KV head", 192, 3, 1, 160);
  add("heads of 80", 160, 2, 1, 64);
  add("heads of 96", 192, 2, 2, 64);
  add("heads of 128", 256, 2, 1, 64);
  add("heads of 256", 512, 2, 1, 64)->options.nLayers = 1;
  add("odd widths", 72, 3, 3, 100);
  add("biases", 64, 4, 2, 96)->options.attentionBias = true;
  add("norms of heads", 64, 4, 2, 96)->headNorm = true;
  add("tied F16 output", 64, 4, 2, 96)->options.tiedOutput = true;
  list.back().options.weightType = TensorType::kF16;
  add("tied Q8_0 output", 64, 4, 2, 96)->options.tiedOutput = true;
  list.back().options.weightType = TensorType::kQ8_0;
  add("BF16 file", 64, 4, 2, 96)->options.weightType = TensorType::kBF16;
  add("Q4_0 file", 64, 4, 2, 96)->options.weightType = TensorType::kQ4_0;
  add("Q4_1 file", 64, 4, 2, 96)->options.weightType = TensorType::kQ4_1;
  add("RoPE over halves of a part", 64, 2, 1, 96)->change = [](ModelConfig& c) {
    c.rope.style = RopeStyle::kHalves;
    c.rope.dims = c.headDim / 2;
  };
  add("scaled RoPE", 64, 2, 1, 96)->change = [](ModelConfig& c) {
    c.rope.linearScale = 2.0F;
    for (int i = 0; i < c.rope.dims / 2; ++i) {
      c.rope.freqFactors.push_back(1.0F + 0.25F * static_cast<float>(i));
    }
  };
  add("GELU and soft caps", 64, 4, 2, 96)->change = [](ModelConfig& c) {
    c.activation = Activation::kGeluTanh;
    c.attentionSoftcap = 2.0F;
    c.logitSoftcap = 12.0F;
    c.embeddingScale = 1.5F;
    c.attentionScale = 0.2F;
  };
  add("window of 9", 64, 4, 2, 96)->change = [](ModelConfig& c) { c.slidingWindow = 9; };
  return list;
}

struct Mode {
  const char* name;
  WeightPrecision precision;
  KvType kv;
};

std::vector<Mode> modes() {
  using enum WeightMode;
  const auto fp = ActivationMode::kFp16;
  const auto i8 = ActivationMode::kInt8;
  std::vector<Mode> list;
  for (KvType kv : {KvType::kFp16, KvType::kInt8}) {
    const bool plain = kv == KvType::kFp16;
    list.push_back({plain ? "native" : "native, KV8", {kNative, fp, 32}, kv});
    list.push_back({plain ? "FP16" : "FP16, KV8", {kFp16, fp, 32}, kv});
    list.push_back({plain ? "BF16" : "BF16, KV8", {kBf16, fp, 32}, kv});
    list.push_back({plain ? "W8A16" : "W8A16, KV8", {kInt8, fp, 32}, kv});
    list.push_back({plain ? "W8A16 in 64s" : "W8A16 in 64s, KV8", {kInt8, fp, 64}, kv});
    list.push_back({plain ? "W8A8" : "W8A8, KV8", {kInt8, i8, 32}, kv});
    list.push_back({plain ? "W8A8 in 64s" : "W8A8 in 64s, KV8", {kInt8, i8, 64}, kv});
  }
  return list;
}

constexpr int kTokens = 47;

}  // namespace

class TestCudaModels : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    m_traits = traits();
    for (const Trait& trait : m_traits) m_models.push_back(loadModel(randomModel(trait.options)));
  }

  void answersAreThoseOfTheOthers_data() {
    QTest::addColumn<int>("trait");
    QTest::addColumn<int>("mode");
    const std::vector<Mode> all = modes();
    for (std::size_t t = 0; t < m_traits.size(); ++t) {
      for (std::size_t m = 0; m < all.size(); ++m) {
        // Every mode for the plain model and a share of them, in turn, for each other one.
        if (t > 0 && m != 0 && (m + t) % 4 != 0) continue;
        QTest::newRow(qPrintable(
            QString("%1: %2").arg(QString::fromStdString(m_traits[t].name), all[m].name)))
            << static_cast<int>(t) << static_cast<int>(m);
      }
    }
  }
  void answersAreThoseOfTheOthers() {
    QFETCH(int, trait);
    QFETCH(int, mode);
    const Mode how = modes()[static_cast<std::size_t>(mode)];
    const auto at = static_cast<std::size_t>(trait);
    const std::shared_ptr<const Model>& model = m_models[at];
    ModelConfig config = model->config();
    if (m_traits[at].change) m_traits[at].change(config);
    if (m_traits[at].headNorm) giveHeadNorms(*model);

    // INT8 weights and activations are rounded the same way on the CPU, except that its groups of
    // activations are always of 32; the rest is judged by plain FP32 loops.
    const bool int8 =
        how.precision.weights == WeightMode::kInt8 &&
        (how.precision.activations == ActivationMode::kFp16 || how.precision.groupSize == 32);
    const auto judge =
        makeWith(int8 ? BackendKind::kCpu : BackendKind::kReference, model, config, how.precision);
    const auto tokens = someTokens(kTokens, trait + 1);
    const KvShape shape{how.kv, 16, 8, config.nKvHeads};
    valueOf(judge->configureCache(shape));
    const std::vector<float> wanted = forward(*judge, tokens, 0, blocks(3), kTokens);

    const auto backend = makeWith(BackendKind::kCuda, model, config, how.precision);
    valueOf(backend->configureCache(shape));
    const Divergence whole =
        divergence(wanted, forward(*backend, tokens, 0, blocks(3, 4), kTokens), config.vocabSize);
    // The same in a long chunk, short ones, and token by token; the blocks in another order.
    std::vector<float> pieces;
    const std::vector<BlockId> table{6, 1, 3};
    int done = 0;
    for (int count : {21, 3, 12, 5, 1, 1, 1, 1, 1, 1}) {
      const auto part =
          forward(*backend, std::span(tokens).subspan(done, count), done, table, count);
      pieces.insert(pieces.end(), part.begin(), part.end());
      done += count;
    }
    QCOMPARE(done, kTokens);
    const Divergence cut = divergence(wanted, pieces, config.vocabSize);
    qInfo("KL at once %.2g (largest %.2g), in pieces %.2g (%.2g)", whole.mean, whole.largest,
          cut.mean, cut.largest);
    // The reference knows neither activations with the 8 bits of BF16 nor weights' scales in FP16,
    // and a value that rounds the other way is a whole step of INT8.
    double most = 1e-3;
    if (how.precision.weights == WeightMode::kBf16) most = 3e-3;
    if (how.precision.weights == WeightMode::kInt8 && !int8) most = 1e-2;
    QVERIFY2(whole.mean <= most && cut.mean <= most, "the mean KL is too large");
    QVERIFY2(whole.largest <= 20 * most && cut.largest <= 20 * most, "one row is too far off");
    QCOMPARE(QString::fromStdString(cuda_on_cpu::report()), QString());
  }

 private:
  /// No architecture of the table has norms of heads yet: the model gets them as a file would give
  /// them. The views stay valid as long as this object.
  void giveHeadNorms(const Model& model) {
    auto& weights = const_cast<Weights&>(model.weights());
    const auto headDim = static_cast<std::size_t>(model.config().headDim);
    m_norms.assign(2 * headDim, 0.0F);
    for (std::size_t i = 0; i < m_norms.size(); ++i) {
      m_norms[i] = 0.8F + 0.05F * static_cast<float>(i % 9);
    }
    const auto view = [&](std::size_t first) {
      return TensorView{TensorType::kF32, 1, model.config().headDim,
                        reinterpret_cast<const std::byte*>(m_norms.data() + first)};
    };
    for (LayerWeights& layer : weights.layers) {
      layer.qNorm = view(0);
      layer.kNorm = view(headDim);
    }
  }

  std::vector<Trait> m_traits;
  std::vector<std::shared_ptr<const Model>> m_models;
  std::vector<float> m_norms;
};

QTEST_APPLESS_MAIN(TestCudaModels)
#include "tst_cuda_models.moc"

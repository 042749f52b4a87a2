// Every INT8 form of a model on the CUDA backend: the weights of the plan to the integer, the
// answers of the CPU on every way to them, the same counts of static scales, and the rows that an
// observer is shown.
// Before Qt, whose macros take the word `slots`.
#include "tests/engine/backend/cuda_fixture.h"

#include <QtTest>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "engine/quant/quant_plan.h"
#include "kernels/api/int8_weights.h"
#include "kernels/api/weight_change.h"
#include "kernels/reference/dequantize.h"
#include "tests/engine/backend/precision_modes.h"

using namespace vitrine::engine;
using namespace vitrine::test;
using vitrine::kernels::TensorType;
namespace gpu = vitrine::kernels::cuda;

namespace {

constexpr int kTokens = 44;

template <typename T>
std::vector<T> fromDevice(const void* from, std::size_t count) {
  std::vector<T> values(count);
  gpu::check(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost),
             "reading a test's weights");
  return values;
}

/// Rows of a matrix as the plan asks for them, outlier columns included.
std::vector<float> plannedRow(const TensorView& file, const MatrixPlan& plan, int row) {
  std::vector<float> x(static_cast<std::size_t>(file.cols));
  vitrine::kernels::reference::dequantize(
      file.type, file.data + file.rowBytes() * static_cast<std::size_t>(row), x.data(), file.cols);
  vitrine::kernels::WeightChange change;
  if (!plan.rowScale.empty()) change.rowScale = plan.rowScale.data();
  if (!plan.columnScale.empty()) change.columnScale = plan.columnScale.data();
  change.apply(row, x.data(), static_cast<int>(file.cols));
  return x;
}

/// What a matrix of the device holds of one output: value by value, outliers in their columns.
class HeldMatrix {
 public:
  explicit HeldMatrix(const cuda::CudaMatrix& m) : m_matrix(m) {
    const gpu::Matrix& w = m.weights;
    const auto values = static_cast<std::size_t>(w.paddedOut) * w.stride;
    if (w.format == gpu::WeightFormat::kInt8) {
      m_q = fromDevice<std::int8_t>(w.values, values);
      m_scales = fromDevice<std::uint16_t>(
          w.scales, static_cast<std::size_t>(w.paddedOut) * static_cast<std::size_t>(w.groups()));
    } else {
      m_bits = fromDevice<std::uint16_t>(w.values, values);
    }
    if (m.hasOutliers()) {
      m_outliers = fromDevice<std::uint16_t>(
          m.outliers.values, static_cast<std::size_t>(w.paddedOut) * m.outliers.stride);
    }
  }
  int q(int output, int column) const {
    return m_q[static_cast<std::size_t>(output) * m_matrix.weights.stride + column];
  }
  float scale(int output, int column) const {
    const gpu::Matrix& w = m_matrix.weights;
    const int group = w.groupSize == gpu::kWholeRow ? 0 : column / w.groupSize;
    return vitrine::kernels::halfToFloat(
               m_scales[static_cast<std::size_t>(output) * w.groups() + group]) *
           w.outputScale;
  }
  float half(int output, int column) const {
    const auto at = static_cast<std::size_t>(output) * m_matrix.weights.stride + column;
    return m_matrix.weights.format == gpu::WeightFormat::kBf16
               ? vitrine::kernels::bfloat16ToFloat(m_bits[at])
               : vitrine::kernels::halfToFloat(m_bits[at]);
  }
  float outlier(int output, int i) const {
    return vitrine::kernels::halfToFloat(
        m_outliers[static_cast<std::size_t>(output) * m_matrix.outliers.stride + i]);
  }

 private:
  const cuda::CudaMatrix& m_matrix;
  std::vector<std::int8_t> m_q;
  std::vector<std::uint16_t> m_scales, m_bits, m_outliers;
};

struct PartOfMatrix {
  MatrixPart part;
  const TensorView* file;
  const cuda::CudaMatrix* matrix;
  int firstOutput;  ///< in it
};

/// Where each part of a layer lies.
std::vector<PartOfMatrix> partsOf(const cuda::CudaLayer& layer, const LayerWeights& file) {
  std::vector<PartOfMatrix> all;
  const auto add = [&](const cuda::CudaMatrices& matrices,
                       std::initializer_list<std::pair<MatrixPart, const TensorView*>> parts) {
    int first = 0;
    for (const auto& [part, view] : parts) {
      const cuda::CudaMatrix* in = nullptr;
      for (const cuda::CudaMatrix& m : matrices) {
        if (first >= m.firstOutput && first < m.firstOutput + m.weights.out) in = &m;
      }
      all.push_back({part, view, in, first - in->firstOutput});
      first += static_cast<int>(view->rows);
    }
  };
  add(layer.qkv,
      {{MatrixPart::kQ, &file.wq}, {MatrixPart::kK, &file.wk}, {MatrixPart::kV, &file.wv}});
  add({layer.wo}, {{MatrixPart::kO, &file.wo}});
  all.back().matrix = &layer.wo;
  add(layer.gateUp, {{MatrixPart::kGate, &file.wGate}, {MatrixPart::kUp, &file.wUp}});
  all.push_back({MatrixPart::kDown, &file.wDown, &layer.wDown, 0});
  return all;
}

}  // namespace

class TestCudaModes : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    const auto add = [&](const char* name, const TinyModelOptions& options) {
      m_models.push_back(TestedModel::make(name, options, kTokens));
    };
    // Rows of 192 are one and a half groups of 128.
    TinyModelOptions options;
    options.dModel = 192;
    options.nHeads = 6;
    options.nKvHeads = 2;
    options.dFfn = 160;
    options.attentionBias = true;
    add("biases", options);
    options = {};
    options.weightType = TensorType::kQ8_0;
    options.tiedOutput = true;
    add("tied Q8_0", options);
    options = {};
    options.dModel = 72;
    options.nHeads = 3;
    options.nKvHeads = 3;
    options.dFfn = 100;
    options.weightType = TensorType::kF16;
    add("odd widths", options);
  }

  void weightsAreThoseOfThePlan_data() { modeRows(m_models.size()); }
  void weightsAreThoseOfThePlan() {
    const TestedModel& one = tested();
    const PrecisionMode mode = modeOf(one);
    const ModelConfig& c = one.model->config();
    const auto plan = valueOf(QuantPlan::make(*one.model, c, mode.precision));
    const auto stream = gpu::Stream::make();
    const auto weights =
        valueOf(cuda::CudaWeights::make(*one.model, c, mode.precision, stream.get(), {}, {}));
    for (int layer = 0; layer < c.nLayers; ++layer) {
      const auto at = static_cast<std::size_t>(layer);
      for (const PartOfMatrix& p : partsOf(weights->layers[at], one.model->weights().layers[at])) {
        checkPart(p, plan.matrix(layer, p.part), mode.precision);
      }
    }
    checkPart({MatrixPart::kOutput, &one.model->weights().output, &weights->output, 0},
              plan.matrix(-1, MatrixPart::kOutput), mode.precision);
  }

  void equalNeighboursAreOneMatrix() {
    const TestedModel& one = m_models.front();
    const auto runs = [&](const char* keep) {
      WeightPrecision p;
      p.weights = WeightMode::kInt8;
      p.keep = valueOf(MatrixSet::parse(keep, 2));
      const auto stream = gpu::Stream::make();
      const auto weights = valueOf(
          cuda::CudaWeights::make(*one.model, one.model->config(), p, stream.get(), {}, {}));
      std::string text;
      for (const auto* matrices : {&weights->layers[0].qkv, &weights->layers[0].gateUp}) {
        for (const cuda::CudaMatrix& m : *matrices) {
          text += fmt::format("{}{} ", m.weights.format == gpu::WeightFormat::kInt8 ? "i" : "h",
                              m.weights.out);
        }
      }
      return text;
    };
    QCOMPARE(runs(""), std::string("i320 i320 "));
    QCOMPARE(runs("1"), std::string("i320 i320 "));
    QCOMPARE(runs("0"), std::string("h320 h320 "));
    QCOMPARE(runs("0.k"), std::string("i192 h64 i64 i320 "));
    QCOMPARE(runs("0.q,0.up"), std::string("h192 i128 i160 h160 "));
    QCOMPARE(runs("0.q,0.k,0.gate"), std::string("h256 i64 h160 i160 "));
  }

  void answersAreThoseOfTheOthers_data() { modeRows(m_models.size()); }
  void answersAreThoseOfTheOthers() {
    const TestedModel& one = tested();
    const PrecisionMode mode = modeOf(one);
    const WeightPrecision& p = mode.precision;
    const ModelConfig& c = one.model->config();
    // Groups of activations are those of the weights here and in the reference, and of 32 on the
    // CPU.
    const bool otherGroups = p.activations == ActivationMode::kInt8 && p.groupSize != 32 &&
                             p.weightScales == WeightScales::kGroup &&
                             p.activationScales == ActivationScales::kDynamic;
    const auto judge =
        makeWith(otherGroups ? BackendKind::kReference : BackendKind::kCpu, one.model, c, p);
    const auto tokens = someTokens(kTokens, 10);
    configureCache(*judge, *one.model, KvType::kFp16, 3);
    const std::vector<float> wanted = forward(*judge, tokens, 0, blocks(3), kTokens);
    const Divergence loss = divergence(one.exact, wanted, c.vocabSize);

    const auto backend = makeWith(BackendKind::kCuda, one.model, c, p);
    configureCache(*backend, *one.model, KvType::kFp16, 20);
    const Divergence whole =
        divergence(wanted, forward(*backend, tokens, 0, blocks(3, 4), kTokens), c.vocabSize);
    // The same in long chunks, short ones, and token by token, by graph in the end.
    std::vector<float> pieces;
    int done = 0;
    for (int count : {17, 3, 9, 8, 1, 1, 1, 1, 1, 1, 1}) {
      const auto part =
          forward(*backend, std::span(tokens).subspan(done, count), done, blocks(3), count);
      pieces.insert(pieces.end(), part.begin(), part.end());
      done += count;
    }
    QCOMPARE(done, kTokens);
    const Divergence cut = divergence(wanted, pieces, c.vocabSize);
    qInfo("KL at once %.2g (largest %.2g), in pieces %.2g (%.2g); of the mode itself %.2g",
          whole.mean, whole.largest, cut.mean, cut.largest, loss.mean);
    QVERIFY(cudaOf(*backend).graphs().replays() >= 5);
    // A value that lies between two integers may go to either, which is a step of INT8. Seldom
    // where all products are of integers; where rows of FP16 go beside (in FP32 on the CPU), their
    // rounding of 2^-11 moves one value in about 16 of those that follow, which is as much as INT8
    // costs itself.
    const bool beside = p.outliers == OutlierMode::kMixed || !p.keep.empty();
    const double share = p.activations != ActivationMode::kInt8 ? 0.0 : beside ? 0.7 : 0.25;
    const double most = std::max(1e-3, share * loss.mean);
    QVERIFY2(whole.mean <= most && cut.mean <= most, "the mean KL is too large");
    QVERIFY2(whole.largest <= 20 * most && cut.largest <= 20 * most, "one row is too far off");

    fourTogether(*backend, c);
    QCOMPARE(QString::fromStdString(cuda_on_cpu::report()), QString());
  }

  void staticScalesCountWhatTheyMeet_data() { modeRows(1); }
  void staticScalesCountWhatTheyMeet() {
    const TestedModel& one = tested();
    const PrecisionMode mode = modeOf(one);
    const ModelConfig& c = one.model->config();
    const bool counts = mode.precision.activationScales == ActivationScales::kStatic;
    const auto plan = valueOf(QuantPlan::make(*one.model, c, mode.precision));
    const auto tokens = someTokens(kTokens, 14);
    std::map<BackendKind, std::vector<SiteUse>> all;
    for (BackendKind kind : {BackendKind::kCpu, BackendKind::kCuda}) {
      const auto backend = makeWith(kind, one.model, c, mode.precision);
      configureCache(*backend, *one.model, KvType::kFp16, 12);
      // A prompt, single tokens by graph, and three sequences together, which a graph pads to four.
      forward(*backend, std::span(tokens).first(kTokens - 4), 0, blocks(3), kTokens - 4);
      for (int i = kTokens - 4; i < kTokens; ++i) {
        forward(*backend, std::span(tokens).subspan(i, 1), i, blocks(3));
      }
      const std::vector<BlockId> first = blocks(1, 4), second = blocks(1, 5), third = blocks(1, 6);
      for (int i = 0; i < 4; ++i) {
        const auto token = std::span(tokens).subspan(i, 1);
        const BatchSequence batch[] = {
            {token, i, first, 1}, {token, i, second, 1}, {token, i, third, 1}};
        valueOf(backend->forward(batch));
      }
      all[kind] = backend->activationUse();
      QCOMPARE(all[kind].empty(), !counts);
    }
    const auto& cpu = all[BackendKind::kCpu];
    const auto& got = all[BackendKind::kCuda];
    QCOMPARE(got.size(), cpu.size());
    std::uint64_t clipped = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const SiteUse& use = got[i];
      QCOMPARE(use.site, cpu[i].site);
      QCOMPARE(use.values, cpu[i].values);
      const int width = widthOf(c, inputOfSite(use.site, c.nLayers));
      const auto held = static_cast<std::uint64_t>(width) - plan.outliers(use.site).size();
      QCOMPARE(use.values, held * (kTokens + 3 * 4));
      QCOMPARE(use.limit, 127.0F * plan.staticScale(use.site));
      QCOMPARE(use.clipped > 0, use.largest > use.limit);
      QVERIFY(std::fabs(use.largest / cpu[i].largest - 1.0F) < 0.05F);
      const auto difference =
          static_cast<double>(use.clipped) - static_cast<double>(cpu[i].clipped);
      QVERIFY(std::fabs(difference) <= 5.0 + 0.1 * static_cast<double>(cpu[i].clipped));
      clipped += use.clipped;
    }
    if (counts) QVERIFY(clipped > 0);
  }

  void observerSeesEachRowOnce_data() {
    QTest::addColumn<int>("chunk");
    QTest::addColumn<bool>("logits");
    for (int chunk : {1, 2, 7, 40}) {
      for (bool logits : {true, false}) {
        QTest::addRow("chunks of %d%s", chunk, logits ? "" : ", no logits") << chunk << logits;
      }
    }
  }
  void observerSeesEachRowOnce() {
    QFETCH(int, chunk);
    QFETCH(bool, logits);
    constexpr int kCount = 40;
    const TestedModel& one = m_models.front();
    const ModelConfig& c = one.model->config();
    const auto tokens = someTokens(kCount, 15);
    RowRecorder wanted, got;
    const auto record = [&](BackendKind kind, RowRecorder& to, int step) {
      const auto backend = makeWith(kind, one.model, c, {});
      configureCache(*backend, *one.model, KvType::kFp16, 3);
      forward(*backend, tokens, 0, blocks(3));  // seen by nobody
      for (int i = 0; i < 3; ++i) {
        forward(*backend, std::span(tokens).last(1), kCount - 1, blocks(3));
      }
      backend->observe(&to);
      for (int first = 0; first < kCount; first += step) {
        const int count = std::min(step, kCount - first);
        forward(*backend, std::span(tokens).subspan(first, count), first, blocks(3),
                logits ? count : 0);
      }
      backend->observe(nullptr);
      const auto after = forward(*backend, tokens, 0, blocks(3));
      if (kind != BackendKind::kCuda) return;
      // Graphs go on; those before are gone where the workspace has grown.
      const std::uint64_t replays = cudaOf(*backend).graphs().replays();
      for (int i = 0; i < 3; ++i) {
        const auto again = forward(*backend, std::span(tokens).last(1), kCount - 1, blocks(3));
        QVERIFY(divergence(after, again, c.vocabSize).mean < 1e-3);
      }
      QVERIFY(cudaOf(*backend).graphs().replays() > replays);
    };
    record(BackendKind::kReference, wanted, kCount);
    record(BackendKind::kCuda, got, chunk);
    for (int site = 0; site < siteCount(c.nLayers); ++site) {
      const bool seen = logits || site != outputSite(c.nLayers);
      QCOMPARE(got.rows[site].size(), static_cast<std::size_t>(seen ? kCount : 0));
      compareRows(got.rows[site], wanted.rows[site]);
    }
    for (int layer = 0; layer < c.nLayers; ++layer) {
      QCOMPARE(got.keyRows[layer].size(), static_cast<std::size_t>(kCount));
      compareRows(got.keyRows[layer], wanted.keyRows[layer]);
    }
  }

  // Many rows take INT8 weights widened to FP16: 127 scales must fit.
  void largeWeightsAreNotCut() {
    TinyModelOptions options;
    options.weightType = TensorType::kF32;
    const auto model = loadModel(randomModel(options));
    const ModelConfig& c = model->config();
    auto& layer = const_cast<Weights&>(model->weights()).layers[1];
    std::vector<float> down(static_cast<std::size_t>(c.dModel) * c.dFfn);
    for (std::size_t i = 0; i < down.size(); ++i) {
      down[i] = 0.01F * static_cast<float>((i * 37) % 101) - 0.5F;
      if (i % 7 == 0) down[i] *= 200.0F;  // up to 100: 127 scales beyond 65504 · 2^-12
    }
    layer.wDown = {TensorType::kF32, c.dModel, c.dFfn,
                   reinterpret_cast<const std::byte*>(down.data())};
    WeightPrecision p;
    p.weights = WeightMode::kInt8;
    const auto tokens = someTokens(30, 5);
    std::vector<std::vector<float>> all;
    for (BackendKind kind : {BackendKind::kCpu, BackendKind::kCuda}) {
      const auto backend = makeWith(kind, model, c, p);
      configureCache(*backend, *model, KvType::kFp16, 3);
      all.push_back(forward(*backend, tokens, 0, blocks(3), 30));
    }
    const Divergence found = divergence(all[0], all[1], c.vocabSize);
    QVERIFY2(found.mean < 1e-4, qPrintable(QString::number(found.mean)));
  }

  // Clipping would turn a NaN into 127 steps: it must be seen nonetheless.
  void brokenValuesAreSeen() {
    TinyModelOptions options;
    options.dModel = 128;
    options.nHeads = 2;
    options.nKvHeads = 1;
    options.dFfn = 128;
    const auto model = loadModel(randomModel(options));
    const auto plain = makeBackend(BackendKind::kReference, model);
    WeightPrecision p;
    p.weights = WeightMode::kInt8;
    p.activations = ActivationMode::kInt8;
    p.activationScales = ActivationScales::kStatic;
    p.calibration = calibrationOf(*plain, *model, someTokens(100, 3));
    // The norms of the file are ours to break: views of the mapped file, replaced by a vector.
    std::vector<float> broken(128, 1.0F);
    broken[5] = std::nanf("");
    auto& norm = const_cast<Weights&>(model->weights()).layers[1].ffnNorm;
    norm = {TensorType::kF32, 1, 128, reinterpret_cast<const std::byte*>(broken.data())};
    const auto backend = makeWith(BackendKind::kCuda, model, model->config(), p);
    configureCache(*backend, *model, KvType::kFp16, 3);
    const auto tokens = someTokens(12, 4);
    for (int count : {12, 1}) {
      for (float logit : forward(*backend, std::span(tokens).first(count), 0, blocks(1))) {
        QVERIFY(std::isnan(logit));
      }
    }
  }

 private:
  void modeRows(std::size_t models) {
    QTest::addColumn<int>("model");
    QTest::addColumn<int>("mode");
    for (std::size_t m = 0; m < models; ++m) {
      const auto modes = precisionModes(m_models[m].profile, kRandomThreshold);
      for (std::size_t i = 0; i < modes.size(); ++i) {
        QTest::addRow("%s: %s", m_models[m].name, modes[i].name.c_str())
            << static_cast<int>(m) << static_cast<int>(i);
      }
    }
  }
  const TestedModel& tested() const {
    QFETCH(int, model);
    return m_models[static_cast<std::size_t>(model)];
  }
  static PrecisionMode modeOf(const TestedModel& one) {
    QFETCH(int, mode);
    return precisionModes(one.profile, kRandomThreshold)[static_cast<std::size_t>(mode)];
  }

  /// A part of a matrix against the plan: the integers and scales of kernels/api/int8_weights.h,
  /// FP16 as it rounds.
  static void checkPart(const PartOfMatrix& p, const MatrixPlan& plan,
                        const WeightPrecision& precision) {
    namespace k = vitrine::kernels;
    const HeldMatrix held(*p.matrix);
    const gpu::Matrix& w = p.matrix->weights;
    const int rows = static_cast<int>(p.file->rows), cols = static_cast<int>(p.file->cols);
    QCOMPARE(p.matrix->hasOutliers(), !plan.outliers.empty());
    QCOMPARE(w.format == gpu::WeightFormat::kInt8, plan.mode == WeightMode::kInt8);
    std::vector<std::vector<float>> values;
    float largest = 0.0F;
    for (int r = 0; r < rows; ++r) {
      values.push_back(plannedRow(*p.file, plan, r));
      for (std::size_t i = 0; i < plan.outliers.size(); ++i) {
        float& x = values.back()[static_cast<std::size_t>(plan.outliers[i])];
        QCOMPARE(held.outlier(p.firstOutput + r, static_cast<int>(i)),
                 k::halfToFloat(k::floatToHalf(x)));
        x = 0.0F;
      }
      for (float x : values.back()) largest = std::max(largest, std::fabs(x));
    }
    const bool ownInt8 = p.file->type == TensorType::kQ8_0 && w.groupSize == 32 &&
                         !plan.changesValues() && plan.outliers.empty();
    for (int r = 0; r < rows; ++r) {
      const auto& row = values[static_cast<std::size_t>(r)];
      const int output = p.firstOutput + r;
      if (w.format != gpu::WeightFormat::kInt8) {
        for (int i = 0; i < cols; ++i) {
          const float x = row[static_cast<std::size_t>(i)];
          QCOMPARE(held.half(output, i), w.format == gpu::WeightFormat::kBf16
                                             ? k::bfloat16ToFloat(k::floatToBfloat16(x))
                                             : k::halfToFloat(k::floatToHalf(x)));
        }
        continue;
      }
      const int group = w.groupSize == gpu::kWholeRow ? cols : w.groupSize;
      for (int first = 0; first < cols; first += group) {
        const int count = std::min(group, cols - first);
        float ignored = 0.0F;
        const auto scale =
            precision.weightScales == WeightScales::kTensor
                ? k::int8ScaleOf(largest, w.outputScale, ignored)
                : k::int8WeightScale(row.data() + first, count, w.outputScale, ignored);
        for (int i = first; i < first + count; ++i) {
          const float x = row[static_cast<std::size_t>(i)];
          if (ownInt8) {
            QCOMPARE(static_cast<float>(held.q(output, i)) * held.scale(output, i), x);
          } else {
            QCOMPARE(held.scale(output, i), scale.value);
            QCOMPARE(held.q(output, i), k::int8Weight(x, scale.value));
          }
        }
      }
    }
  }

  /// Four sequences at different lengths, a token each at once and one after another.
  static void fourTogether(Backend& backend, const ModelConfig& config) {
    constexpr int kLengths[] = {3, 9, 16, 21};
    std::vector<std::vector<TokenId>> tokens;
    std::vector<std::vector<BlockId>> tables;
    std::vector<float> alone, together;
    for (int s = 0; s < 4; ++s) {
      tokens.push_back(someTokens(kLengths[s] + 1, 20 + s));
      tables.push_back(blocks(2, 8 + 2 * s));
      const auto prompt = std::span(tokens.back()).first(tokens.back().size() - 1);
      forward(backend, prompt, 0, tables.back());
      const auto row =
          forward(backend, std::span(tokens.back()).last(1), kLengths[s], tables.back());
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (int repeat = 0; repeat < 3; ++repeat) {  // the last by graph
      std::vector<BatchSequence> batch;
      for (int s = 0; s < 4; ++s) {
        const auto i = static_cast<std::size_t>(s);
        batch.push_back({std::span(tokens[i]).last(1), kLengths[s], tables[i], 1});
      }
      const auto logits = valueOf(backend.forward(batch));
      together.assign(logits.values().begin(), logits.values().end());
      // The sums of a row have one order whatever runs beside it.
      QVERIFY(divergence(alone, together, config.vocabSize).largest < 1e-9);
    }
  }

  static void compareRows(const RowRecorder::Rows& a, const RowRecorder::Rows& b) {
    QCOMPARE(a.size(), b.size());
    for (std::size_t r = 0; r < a.size(); ++r) {
      QCOMPARE(a[r].size(), b[r].size());
      double error = 0.0, size = 0.0;
      for (std::size_t i = 0; i < a[r].size(); ++i) {
        const double d = static_cast<double>(a[r][i]) - b[r][i];
        error += d * d;
        size += static_cast<double>(b[r][i]) * b[r][i];
      }
      QVERIFY(error <= 1e-4 * size);
    }
  }

  std::vector<TestedModel> m_models;
};

QTEST_APPLESS_MAIN(TestCudaModes)
#include "tst_cuda_modes.moc"

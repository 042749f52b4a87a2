// Every INT8 form of a model on the cpu backend: the answers of the reference backend, which holds
// the same integers; the same bits on every way to them; counts under static scales, and what an
// observer is shown.
#include <QtTest>

#include <cmath>
#include <map>
#include <mutex>

#include "engine/backend/weight_bytes.h"
#include "engine/quant/quant_plan.h"
#include "tests/engine/backend/precision_modes.h"

using namespace vitrine::engine;
using namespace vitrine::test;
using vitrine::kernels::TensorType;

namespace {

constexpr int kTokens = 40;

}  // namespace

class TestPrecisionModes : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    const auto add = [&](const char* name, const TinyModelOptions& options) {
      m_models.push_back(TestedModel::make(name, options, kTokens));
    };
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
    add("odd widths", options);
    options = {};
    options.weightType = TensorType::kQ4_1;
    add("Q4_1", options);
  }

  void answersAreThoseOfTheReference_data() { modeRows(m_models.size()); }
  void answersAreThoseOfTheReference() {
    const TestedModel& one = tested();
    const PrecisionMode mode = modeOf(one);
    const auto tokens = someTokens(kTokens, 10);
    const auto judge = makeBackend(BackendKind::kReference, one.model, mode.precision);
    const auto backend = makeBackend(BackendKind::kCpu, one.model, mode.precision);
    QVERIFY(backend->precision() == mode.precision);
    configureCache(*judge, *one.model, KvType::kFp16, 3);
    configureCache(*backend, *one.model, KvType::kFp16, 3);
    const auto wanted = forward(*judge, tokens, 0, blocks(3), kTokens);
    const auto got = forward(*backend, tokens, 0, blocks(3), kTokens);
    const double loss = difference(one.exact, wanted);
    const double error = difference(wanted, got);
    const std::size_t vocab = wanted.size() / kTokens;
    int equalRows = 0;
    for (std::size_t r = 0; r < kTokens; ++r) {
      const double row = difference(std::span(wanted).subspan(r * vocab, vocab),
                                    std::span(got).subspan(r * vocab, vocab));
      equalRows += row < 1e-5 ? 1 : 0;
    }
    qInfo("%.2e from the reference, which is %.2e from the model without INT8; %d rows equal",
          error, loss, equalRows);
    QVERIFY(std::isfinite(error));
    const WeightPrecision& p = mode.precision;
    if (p.activations == ActivationMode::kFp16) {
      QVERIFY(error <= 1e-3);  // 16 bits here, FP32 there
    } else if (p.weightScales == WeightScales::kGroup && p.groupSize > 32 &&
               p.activationScales == ActivationScales::kDynamic) {
      QVERIFY(error <= 1.5 * loss);  // activations are finer here: groups of 32
    } else {
      // The same to rounding in FP32, up to the first value that lies between two integers and
      // goes to the other one.
      QVERIFY(equalRows >= 1 && error <= 0.7 * loss);
    }
  }

  void bitsDoNotDependOnTheWay_data() { modeRows(1); }
  void bitsDoNotDependOnTheWay() {
    const TestedModel& one = tested();
    const PrecisionMode mode = modeOf(one);
    const auto tokens = someTokens(kTokens, 11);
    const auto two = makeBackend(BackendKind::kCpu, one.model, mode.precision, 2);
    configureCache(*two, *one.model, KvType::kInt8, 12);
    const auto whole = forward(*two, tokens, 0, blocks(3), kTokens);
    // In pieces, down to single tokens, on one thread.
    const auto alone = makeBackend(BackendKind::kCpu, one.model, mode.precision, 1);
    configureCache(*alone, *one.model, KvType::kInt8, 12);
    std::vector<float> joined;
    int done = 0;
    for (int count : {13, 2, 1, 1, 3, 20}) {
      const auto part =
          forward(*alone, std::span(tokens).subspan(done, count), done, blocks(3, 4), count);
      joined.insert(joined.end(), part.begin(), part.end());
      done += count;
    }
    QCOMPARE(done, kTokens);
    QVERIFY(joined == whole);
    // The last token beside other sequences.
    const auto a = someTokens(17, 12), b = someTokens(3, 13);
    const auto tableA = blocks(2, 8), tableB = blocks(1, 11), own = blocks(3);
    const BatchSequence batch[] = {
        {a, 0, tableA, 1}, {std::span(tokens).last(1), kTokens - 1, own, 1}, {b, 0, tableB, 0}};
    const auto logits = valueOf(two->forward(batch));
    const auto row = logits.row(1);
    const auto vocab = row.size();
    QVERIFY(std::equal(row.begin(), row.end(), whole.end() - static_cast<std::ptrdiff_t>(vocab)));
  }

  void staticScalesCountWhatTheyMeet_data() { modeRows(1); }
  void staticScalesCountWhatTheyMeet() {
    const TestedModel& one = tested();
    const PrecisionMode mode = modeOf(one);
    const ModelConfig& c = one.model->config();
    const bool counts = mode.precision.activationScales == ActivationScales::kStatic;
    const auto plan = valueOf(QuantPlan::make(*one.model, c, mode.precision));
    const auto tokens = someTokens(kTokens, 14);
    std::vector<std::vector<SiteUse>> all;
    for (BackendKind kind : backendKinds()) {
      const auto backend = makeBackend(kind, one.model, mode.precision);
      configureCache(*backend, *one.model, KvType::kFp16, 3);
      // Many rows (threads share them) and single ones (every thread prepares them).
      forward(*backend, std::span(tokens).first(kTokens - 2), 0, blocks(3), kTokens - 2);
      forward(*backend, std::span(tokens).subspan(kTokens - 2, 1), kTokens - 2, blocks(3), 1);
      forward(*backend, std::span(tokens).last(1), kTokens - 1, blocks(3), 1);
      all.push_back(backend->activationUse());
      QCOMPARE(all.back().empty(), !counts);
      std::uint64_t clipped = 0;
      for (const SiteUse& use : all.back()) {
        const int width = widthOf(c, inputOfSite(use.site, c.nLayers));
        const auto held = static_cast<std::uint64_t>(width) - plan.outliers(use.site).size();
        QCOMPARE(use.values, held * kTokens);
        QCOMPARE(use.limit, 127.0F * plan.staticScale(use.site));
        QCOMPARE(use.clipped > 0, use.largest > use.limit);
        QVERIFY(use.largest > 0.0F && use.clipped < use.values / 2);
        clipped += use.clipped;
      }
      // Other tokens than the calibrated ones: something is beyond.
      if (counts) QVERIFY(clipped > 0);
    }
    QCOMPARE(all[0].size(), all[1].size());
    for (std::size_t i = 0; i < all[0].size(); ++i) {
      QCOMPARE(all[0][i].site, all[1][i].site);
      QVERIFY(std::fabs(all[0][i].largest / all[1][i].largest - 1.0F) < 0.2F);
    }
  }

  void matricesKeptAreNotCounted() {
    const TestedModel& one = m_models.front();
    WeightPrecision p;
    p.weights = WeightMode::kInt8;
    p.activations = ActivationMode::kInt8;
    p.activationScales = ActivationScales::kStatic;
    p.calibration = one.profile;
    p.keep = valueOf(MatrixSet::parse("0.q,0.k,0.v,0.gate,1.down,output", 2));
    for (BackendKind kind : backendKinds()) {
      const auto backend = makeBackend(kind, one.model, p);
      std::vector<int> sites;
      for (const SiteUse& use : backend->activationUse()) sites.push_back(use.site);
      QCOMPARE(sites, (std::vector<int>{1, 2, 3, 4, 5, 6}));
    }
  }

  void observerSeesEachRowOnce_data() {
    QTest::addColumn<int>("kind");
    QTest::addColumn<int>("chunk");
    QTest::addColumn<bool>("logits");
    for (BackendKind kind : backendKinds()) {
      for (int chunk : {1, 2, 7, kTokens}) {
        for (bool logits : {true, false}) {
          QTest::addRow("%s, chunks of %d%s", nameOf(kind), chunk, logits ? "" : ", no logits")
              << static_cast<int>(kind) << chunk << logits;
        }
      }
    }
  }
  void observerSeesEachRowOnce() {
    QFETCH(int, kind);
    QFETCH(int, chunk);
    QFETCH(bool, logits);
    const TestedModel& one = m_models.front();
    const ModelConfig& c = one.model->config();
    const auto tokens = someTokens(kTokens, 15);
    RowRecorder wanted, got;
    const auto record = [&](BackendKind k, RowRecorder& to, int step, bool rows) {
      const auto backend = makeBackend(k, one.model);
      configureCache(*backend, *one.model, KvType::kFp16, 3);
      forward(*backend, tokens, 0, blocks(3));  // seen by nobody
      backend->observe(&to);
      for (int first = 0; first < kTokens; first += step) {
        const int count = std::min(step, kTokens - first);
        forward(*backend, std::span(tokens).subspan(first, count), first, blocks(3),
                rows ? count : 0);
      }
      backend->observe(nullptr);
      forward(*backend, tokens, 0, blocks(3));
    };
    record(BackendKind::kReference, wanted, kTokens, logits);
    record(static_cast<BackendKind>(kind), got, chunk, logits);
    const auto total = static_cast<std::size_t>(kTokens);
    for (int site = 0; site < siteCount(c.nLayers); ++site) {
      const bool seen = logits || site != outputSite(c.nLayers);
      QCOMPARE(got.rows[site].size(), seen ? total : 0);
      compareRows(got.rows[site], wanted.rows[site]);
    }
    QCOMPARE(got.rows.size(), static_cast<std::size_t>(siteCount(c.nLayers)));
    for (int layer = 0; layer < c.nLayers; ++layer) {
      QCOMPARE(got.keyRows[layer].size(), total);
      compareRows(got.keyRows[layer], wanted.keyRows[layer]);
    }
  }

  void bytesArePlannedAsHeld_data() { modeRows(m_models.size()); }
  void bytesArePlannedAsHeld() {
    const TestedModel& one = tested();
    const PrecisionMode mode = modeOf(one);
    const auto backend = makeBackend(BackendKind::kCpu, one.model, mode.precision);
    QCOMPARE(cpuWeightBytes(one.model->weights(), one.model->config().nKvHeads, mode.precision, 0),
             backend->memory().weightBytes);
  }

  void outlierColumnsTakeTheirPlace() {
    // What the modes above go over is not empty: there are outliers, of different number.
    const TestedModel& one = m_models.front();
    for (const PrecisionMode& mode : precisionModes(one.profile, kRandomThreshold)) {
      if (mode.precision.outliers != OutlierMode::kMixed) continue;
      const auto plan = valueOf(QuantPlan::make(*one.model, one.model->config(), mode.precision));
      std::size_t most = 0, columns = 0;
      for (int site = 0; site < siteCount(2); ++site) {
        columns += plan.outliers(site).size();
        most = std::max(most, plan.outliers(site).size());
      }
      QVERIFY2(columns > 4 && most > 2, mode.name.c_str());
      WeightPrecision without = mode.precision;
      without.outliers = OutlierMode::kNone;
      QVERIFY(makeBackend(BackendKind::kCpu, one.model, mode.precision)->memory().weightBytes >
              makeBackend(BackendKind::kCpu, one.model, without)->memory().weightBytes);
    }
  }

  void impossibleModesAreRefused() {
    const TestedModel& one = m_models.front();
    for (BackendKind kind : backendKinds()) {
      WeightPrecision p;
      p.weights = WeightMode::kInt8;
      p.activations = ActivationMode::kInt8;
      p.activationScales = ActivationScales::kStatic;
      const auto refused = vitrine::engine::makeBackend(kind, one.model, {p});
      QVERIFY(!refused);
      QCOMPARE(refused.error().code, ErrorCode::kInvalidArgument);
      p.calibration = m_models[1].profile;  // another model's
      QVERIFY(!vitrine::engine::makeBackend(kind, one.model, {p}));
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
  /// The same rows, in any order (threads take them as they come), to within rounding.
  static void compareRows(std::vector<RowRecorder::Row> a, std::vector<RowRecorder::Row> b) {
    QCOMPARE(a.size(), b.size());
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    for (std::size_t i = 0; i < a.size(); ++i) {
      QCOMPARE(a[i].size(), b[i].size());
      QVERIFY(difference(b[i], a[i]) < 1e-3);
    }
  }

  std::vector<TestedModel> m_models;
};

QTEST_APPLESS_MAIN(TestPrecisionModes)
#include "tst_precision_modes.moc"

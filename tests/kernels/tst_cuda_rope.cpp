// kernels/cuda/rope.h beyond the table of operations: biases, QK norm, and the append to the cache,
// byte for byte.
#include <QtTest>

#include <cmath>
#include <cstring>

#include "kernels/api/half.h"
#include "kernels/cuda/rope.h"
#include "kernels/reference/reference.h"
#include "tests/kernels/cuda_ops.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
namespace cuda = vitrine::kernels::cuda;
namespace ref = vitrine::kernels::reference;
using vitrine::kernels::KvElement;

namespace {

/// A step of rows of two sequences whose blocks lie anywhere; one row is padding.
const std::vector<std::int32_t> kPositions = {0, 14, 15, 16, -1, 17, 40};
const std::vector<std::int32_t> kSequences = {0, 0, 0, 0, 0, 1, 1};
const std::vector<std::vector<std::int32_t>> kTables = {{5, 2}, {1, 4, 0}};
constexpr int kBlocks = 7;
constexpr int kBlockSize = 16;

struct Case {
  int nHeads = 0, nKvHeads = 0, headDim = 0, pairs = 0;
  bool halves = false, bias = false, norm = false, int8 = false;
};

/// What goes in and comes out of one call.
struct Step {
  Floats qkv, bias, norm;
  Floats queries;                // [rows, qDim] after the call
  Floats keys;                   // [rows, kvDim] that were given beside
  std::vector<std::byte> cache;  // all blocks after the call
};

/// The angles that the reference takes, as turns: base 10000 over 2 · pairs dimensions.
std::vector<double> turnsFor(int pairs) {
  std::vector<double> turns;
  for (int i = 0; i < pairs; ++i) {
    turns.push_back(std::pow(10000.0, -static_cast<double>(i) / pairs) /
                    (2.0 * 3.14159265358979323846));
  }
  return turns;
}

Step run(const Case& c, DeviceCache& cache) {
  Random random(static_cast<std::uint64_t>(c.headDim * 100 + c.nHeads));
  cuda::RopeAppendParams p;
  p.heads = {c.nHeads, c.nKvHeads, c.headDim};
  const int rows = static_cast<int>(kPositions.size());
  const int qkvDim = p.heads.qkvDim();
  Step step;
  step.qkv = random.normals(static_cast<std::size_t>(rows * qkvDim));
  if (c.bias) step.bias = random.normals(static_cast<std::size_t>(qkvDim));
  if (c.norm) step.norm = random.normals(static_cast<std::size_t>(c.headDim));
  // The first query heads are the keys: they come back as FP32 from where the keys were stored.
  for (int r = 0; r < rows; ++r) {
    float* row = step.qkv.data() + r * qkvDim;
    for (int i = 0; i < p.heads.kvDim(); ++i) {
      row[i] = row[p.heads.qDim() + i];
      if (c.bias && r == 0) step.bias[i] = step.bias[p.heads.qDim() + i];
    }
    float* values = row + p.heads.qDim() + p.heads.kvDim();
    if (r == 1) std::fill(values, values + c.headDim, 0.0F);
    if (r == 2) values[0] = 1e6F;  // beyond FP16
  }
  const auto qkv = onDevice(step.qkv);
  const auto bias = onDevice(step.bias);
  const auto norm = onDevice(step.norm);
  const auto turns = onDevice(turnsFor(c.pairs));
  const auto angles = filled<float2>(static_cast<std::size_t>(rows * c.pairs));
  p.qkv = qkv.data();
  p.bias = bias.data();
  p.qNorm = norm.data();
  p.kNorm = norm.data();
  p.normEps = 1e-6F;
  p.angles = angles.data();
  p.pairs = c.pairs;
  p.halves = c.halves;
  p.step = cache.step(kPositions, kSequences, kTables);
  p.kv = cache.layer;
  const auto keys = filled<float>(static_cast<std::size_t>(rows * p.heads.kvDim()));
  p.keys = keys.data();
  cuda::ropeAngles(testStream(), p.step.positions, turns.data(), rows, c.pairs, angles.data());
  cuda::ropeAppend(testStream(), p);
  const Floats after = toHost(qkv);
  for (int r = 0; r < rows; ++r) {
    const auto first = after.begin() + r * qkvDim;
    step.queries.insert(step.queries.end(), first, first + p.heads.qDim());
  }
  step.keys = toHost(keys);
  step.cache = cache.bytes();
  return step;
}

/// Row r's query heads by the reference.
Floats referenceQueries(const Case& c, const Step& step, int r) {
  const int qDim = c.nHeads * c.headDim;
  const int qkvDim = qDim + 2 * c.nKvHeads * c.headDim;
  Floats q(step.qkv.begin() + r * qkvDim, step.qkv.begin() + r * qkvDim + qDim);
  if (kPositions[r] < 0) return q;
  for (int i = 0; c.bias && i < qDim; ++i) q[i] += step.bias[i];
  if (c.norm) {
    ref::rmsNorm(q.data(), step.norm.data(), q.data(), c.nHeads, c.headDim, 1e-6F);
  }
  vitrine::kernels::RopeParams rope;
  rope.rows = 1;
  rope.nHeads = c.nHeads;
  rope.headDim = c.headDim;
  rope.dims = 2 * c.pairs;
  rope.halves = c.halves;
  ref::rope(q.data(), &kPositions[r], rope);
  if (c.int8) ref::hadamard(q.data(), c.nHeads, c.headDim);
  return q;
}

}  // namespace

class TestCudaRope : public QObject {
  Q_OBJECT

 private slots:
  void keysHaveANormOfTheirOwn() {
    constexpr int kDim = 8;
    DeviceCache cache(vitrine::kernels::KvElement::kFp16, 16, 1, kDim, 1);
    Floats qkv(3 * kDim, 0.0F);
    for (int i = 0; i < kDim; ++i) qkv[i] = qkv[kDim + i] = static_cast<float>(i + 1);
    const auto onDeviceQkv = onDevice(qkv);
    const auto ones = onDevice(Floats(kDim, 1.0F)), twos = onDevice(Floats(kDim, 2.0F));
    const auto turns = onDevice(turnsFor(kDim / 2));
    const auto angles = filled<float2>(kDim / 2);
    cuda::RopeAppendParams p;
    p.qkv = onDeviceQkv.data();
    p.heads = {1, 1, kDim};
    p.qNorm = ones.data();
    p.kNorm = twos.data();
    p.angles = angles.data();
    p.pairs = kDim / 2;
    p.step = cache.step({0}, {0}, {{0}});
    p.kv = cache.layer;
    cuda::ropeAngles(testStream(), p.step.positions, turns.data(), 1, p.pairs, angles.data());
    cuda::ropeAppend(testStream(), p);
    const Floats q = toHost(onDeviceQkv);
    const std::vector<std::byte> bytes = cache.bytes();
    for (int i = 0; i < kDim; ++i) {
      std::uint16_t k = 0;
      std::memcpy(&k, bytes.data() + cache.layer.kOffset + 2 * static_cast<std::size_t>(i), 2);
      QVERIFY(std::fabs(vitrine::kernels::halfToFloat(k) - 2.0F * q[i]) <= 2e-3F * q[i]);
    }
  }

  void keysAndValuesAreAppendedAsOnTheHost_data() {
    QTest::addColumn<int>("nHeads");
    QTest::addColumn<int>("nKvHeads");
    QTest::addColumn<int>("headDim");
    QTest::addColumn<int>("pairs");
    QTest::addColumn<bool>("bias");
    QTest::addColumn<bool>("norm");
    for (auto [nHeads, nKvHeads, headDim, pairs, bias, norm] :
         {std::tuple{1, 1, 8, 4, false, false},
          {9, 3, 64, 32, false, false},
          {14, 2, 64, 32, true, false},
          {4, 4, 80, 16, true, true},
          {6, 2, 80, 40, false, true},
          {16, 1, 96, 48, true, false},
          {16, 2, 128, 64, false, true},
          {5, 1, 128, 32, true, true},
          {4, 1, 256, 128, false, false},
          {8, 4, 256, 64, true, true},
          {3, 3, 48, 0, true, false}}) {
      QTest::addRow("%d/%d heads of %d, %d pairs%s%s", nHeads, nKvHeads, headDim, pairs,
                    bias ? ", bias" : "", norm ? ", norm" : "")
          << nHeads << nKvHeads << headDim << pairs << bias << norm;
    }
  }
  void keysAndValuesAreAppendedAsOnTheHost() {
    QFETCH(int, nHeads);
    QFETCH(int, nKvHeads);
    QFETCH(int, headDim);
    QFETCH(int, pairs);
    QFETCH(bool, bias);
    QFETCH(bool, norm);
    for (bool int8 : {false, true}) {
      for (bool halves : {false, true}) {
        const Case c = {nHeads, nKvHeads, headDim, pairs, halves, bias, norm, int8};
        const auto element = int8 ? KvElement::kInt8 : KvElement::kFp16;
        DeviceCache cache(element, kBlockSize, nKvHeads, headDim, kBlocks);
        const Step step = run(c, cache);
        const int qDim = nHeads * headDim, kvDim = nKvHeads * headDim;
        const int qkvDim = qDim + 2 * kvDim;

        // The cache as the host would have written it, every byte of every block.
        std::vector<std::byte> wanted(step.cache.size(), std::byte{0xFF});
        const auto view = cache.hostView(wanted.data());
        for (std::size_t r = 0; r < kPositions.size(); ++r) {
          const float* keys = step.queries.data() + r * static_cast<std::size_t>(qDim);
          const auto values =
              step.qkv.begin() + static_cast<std::ptrdiff_t>(r) * qkvDim + qDim + kvDim;
          Floats v(values, values + kvDim);
          for (int i = 0; bias && i < kvDim; ++i) v[i] += step.bias[qDim + kvDim + i];
          if (kPositions[r] < 0) continue;
          ref::kvAppend(view, kTables[kSequences[r]].data(), kPositions[r], keys, v.data(), 1);
        }
        const auto wrong = std::mismatch(wanted.begin(), wanted.end(), step.cache.begin());
        QVERIFY2(wrong.first == wanted.end(),
                 qPrintable(QString("byte %1 of %2, %3, %4")
                                .arg(wrong.first - wanted.begin())
                                .arg(wanted.size())
                                .arg(int8 ? "int8" : "fp16", halves ? "halves" : "interleaved")));

        // The keys that were given beside are those after RoPE; none of a padding row.
        Floats given = step.keys;
        if (int8) ref::hadamard(given.data(), static_cast<int>(given.size()) / headDim, headDim);
        for (std::size_t i = 0; i < step.keys.size(); ++i) {
          const std::size_t r = i / static_cast<std::size_t>(kvDim);
          if (kPositions[r] < 0) {
            QVERIFY(std::isnan(given[i]));
            continue;
          }
          const std::size_t column = i % static_cast<std::size_t>(kvDim);
          QCOMPARE(given[i], step.queries[r * static_cast<std::size_t>(qDim) + column]);
        }

        for (std::size_t r = 0; r < kPositions.size(); ++r) {
          const Floats reference = referenceQueries(c, step, static_cast<int>(r));
          for (int i = 0; i < qDim; ++i) {
            const float got = step.queries[r * static_cast<std::size_t>(qDim) + i];
            const float allowed =
                kPositions[r] < 0 ? 0.0F : 1e-5F * (1.0F + std::fabs(reference[i]));
            QVERIFY2(std::fabs(got - reference[i]) <= allowed,
                     qPrintable(QString("row %1, column %2: got %3, wanted %4")
                                    .arg(r)
                                    .arg(i)
                                    .arg(got)
                                    .arg(reference[i])));
          }
        }
      }
    }
  }

  void anglesAreExactAtFarPositions() {
    const std::vector<std::int32_t> positions = {0, 1, 4095, 131071, 1048576, 16777217, -1};
    const std::vector<double> turns = turnsFor(48);
    const auto onDevicePositions = onDevice(positions);
    const auto onDeviceTurns = onDevice(turns);
    const auto angles = filled<float2>(positions.size() * turns.size());
    cuda::ropeAngles(testStream(), onDevicePositions.data(), onDeviceTurns.data(),
                     static_cast<int>(positions.size()), 48, angles.data());
    const auto got = toHost(angles);
    for (std::size_t r = 0; r < positions.size(); ++r) {
      for (std::size_t i = 0; i < turns.size(); ++i) {
        const double angle = 2.0 * 3.14159265358979323846 * turns[i] *
                             static_cast<double>(std::max(positions[r], 0));
        const float2 a = got[r * turns.size() + i];
        QVERIFY(std::fabs(a.x - std::cos(angle)) < 3e-7);
        QVERIFY(std::fabs(a.y - std::sin(angle)) < 3e-7);
      }
    }
  }

  void blocksOfOtherSizes() {
    // Three rows across the edge of blocks of 32.
    const int headDim = 64;
    DeviceCache cache(KvElement::kFp16, 32, 1, headDim, 3);
    Random random(3);
    const Floats input = random.normals(3 * 3 * headDim);
    const auto qkv = onDevice(input);
    cuda::RopeAppendParams p;
    p.qkv = qkv.data();
    p.heads = {1, 1, headDim};
    p.step = cache.step({31, 32, 63}, {0, 0, 0}, {{2, 0}});
    p.kv = cache.layer;
    cuda::ropeAppend(testStream(), p);
    const auto got = cache.bytes();
    std::vector<std::byte> wanted(got.size(), std::byte{0xFF});
    const std::int32_t table[] = {2, 0};
    const int positions[] = {31, 32, 63};
    for (int r = 0; r < 3; ++r) {
      const float* row = input.data() + r * 3 * headDim;
      ref::kvAppend(cache.hostView(wanted.data()), table, positions[r], row + headDim,
                    row + 2 * headDim, 1);
    }
    QVERIFY(got == wanted);
  }

  void brokenArgumentsAreNamed() {
    DeviceCache cache(KvElement::kFp16, 16, 1, 64, 1);
    const auto qkv = filled<float>(192);
    cuda::RopeAppendParams p;
    p.qkv = qkv.data();
    p.heads = {1, 1, 64};
    p.step = cache.step({0}, {0}, {{0}});
    p.kv = cache.layer;
    p.pairs = 33;
    QVERIFY_EXCEPTION_THROWN(cuda::ropeAppend(testStream(), p), cuda::CudaError);
    p.pairs = 0;
    p.heads.headDim = p.kv.headDim = 258;
    QVERIFY_EXCEPTION_THROWN(cuda::ropeAppend(testStream(), p), cuda::CudaError);
    p.heads.headDim = 64;
    QVERIFY_EXCEPTION_THROWN(cuda::ropeAppend(testStream(), p), cuda::CudaError);
  }
};

QTEST_APPLESS_MAIN(TestCudaRope)
#include "tst_cuda_rope.moc"

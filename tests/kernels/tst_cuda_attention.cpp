// kernels/cuda/attention.h and copyBlock() beyond the table of operations.
#include <QtTest>

#include <cmath>
#include <numeric>

#include "kernels/cuda/rows.h"
#include "tests/kernels/cuda_attention.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
namespace cuda = vitrine::kernels::cuda;
using vitrine::kernels::KvElement;

namespace {

struct Shape {
  int nHeads = 4, nKvHeads = 2, headDim = 64;
  bool int8 = false;
};

/// Sequences of the given lengths. No rows yet.
AttentionScene makeScene(Random& random, const Shape& shape, const std::vector<int>& lengths,
                         int blockSize = 16) {
  AttentionScene scene;
  scene.nHeads = shape.nHeads;
  scene.nKvHeads = shape.nKvHeads;
  scene.headDim = shape.headDim;
  scene.int8 = shape.int8;
  scene.blockSize = blockSize;
  scene.scale = 1.0F / std::sqrt(static_cast<float>(shape.headDim));
  int used = 0;
  for (int length : lengths) used += (length + blockSize - 1) / blockSize;
  scene.nBlocks = used + 3;
  std::vector<std::int32_t> blocks(static_cast<std::size_t>(scene.nBlocks));
  std::iota(blocks.begin(), blocks.end(), 0);
  for (int i = scene.nBlocks - 1; i > 0; --i) std::swap(blocks[i], blocks[random.below(i + 1)]);
  auto next = blocks.begin();
  for (int length : lengths) {
    const int count = (length + blockSize - 1) / blockSize;
    scene.tables.emplace_back(next, next + count);
    next += count;
    const auto size = static_cast<std::size_t>(length) * shape.nKvHeads * shape.headDim;
    scene.k.push_back(random.normals(size));
    scene.v.push_back(random.normals(size));
  }
  return scene;
}

void addRow(Random& random, AttentionScene& scene, int sequence, int position) {
  scene.sequences.push_back(sequence);
  scene.positions.push_back(position);
  const Floats q = random.normals(static_cast<std::size_t>(scene.width()));
  scene.q.insert(scene.q.end(), q.begin(), q.end());
}

/// Rows at the last `rows` positions of sequence 0.
void addLastRows(Random& random, AttentionScene& scene, int rows) {
  const int length = static_cast<int>(scene.k[0].size()) / (scene.nKvHeads * scene.headDim);
  for (int r = 0; r < rows; ++r) addRow(random, scene, 0, length - rows + r);
}

/// "" if each value is within `allowed` of the wanted one, times the largest magnitude of its row.
QString difference(const Floats& got, const Floats& wanted, int width, double allowed = 1e-5) {
  if (got.size() != wanted.size()) return "another number of values";
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(width) * static_cast<std::size_t>(width);
    float largest = 0.0F;
    for (int j = 0; j < width; ++j) largest = std::max(largest, std::fabs(wanted[row + j]));
    if (std::fabs(static_cast<double>(got[i]) - wanted[i]) <= allowed * largest + 1e-9) continue;
    return QString("value %1 of row %2: got %3, wanted %4")
        .arg(i - row)
        .arg(row / static_cast<std::size_t>(width))
        .arg(static_cast<double>(got[i]), 0, 'g', 9)
        .arg(static_cast<double>(wanted[i]), 0, 'g', 9);
  }
  return {};
}

#define COMPARE_ROWS(got, wanted, width)                       \
  do {                                                         \
    const QString what = difference((got), (wanted), (width)); \
    QVERIFY2(what.isEmpty(), qPrintable(what));                \
  } while (false)

}  // namespace

class TestCudaAttention : public QObject {
  Q_OBJECT

 private slots:
  /// Every head size and group size has its own code.
  void everyShape_data() {
    QTest::addColumn<int>("headDim");
    QTest::addColumn<int>("group");
    QTest::addColumn<bool>("int8");
    for (bool int8 : {false, true}) {
      for (int headDim : {8, 24, 64, 80, 96, 112, 128, 256}) {
        for (int group : {1, 2, 3, 4, 7, 8, 16}) {
          QTest::addRow("%s, %d heads of %d", int8 ? "int8" : "fp16", group, headDim)
              << headDim << group << int8;
        }
      }
    }
    QTest::addRow("more heads than a block serves") << 64 << 19 << false;
    QTest::addRow("more heads than a block serves, int8") << 40 << 19 << true;
  }
  void everyShape() {
    QFETCH(int, headDim);
    QFETCH(int, group);
    QFETCH(bool, int8);
    Random random(static_cast<std::uint64_t>(headDim * 100 + group));
    // Two KV heads where that is cheap: the second one's offsets count too.
    const int nKvHeads = headDim * group > 512 ? 1 : 2;
    AttentionScene scene = makeScene(random, {group * nKvHeads, nKvHeads, headDim, int8}, {37});
    addLastRows(random, scene, 3);
    const Floats wanted = referenceAttention(scene);
    DeviceAttention device(scene);
    COMPARE_ROWS(device.decode(1), wanted, scene.width());
    COMPARE_ROWS(device.decode(2), wanted, scene.width());
    COMPARE_ROWS(device.prefill(3), wanted, scene.width());
  }

  /// Splits that are empty, that hold one chunk, that hold many; sequences of mixed lengths and
  /// rows of padding in one step.
  void splitsAgree_data() {
    QTest::addColumn<int>("splits");
    QTest::addColumn<bool>("int8");
    for (bool int8 : {false, true}) {
      for (int splits : {1, 2, 3, 7, 16, 40}) {
        QTest::addRow("%s %d", int8 ? "int8" : "fp16", splits) << splits << int8;
      }
    }
  }
  void splitsAgree() {
    QFETCH(int, splits);
    QFETCH(bool, int8);
    Random random(11);
    AttentionScene scene = makeScene(random, {3, 1, 64, int8}, {1, 333, 17, 64});
    addRow(random, scene, 0, 0);
    addRow(random, scene, 1, 332);
    addRow(random, scene, 0, -1);
    addRow(random, scene, 2, 16);
    addRow(random, scene, 3, 63);
    addRow(random, scene, 3, -1);
    COMPARE_ROWS(DeviceAttention(scene).decode(splits), referenceAttention(scene), scene.width());
  }

  /// The largest score by far lies in a split behind the first 32.
  void theLastSplitTakesAll() {
    constexpr int kDim = 64, kLength = 2560, kSplits = 40;
    Random random(15);
    AttentionScene scene = makeScene(random, {1, 1, kDim, false}, {kLength});
    addRow(random, scene, 0, kLength - 1);
    for (int i = 0; i < kDim; ++i) {
      scene.k[0][(kLength - 1) * kDim + i] = 60.0F * scene.q[i];
    }
    const Floats wanted = referenceAttention(scene);
    COMPARE_ROWS(DeviceAttention(scene).decode(kSplits), wanted, scene.width());
    QVERIFY(std::isfinite(DeviceAttention(scene).decode(kSplits)[0]));
  }

  void everyRowIsPadding() {
    Random random(12);
    AttentionScene scene = makeScene(random, {4, 2, 80, false}, {5});
    addRow(random, scene, 0, -1);
    addRow(random, scene, 0, -1);
    DeviceAttention device(scene);
    const Floats zeros(scene.q.size(), 0.0F);
    QCOMPARE(device.decode(1), zeros);
    QCOMPARE(device.decode(5), zeros);
  }

  /// Rows before the end of what is cached, at every slot of a block.
  void rowsDoNotSeeTheFuture() {
    Random random(13);
    AttentionScene scene = makeScene(random, {2, 1, 32, false}, {70});
    for (int position = 30; position < 50; ++position) addRow(random, scene, 0, position);
    const Floats wanted = referenceAttention(scene);
    DeviceAttention device(scene);
    COMPARE_ROWS(device.decode(1), wanted, scene.width());
    COMPARE_ROWS(device.decode(3), wanted, scene.width());
    COMPARE_ROWS(device.prefill(20), wanted, scene.width());
  }

  void windowEdges_data() {
    QTest::addColumn<int>("window");
    QTest::addColumn<bool>("int8");
    for (int window : {1, 2, 15, 16, 17, 33, 64, 100}) {
      QTest::addRow("fp16 %d", window) << window << false;
      QTest::addRow("int8 %d", window) << window << true;
    }
  }
  void windowEdges() {
    QFETCH(int, window);
    QFETCH(bool, int8);
    Random random(14);
    AttentionScene scene = makeScene(random, {2, 1, 64, int8}, {100});
    scene.window = window;
    for (int position : {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 99}) {
      addRow(random, scene, 0, position);
    }
    const Floats wanted = referenceAttention(scene);
    COMPARE_ROWS(DeviceAttention(scene).decode(1), wanted, scene.width());
    COMPARE_ROWS(DeviceAttention(scene).decode(4), wanted, scene.width());

    AttentionScene rows = makeScene(random, {2, 1, 64, int8}, {140});
    rows.window = window;
    addLastRows(random, rows, 40);
    COMPARE_ROWS(DeviceAttention(rows).prefill(40), referenceAttention(rows), rows.width());
  }

  /// Scores of ±1000: one position takes all; and a soft cap that flattens them.
  void largeScores_data() {
    QTest::addColumn<float>("softcap");
    QTest::newRow("plain") << 0.0F;
    QTest::newRow("softcap 50") << 50.0F;
    QTest::newRow("softcap 0.5") << 0.5F;
  }
  void largeScores() {
    QFETCH(float, softcap);
    Random random(15);
    AttentionScene scene = makeScene(random, {3, 1, 64, false}, {90});
    scene.scale = 1.0F;
    scene.softcap = softcap;
    for (float& k : scene.k[0]) k *= 30.0F;
    addLastRows(random, scene, 5);
    // Sums of 64 products near 30 carry rounding of about 1e-4, which exp() passes on.
    const Floats wanted = referenceAttention(scene);
    DeviceAttention device(scene);
    for (const Floats& got : {device.decode(1), device.decode(3), device.prefill(5)}) {
      const QString what = difference(got, wanted, scene.width(), 1e-3);
      QVERIFY2(what.isEmpty(), qPrintable(what));
    }
  }

  /// A falling and a rising maximum from chunk to chunk.
  void maximumMoves() {
    Random random(16);
    AttentionScene scene = makeScene(random, {2, 1, 64, false}, {260});
    scene.scale = 1.0F;
    for (int p = 0; p < 260; ++p) {
      const float size = p < 130 ? 0.02F * static_cast<float>(p) : 0.3F;
      for (int i = 0; i < 64; ++i) scene.k[0][static_cast<std::size_t>(p * 64 + i)] *= size;
    }
    addLastRows(random, scene, 2);
    addRow(random, scene, 0, 130);
    const Floats wanted = referenceAttention(scene);
    COMPARE_ROWS(DeviceAttention(scene).decode(1), wanted, scene.width());
    COMPARE_ROWS(DeviceAttention(scene).decode(2), wanted, scene.width());
    AttentionScene last = scene;
    last.positions.pop_back();
    last.sequences.pop_back();
    last.q.resize(last.q.size() - static_cast<std::size_t>(scene.width()));
    COMPARE_ROWS(DeviceAttention(last).prefill(2), referenceAttention(last), scene.width());
  }

  /// INT8: a position of zeros has the scale zero; so has a whole history of them.
  void zeroScales() {
    Random random(17);
    AttentionScene scene = makeScene(random, {4, 2, 64, true}, {40, 20});
    const int width = 2 * 64;
    std::fill_n(scene.k[0].begin() + 3 * width, 5 * width, 0.0F);
    std::fill_n(scene.v[0].begin() + 6 * width, 5 * width, 0.0F);
    std::fill(scene.k[1].begin(), scene.k[1].end(), 0.0F);
    std::fill(scene.v[1].begin(), scene.v[1].end(), 0.0F);
    addRow(random, scene, 0, 39);
    addRow(random, scene, 1, 19);
    const Floats wanted = referenceAttention(scene);
    COMPARE_ROWS(DeviceAttention(scene).decode(1), wanted, scene.width());
    COMPARE_ROWS(DeviceAttention(scene).decode(2), wanted, scene.width());
    AttentionScene second = makeScene(random, {4, 2, 64, true}, {20});
    second.k[0] = scene.k[1];
    second.v[0] = scene.v[1];
    addLastRows(random, second, 4);
    QCOMPARE(DeviceAttention(second).prefill(4), Floats(second.q.size(), 0.0F));
  }

  /// However a prompt is cut, and whichever blocks hold it, a row has the same bits.
  void bitsDoNotDependOnChunksOrBlocks_data() {
    QTest::addColumn<bool>("int8");
    QTest::addColumn<int>("window");
    QTest::newRow("fp16") << false << 0;
    QTest::newRow("int8, window") << true << 50;
  }
  void bitsDoNotDependOnChunksOrBlocks() {
    QFETCH(bool, int8);
    QFETCH(int, window);
    Random random(18);
    AttentionScene scene = makeScene(random, {6, 2, 64, int8}, {90});
    scene.window = window;
    addLastRows(random, scene, 90);
    const Floats whole = DeviceAttention(scene).prefill(90);
    COMPARE_ROWS(whole, referenceAttention(scene), scene.width());
    for (int chunk : {1, 7, 16, 33, 64}) QCOMPARE(DeviceAttention(scene).prefill(chunk), whole);
    const Floats decoded = DeviceAttention(scene).decode(3);

    AttentionScene moved = scene;
    std::reverse(moved.tables[0].begin(), moved.tables[0].end());
    QCOMPARE(DeviceAttention(moved).prefill(90), whole);
    QCOMPARE(DeviceAttention(moved).decode(3), decoded);
  }

  /// A row of a decode step has the same bits alone and among others.
  void bitsDoNotDependOnOtherRows() {
    Random random(19);
    AttentionScene scene = makeScene(random, {4, 2, 128, false}, {70, 200});
    addRow(random, scene, 0, 69);
    AttentionScene batch = scene;
    addRow(random, batch, 1, 199);
    addRow(random, batch, 1, -1);
    const Floats alone = DeviceAttention(scene).decode(3);
    Floats among = DeviceAttention(batch).decode(3);
    among.resize(alone.size());
    QCOMPARE(among, alone);
  }

  void largeBlocks() {
    for (int blockSize : {32, 48, 128}) {
      for (bool int8 : {false, true}) {
        Random random(20);
        AttentionScene scene = makeScene(random, {4, 2, 64, int8}, {150}, blockSize);
        addLastRows(random, scene, 6);
        const Floats wanted = referenceAttention(scene);
        DeviceAttention device(scene);
        COMPARE_ROWS(device.decode(2), wanted, scene.width());
        COMPARE_ROWS(device.prefill(6), wanted, scene.width());
      }
    }
  }

  /// FP16 saturates, BF16 has the range; 80 · 3 columns leave 16 of padding.
  void resultTypes() {
    Random random(21);
    AttentionScene scene = makeScene(random, {3, 1, 80, true}, {40});
    for (float& v : scene.v[0]) v *= 1e6F;
    addLastRows(random, scene, 2);
    const Floats wanted = referenceAttention(scene);
    DeviceAttention half(scene, cuda::RowType::kFp16);
    DeviceAttention bf16(scene, cuda::RowType::kBf16);
    Floats saturated = wanted;
    for (float& y : saturated) y = std::min(std::max(y, -65504.0F), 65504.0F);
    for (int splits : {1, 2}) {
      QVERIFY(difference(half.decode(splits), saturated, scene.width(), 1e-3).isEmpty());
      QVERIFY(difference(bf16.decode(splits), wanted, scene.width(), 5e-3).isEmpty());
    }
    QVERIFY(difference(half.prefill(2), saturated, scene.width(), 1e-3).isEmpty());
    QVERIFY(difference(bf16.prefill(2), wanted, scene.width(), 5e-3).isEmpty());
  }

  /// A NaN in the cache is not hidden by maxima that pass over it.
  void brokenValuesAreSeen() {
    Random random(22);
    for (bool inKeys : {true, false}) {
      AttentionScene scene = makeScene(random, {2, 1, 64, true}, {40});
      (inKeys ? scene.k : scene.v)[0][5 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
      addLastRows(random, scene, 1);
      DeviceAttention device(scene);
      for (const Floats& y : {device.decode(1), device.decode(2), device.prefill(1)}) {
        QVERIFY(std::isnan(y[3]));
      }
    }
  }

  /// A step of decode in a graph: other lengths and other blocks, the same launches.
  void graphsReplayWithOtherLengths() {
    Random random(23);
    AttentionScene scene = makeScene(random, {4, 2, 64, false}, {300});
    addRow(random, scene, 0, 7);
    addRow(random, scene, 0, 120);
    DeviceAttention device(scene);
    const DeviceRows y(cuda::RowType::kFp32, 2, scene.width());
    device.params.y = y.view;
    const auto partials = filled<std::byte>(cuda::decodePartialBytes(device.params.heads, 2, 4));
    cuda::check(cudaStreamSynchronize(testStream()), "preparing");
    const cuda::Graph graph = cuda::Graph::capture(testStream(), [&] {
      cuda::decodeAttention(testStream(), device.params, 4, partials.data());
    });
    for (const std::vector<std::int32_t>& positions :
         {std::vector<std::int32_t>{7, 120}, std::vector<std::int32_t>{299, -1},
          std::vector<std::int32_t>{0, 64}}) {
      scene.positions = positions;
      cuda::copyToDevice(testStream(), const_cast<std::int32_t*>(device.params.step.positions),
                         positions.data(), 2 * sizeof(std::int32_t));
      graph.launch(testStream());
      COMPARE_ROWS(y.values(), referenceAttention(scene), scene.width());
    }
  }

  void splitsFillTheDevice() {
    const cuda::Heads heads{32, 8, 128};
    QCOMPARE(cuda::decodeSplits(heads, 1, 1, 132), 1);
    QCOMPARE(cuda::decodeSplits(heads, 1, 64, 132), 1);
    QCOMPARE(cuda::decodeSplits(heads, 1, 512, 132), 8);
    const int many = cuda::decodeSplits(heads, 1, 32768, 132);
    QVERIFY(many * 8 <= 132 * 3 && many * 8 > 132 * 2);
    QCOMPARE(cuda::decodeSplits(heads, 64, 32768, 132), 1);
    QCOMPARE(cuda::decodePartialBytes(heads, 2, 1), std::size_t{0});
    QCOMPARE(cuda::decodePartialBytes(heads, 2, 3), std::size_t{2 * 32 * 3 * 130 * 4});
  }

  void brokenArgumentsAreNamed() {
    Random random(24);
    AttentionScene scene = makeScene(random, {4, 2, 64, false}, {5});
    addLastRows(random, scene, 1);
    DeviceAttention device(scene);
    const DeviceRows y(cuda::RowType::kFp32, 1, scene.width());
    device.params.y = y.view;
    const auto refuses = [&](auto&& change) {
      cuda::AttentionParams params = device.params;
      change(params);
      bool decode = false, prefill = false;
      try {
        cuda::decodeAttention(testStream(), params, 1, nullptr);
      } catch (const cuda::CudaError&) {
        decode = true;
      }
      try {
        cuda::prefillAttention(testStream(), params, 0, 1, 4);
      } catch (const cuda::CudaError&) {
        prefill = true;
      }
      return decode && prefill;
    };
    QVERIFY(!refuses([](cuda::AttentionParams&) {}));
    QVERIFY(refuses([](cuda::AttentionParams& p) { p.heads.nHeads = 5; }));
    QVERIFY(refuses([](cuda::AttentionParams& p) { p.heads.headDim = p.kv.headDim = 60; }));
    QVERIFY(refuses([](cuda::AttentionParams& p) { p.heads.headDim = p.kv.headDim = 264; }));
    QVERIFY(refuses([](cuda::AttentionParams& p) { p.kv.blockSize = 8; }));
    QVERIFY(refuses([](cuda::AttentionParams& p) { p.kv.kOffset += 8; }));
    QVERIFY(refuses([](cuda::AttentionParams& p) { p.q += 1; }));
    QVERIFY(refuses([](cuda::AttentionParams& p) { p.y.type = cuda::RowType::kInt8; }));
    QVERIFY(refuses([](cuda::AttentionParams& p) { p.step.blocks = nullptr; }));
    QVERIFY_THROWS_EXCEPTION(cuda::CudaError,
                             cuda::decodeAttention(testStream(), device.params, 2, nullptr));
    QVERIFY_THROWS_EXCEPTION(cuda::CudaError,
                             cuda::prefillAttention(testStream(), device.params, 0, 2, 4));
  }

  /// More layers than one launch takes, of two shapes; the slots that are not copied stay.
  void copiedBlocks_data() {
    QTest::addColumn<int>("count");
    for (int count : {0, 1, 7, 15, 16}) QTest::addRow("%d slots", count) << count;
  }
  void copiedBlocks() {
    QFETCH(int, count);
    std::vector<cuda::KvLayer> layers;
    std::size_t bytes = 0;
    const auto take = [&bytes](std::size_t n) {
      const std::size_t at = bytes;
      bytes += (n + 15) / 16 * 16;
      return at;
    };
    for (int i = 0; i < 37; ++i) {
      cuda::KvLayer layer;
      layer.element = i % 2 == 0 ? KvElement::kFp16 : KvElement::kInt8;
      layer.nKvHeads = i % 3 + 1;
      layer.headDim = i % 2 == 0 ? 64 : 24;
      const std::size_t tokens = 16 * static_cast<std::size_t>(layer.nKvHeads);
      const std::size_t run = tokens * layer.headDim * (i % 2 == 0 ? 2 : 1);
      layer.kOffset = take(run);
      layer.vOffset = take(run);
      if (i % 2 != 0) layer.kScaleOffset = take(tokens * 4);
      if (i % 2 != 0) layer.vScaleOffset = take(tokens * 4);
      layers.push_back(layer);
    }
    Random random(25);
    std::vector<std::byte> from(bytes), to(bytes);
    for (std::byte& b : from) b = static_cast<std::byte>(random.next());
    for (std::byte& b : to) b = static_cast<std::byte>(random.next());
    const auto source = onDevice(from);
    const auto target = onDevice(to);
    cuda::copyBlock(testStream(), source.data(), target.data(), layers.data(), 37, count);

    std::vector<std::byte> wanted = to;
    for (const cuda::KvLayer& layer : layers) {
      const bool int8 = layer.element == KvElement::kInt8;
      const auto copyRun = [&](std::size_t offset, std::size_t slotBytes) {
        for (int h = 0; h < layer.nKvHeads; ++h) {
          const std::size_t first = offset + 16 * slotBytes * static_cast<std::size_t>(h);
          std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(first),
                      slotBytes * static_cast<std::size_t>(count),
                      wanted.begin() + static_cast<std::ptrdiff_t>(first));
        }
      };
      const std::size_t slotBytes = static_cast<std::size_t>(layer.headDim) * (int8 ? 1 : 2);
      copyRun(layer.kOffset, slotBytes);
      copyRun(layer.vOffset, slotBytes);
      if (int8) copyRun(layer.kScaleOffset, 4);
      if (int8) copyRun(layer.vScaleOffset, 4);
    }
    QVERIFY(toHost(target) == wanted);
    QVERIFY(toHost(source) == from);
  }
};

QTEST_APPLESS_MAIN(TestCudaAttention)
#include "tst_cuda_attention.moc"

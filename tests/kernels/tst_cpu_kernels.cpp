// What the operation table cannot see of the cpu kernels: that packed weights hold what they
// should, that products agree with the packed integers themselves, that bits do not depend on the
// number of rows, and that what lies beyond an output is left alone.
#include <QtTest>

#include <cmath>
#include <cstring>

#include "kernels/api/half.h"
#include "kernels/api/int8_weights.h"
#include "kernels/api/quantize.h"
#include "kernels/reference/dequantize.h"
#include "tests/kernels/cpu_ops.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
using namespace vitrine;
namespace cpu = vitrine::kernels::cpu;
using cpu::WeightFormat;

namespace {

std::vector<cpu::Isa> supported() {
  std::vector<cpu::Isa> all;
  for (cpu::Isa isa : {cpu::Isa::kPortable, cpu::Isa::kAvx2, cpu::Isa::kAvx512}) {
    if (cpu::isSupported(isa)) all.push_back(isa);
  }
  return all;
}

struct Kind {
  const char* name;
  TensorType file;
  WeightFormat format;
  int groupSize;
};
constexpr Kind kKinds[] = {
    {"F32", TensorType::kF32, WeightFormat::kF32, 32},
    {"F16", TensorType::kF16, WeightFormat::kF16, 32},
    {"BF16", TensorType::kBF16, WeightFormat::kBf16, 32},
    {"Q8_0", TensorType::kQ8_0, WeightFormat::kInt8, 32},
    {"Q4_0", TensorType::kQ4_0, WeightFormat::kQ4_0, 32},
    {"Q4_1", TensorType::kQ4_1, WeightFormat::kQ4_1, 32},
    {"INT8 of F32", TensorType::kF32, WeightFormat::kInt8, 32},
    {"INT8 of F32, groups of 64", TensorType::kF32, WeightFormat::kInt8, 64},
    {"INT8 of F32, groups of 128", TensorType::kF32, WeightFormat::kInt8, 128},
    {"INT8 of F32, a scale a row", TensorType::kF32, WeightFormat::kInt8, 0},
    {"INT8 of Q8_0, a scale a row", TensorType::kQ8_0, WeightFormat::kInt8, 0},
    {"INT8 of Q4_1", TensorType::kQ4_1, WeightFormat::kInt8, 32}};

/// W[r, c] as the packed bytes say, read by the description in packed_matrix.h.
double packedValue(const cpu::PackedMatrix& m, int r, int c) {
  const std::byte* tile = m.tile(r / 16);
  const int lane = r % 16;
  const auto half = [&](std::size_t index) {
    std::uint16_t bits;
    std::memcpy(&bits, tile + index * 2, 2);
    return static_cast<double>(kernels::halfToFloat(bits));
  };
  switch (m.format) {
    case WeightFormat::kF32: {
      float v;
      std::memcpy(&v, tile + (c * 16 + lane) * 4, 4);
      return v;
    }
    case WeightFormat::kF16:
      return half(static_cast<std::size_t>(c * 16 + lane));
    case WeightFormat::kBf16: {
      std::uint16_t bits;
      std::memcpy(&bits, tile + ((c / 2 * 16 + lane) * 2 + c % 2) * 2, 2);
      return kernels::bfloat16ToFloat(bits);
    }
    case WeightFormat::kInt8: {
      const int q = static_cast<int>(tile[m.dataOffset + (c / 4 * 16 + lane) * 4 + c % 4]) - 128;
      return half(static_cast<std::size_t>(c / 32 / m.groupsPerScale * 16 + lane)) * q *
             m.outputScale;
    }
    case WeightFormat::kQ4_0:
    case WeightFormat::kQ4_1:
      break;
  }
  const int in = c % 32;
  const int byte =
      static_cast<int>(tile[m.dataOffset + c / 32 * 256 + (in % 16 / 4 * 16 + lane) * 4 + in % 4]);
  const int q = in < 16 ? byte & 15 : byte >> 4;
  if (m.format == WeightFormat::kQ4_0)
    return half(static_cast<std::size_t>(c / 32 * 16 + lane)) * (q - 8);
  return half(static_cast<std::size_t>(c / 32 * 32 + lane)) * q +
         half(static_cast<std::size_t>(c / 32 * 32 + 16 + lane));
}

std::size_t fileRowBytes(TensorType type, int n) {
  const auto info = kernels::tensorTypeInfo(type);
  return static_cast<std::size_t>(n / info.blockValues) * info.blockBytes;
}

}  // namespace

class TestCpuKernels : public QObject {
  Q_OBJECT

 private slots:
  void packedWeightsHoldTheFile_data() {
    QTest::addColumn<int>("kind");
    int i = 0;
    for (const Kind& k : kKinds) QTest::newRow(k.name) << i++;
  }
  void packedWeightsHoldTheFile() {
    QFETCH(int, kind);
    const Kind& k = kKinds[kind];
    Random random(11);
    for (auto [rows, cols] : {std::pair{1, 32}, {16, 96}, {33, 576}, {50, 160}}) {
      const auto bytes = random.fileRows(k.file, rows, cols, 0.1F);
      const std::size_t rowBytes = fileRowBytes(k.file, cols);
      const PackedCopy packed({k.file, rows, cols, rowBytes, bytes.data()}, k.format, k.groupSize);
      const cpu::PackedMatrix& m = packed.matrix;
      QCOMPARE(m.tiles % 2, 0);
      QVERIFY(m.tiles * 16 >= rows && m.tileBytes % 64 == 0);
      Floats values(static_cast<std::size_t>(cols));
      const bool exact = k.format == cpu::nativeFormat(k.file) && k.groupSize == 32;
      const int group = k.groupSize == cpu::kWholeRow ? cols : k.groupSize;
      for (int r = 0; r < rows; ++r) {
        kernels::reference::dequantize(k.file, bytes.data() + rowBytes * r, values.data(), cols);
        for (int c = 0; c < cols; ++c) {
          double allowed = 0.0;
          if (!exact) {
            float largest = 0.0F;
            const int first = c / group * group;
            for (int j = first; j < std::min(first + group, cols); ++j) {
              largest = std::max(largest, std::fabs(values[j]));
            }
            allowed = largest / 127.0 * 0.5 * 1.002;  // half a step; FP16 scales are rounded up
          }
          const double got = packedValue(m, r, c);
          QVERIFY2(
              std::fabs(got - values[c]) <= allowed,
              qPrintable(
                  QString("row %1 column %2: %3, file %4").arg(r).arg(c).arg(got).arg(values[c])));
        }
      }
    }
  }

  void scalesOfAnySizeFit() {
    for (float size : {1e-30F, 1e-12F, 1e-6F, 1.0F, 1e6F, 1e30F}) {
      Random random(12);
      const Floats w = random.normals(64 * 16, size);
      const cpu::FileMatrix file{TensorType::kF32, 16, 64, 256,
                                 reinterpret_cast<const std::byte*>(w.data())};
      cpu::PackedMatrix m = cpu::planMatrix(file, WeightFormat::kInt8, 32);
      Floats row(64);
      std::vector<std::byte> out(m.tileBytes);
      const cpu::PackReport report = cpu::packTile(file, m, 0, out.data(), row.data());
      m.outputScale = vitrine::kernels::outputScaleFor(report.largestScale);
      cpu::packTile(file, m, 0, out.data(), row.data());
      m.data = out.data();
      for (int i = 0; i < 64 * 16; ++i) {
        QVERIFY(std::fabs(packedValue(m, i / 64, i % 64) - w[i]) <= size * 3.0 / 127.0);
      }
    }
  }

  void fp16OverflowIsReported() {
    Floats w(32 * 3, 1.0F);
    w[40] = 70000.0F;
    const cpu::FileMatrix file{TensorType::kF32, 3, 32, 128,
                               reinterpret_cast<const std::byte*>(w.data())};
    const cpu::PackedMatrix m = cpu::planMatrix(file, WeightFormat::kF16, 32);
    Floats row(32);
    std::vector<std::byte> out(m.tileBytes);
    QVERIFY(cpu::packTile(file, m, 0, out.data(), row.data()).overflowsFp16);
    w[40] = 65504.0F;
    QVERIFY(!cpu::packTile(file, m, 0, out.data(), row.data()).overflowsFp16);
  }

  void productsAgreeWithThePackedNumbers_data() {
    QTest::addColumn<int>("isa");
    QTest::addColumn<int>("kind");
    QTest::addColumn<bool>("int8");
    for (cpu::Isa isa : supported()) {
      int i = 0;
      for (const Kind& k : kKinds) {
        const bool integers = k.format >= WeightFormat::kInt8;
        for (bool int8 : {false, true}) {
          if (int8 && !integers) continue;
          QTest::newRow(qPrintable(
              QString("%1 %2%3").arg(cpu::shortName(isa), k.name, int8 ? " INT8 activations" : "")))
              << static_cast<int>(isa) << i << int8;
        }
        ++i;
      }
    }
  }
  void productsAgreeWithThePackedNumbers() {
    QFETCH(int, isa);
    QFETCH(int, kind);
    QFETCH(bool, int8);
    const cpu::CpuKernels& kernels = cpu::kernelsFor(static_cast<cpu::Isa>(isa));
    const Kind& k = kKinds[kind];
    Random random(13);
    for (auto [rows, out, in] : {std::tuple{1, 1, 32}, {1, 70, 96}, {13, 33, 576}, {31, 50, 160}}) {
      const auto bytes = random.fileRows(k.file, out, in, 0.1F);
      const PackedCopy packed({k.file, out, in, fileRowBytes(k.file, in), bytes.data()}, k.format,
                              k.groupSize);
      Floats x = random.normals(static_cast<std::size_t>(rows) * in);
      x[static_cast<std::size_t>(in / 2)] = 50.0F;  // an outlier in one group
      const Floats y = multiply(kernels, packed.matrix, x.data(), rows, int8);
      for (int r = 0; r < rows; ++r) {
        // What the kernel is meant to see of x: rounded to integers of its group.
        std::vector<double> seen(x.begin() + r * in, x.begin() + (r + 1) * in);
        if (k.format >= WeightFormat::kInt8) {
          const double limit = int8 ? 127.0 : 32512.0;
          const int width = int8 && packed.matrix.scalePerRow ? in : 32;
          for (int g = 0; g < in; g += width) {
            double largest = 0.0;
            for (int i = g; i < g + width; ++i) largest = std::max(largest, std::fabs(seen[i]));
            for (int i = g; i < g + width; ++i) {
              seen[i] = std::nearbyint(seen[i] / largest * limit) * largest / limit;
            }
          }
        }
        const bool roundsX = k.format == WeightFormat::kBf16 && kernels.dotsBf16;
        for (int o = 0; o < out; ++o) {
          double sum = 0.0, magnitude = 0.0, steps = 0.0;
          for (int c = 0; c < in; ++c) {
            const double w = packedValue(packed.matrix, o, c);
            sum += w * seen[c];
            magnitude += std::fabs(w * seen[c]);
            // A value on the edge between two integers may go to either.
            if (k.format >= WeightFormat::kInt8) steps = std::max(steps, std::fabs(w));
          }
          const double edge = steps * 4.0 / (int8 ? 127.0 : 32512.0) * 1.01;
          const double allowed =
              magnitude * (roundsX ? 4e-3 : 3e-6) + (int8 ? edge : edge * 3) + 1e-7;
          const double got = y[static_cast<std::size_t>(r) * out + o];
          QVERIFY2(
              std::fabs(got - sum) <= allowed,
              qPrintable(QString("%1 x %2 x %3, row %4 output %5: got %6, wanted %7, allowed %8")
                             .arg(rows)
                             .arg(out)
                             .arg(in)
                             .arg(r)
                             .arg(o)
                             .arg(got)
                             .arg(sum)
                             .arg(allowed)));
        }
      }
    }
  }

  void bitsDoNotDependOnTheNumberOfRows_data() { productsAgreeWithThePackedNumbers_data(); }
  void bitsDoNotDependOnTheNumberOfRows() {
    QFETCH(int, isa);
    QFETCH(int, kind);
    QFETCH(bool, int8);
    const cpu::CpuKernels& kernels = cpu::kernelsFor(static_cast<cpu::Isa>(isa));
    const Kind& k = kKinds[kind];
    Random random(14);
    const int out = 70, in = 192, most = 40;
    const auto bytes = random.fileRows(k.file, out, in, 0.1F);
    const PackedCopy packed({k.file, out, in, fileRowBytes(k.file, in), bytes.data()}, k.format,
                            k.groupSize);
    const Floats x = random.normals(static_cast<std::size_t>(most) * in);
    const Floats all = multiply(kernels, packed.matrix, x.data(), most, int8);
    for (int rows : {1, 2, 3, 5, 6, 7, 11, 12, 13, 24, 25, 39}) {
      const int first = most - rows;
      const Floats some = multiply(kernels, packed.matrix, x.data() + first * in, rows, int8);
      QVERIFY2(std::memcmp(some.data(), all.data() + first * out, some.size() * sizeof(float)) == 0,
               qPrintable(QString("%1 rows").arg(rows)));
    }
  }

  void outputsBeyondTheMatrixAreLeftAlone() {
    Random random(15);
    for (cpu::Isa isa : supported()) {
      for (const Kind& k : kKinds) {
        const cpu::CpuKernels& kernels = cpu::kernelsFor(isa);
        const int out = 19, in = 64, rows = 3, stride = 48;
        const auto bytes = random.fileRows(k.file, out, in, 0.1F);
        const PackedCopy packed({k.file, out, in, fileRowBytes(k.file, in), bytes.data()}, k.format,
                                k.groupSize);
        const Floats x = random.normals(static_cast<std::size_t>(rows) * in);
        const PreparedRows prepared(kernels, cpu::activationFormat(kernels, packed.matrix, false),
                                    x.data(), rows, in);
        Floats y(static_cast<std::size_t>(rows) * stride, 7.0F);
        const Floats plain = multiply(kernels, packed.matrix, x.data(), rows, false);
        kernels.matmul({&packed.matrix, 0, packed.matrix.tiles, &prepared.view, rows, y.data(),
                        stride, true, nullptr});
        for (int r = 0; r < rows; ++r) {
          for (int o = 0; o < stride; ++o) {
            const float wanted =
                o < out ? 7.0F + plain[static_cast<std::size_t>(r * out + o)] : 7.0F;
            QCOMPARE(y[static_cast<std::size_t>(r * stride + o)], wanted);
          }
        }
      }
    }
  }

  void kvIsQuantizedByTheSharedRule() {
    Random random(16);
    for (cpu::Isa isa : supported()) {
      for (float size : {1.0F, 1e-20F, 1e20F, 0.0F, 1e-40F}) {
        AttentionInput in;
        in.rows = in.length = 17;
        in.nHeads = in.nKvHeads = 2;
        in.headDim = 80;
        in.int8 = true;
        in.nBlocks = 2;
        in.blockTable = {1, 0};
        in.k = random.normals(17 * 2 * 80, size);
        in.v = random.normals(17 * 2 * 80, size);
        const KvCopy kv(cpu::kernelsFor(isa), in);
        for (int p = 0; p < 17; ++p) {
          for (int h = 0; h < 2; ++h) {
            const cpu::KvHead head = kv.head(h);
            const std::byte* at =
                head.pool + head.blockStride * in.blockTable[p / 16] + head.offset;
            std::int8_t q[80];
            float stored;
            const float sk = kernels::quantizeInt8(in.k.data() + (p * 2 + h) * 80, q, 80);
            for (int d = 0; d < 80; ++d) {
              QCOMPARE(static_cast<std::int8_t>(at[d * 16 + p % 16]), q[d]);
            }
            std::memcpy(&stored, at + 2 * 80 * 16 + (p % 16) * 4, 4);
            QCOMPARE(stored, sk);
            const float sv = kernels::quantizeInt8(in.v.data() + (p * 2 + h) * 80, q, 80);
            QVERIFY(std::memcmp(at + 80 * 16 + (p % 16) * 80, q, 80) == 0);
            std::memcpy(&stored, at + 2 * 80 * 16 + 64 + (p % 16) * 4, 4);
            QCOMPARE(stored, sv);
          }
        }
      }
    }
  }

  void attentionOfARowIsTheSameBitsAnywhere() {
    Random random(17);
    for (cpu::Isa isa : supported()) {
      const cpu::CpuKernels& k = cpu::kernelsFor(isa);
      for (bool int8 : {false, true}) {
        AttentionInput in;
        in.length = 600;
        in.rows = 20;
        in.nHeads = 6;
        in.nKvHeads = 2;
        in.headDim = 64;
        in.int8 = int8;
        in.nBlocks = 40;
        for (int b = 0; b < 38; ++b) in.blockTable.push_back((b * 7) % 38);
        in.k = random.normals(600 * 2 * 64);
        in.v = random.normals(600 * 2 * 64);
        in.q = random.normals(20 * 6 * 64);
        const KvCopy kv(k, in);
        Floats scratch(cpu::attentionScratchFloats(64));
        cpu::AttentionTask task;
        task.kv = kv.head(1);
        task.q = in.q.data() + 3 * 64;
        task.qStride = 6 * 64;
        task.rows = 20;
        task.heads = 3;
        task.firstPosition = 580;
        task.scale = 0.125F;
        task.scratch = scratch.data();
        Floats together(20 * 3 * 64);
        k.attend(task, together.data(), 3 * 64);
        // One row: by ranges, then merged, as decode does it.
        const int row = 11;
        task.q += static_cast<std::ptrdiff_t>(row) * task.qStride;
        task.rows = 1;
        task.firstPosition += row;
        const int partial = cpu::partialFloats(64);
        const int ranges = task.firstPosition / cpu::kAttentionRange + 1;
        Floats partials(static_cast<std::size_t>(ranges) * 3 * partial);
        for (int r = ranges - 1; r >= 0; --r) {
          k.attendRange(task, r, partials.data() + static_cast<std::ptrdiff_t>(r) * 3 * partial);
        }
        for (int h = 0; h < 3; ++h) {
          Floats out(64);
          k.mergeRanges(partials.data() + h * partial, 3 * partial, ranges, 64, out.data());
          QVERIFY(std::memcmp(out.data(), together.data() + (row * 3 + h) * 64, 256) == 0);
        }
      }
    }
  }
};

QTEST_APPLESS_MAIN(TestCpuKernels)
#include "tst_cpu_kernels.moc"

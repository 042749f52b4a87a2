// One table of cases a kernel operation; each case runs on every backend of the build. The
// reference is compared with the formula in double, the others with the reference.
#include <QtTest>

#include <cmath>
#include <numeric>

#include "tests/kernels/op_cases.h"
#include "tests/kernels/oracle.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
using vitrine::kernels::tensorTypeInfo;

Q_DECLARE_METATYPE(EmbeddingInput)
Q_DECLARE_METATYPE(RmsNormInput)
Q_DECLARE_METATYPE(LinearInput)
Q_DECLARE_METATYPE(Int8LinearInput)
Q_DECLARE_METATYPE(RopeInput)
Q_DECLARE_METATYPE(AttentionInput)
Q_DECLARE_METATYPE(GateInput)
Q_DECLARE_METATYPE(AddInput)
Q_DECLARE_METATYPE(SoftmaxInput)

namespace {

constexpr TensorType kTypes[] = {TensorType::kF32,  TensorType::kF16,  TensorType::kBF16,
                                 TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1};

const std::vector<OpBackend>& backends() {
  static const std::vector<OpBackend> all = opBackends();
  return all;
}

/// A row of the table for each backend that has the operation.
template <typename Input>
void addCase(std::function<Floats(const Input&)> OpBackend::*operation, const QString& name,
             const Input& input) {
  for (std::size_t b = 0; b < backends().size(); ++b) {
    if (!(backends()[b].*operation)) continue;
    const QString row = QString::fromStdString(backends()[b].name) + ": " + name;
    QTest::newRow(qPrintable(row)) << static_cast<int>(b) << input;
  }
}

template <typename Input>
void columns() {
  QTest::addColumn<int>("backend");
  QTest::addColumn<Input>("input");
}

/// |got − wanted| ≤ absolute + relative · magnitude, element by element; NaN fails.
void compare(const Floats& got, const std::vector<double>& wanted,
             const std::vector<double>& magnitude, double absolute, double relative) {
  QCOMPARE(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = absolute + relative * magnitude[i];
    if (std::fabs(got[i] - wanted[i]) <= allowed) continue;
    QFAIL(qPrintable(QString("element %1 of %2: got %3, wanted %4, allowed error %5")
                         .arg(i)
                         .arg(got.size())
                         .arg(got[i], 0, 'g', 9)
                         .arg(wanted[i], 0, 'g', 9)
                         .arg(allowed)));
  }
}

/// Runs the row's case on its backend and compares.
template <typename Input>
void check(std::function<Floats(const Input&)> OpBackend::*operation, double absolute,
           double relative) {
  QFETCH(int, backend);
  QFETCH(Input, input);
  const OpBackend& ops = backends()[backend];
  const Exact formula = exact(input);
  const Floats got = (ops.*operation)(input);
  if (ops.name == "reference") {
    compare(got, formula.value, formula.magnitude, absolute, relative);
    return;
  }
  const Floats reference = (referenceOps().*operation)(input);
  compare(got, {reference.begin(), reference.end()}, formula.magnitude, absolute, relative);
}

AttentionInput attentionInput(Random& random, int rows, int length, int nHeads, int nKvHeads,
                              int headDim, bool int8) {
  AttentionInput in;
  in.rows = rows;
  in.length = length;
  in.nHeads = nHeads;
  in.nKvHeads = nKvHeads;
  in.headDim = headDim;
  in.int8 = int8;
  in.scale = 1.0F / std::sqrt(static_cast<float>(headDim));
  // Blocks of the sequence lie in no order, with foreign blocks between them.
  const int used = (length + in.blockSize - 1) / in.blockSize;
  in.nBlocks = 2 * used + 1;
  std::vector<std::int32_t> blocks(in.nBlocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  for (int i = in.nBlocks - 1; i > 0; --i) std::swap(blocks[i], blocks[random.below(i + 1)]);
  in.blockTable.assign(blocks.begin(), blocks.begin() + used);
  const std::size_t kvSize = static_cast<std::size_t>(length) * nKvHeads * headDim;
  in.k = random.normals(kvSize);
  in.v = random.normals(kvSize);
  in.q = random.normals(static_cast<std::size_t>(rows) * nHeads * headDim);
  return in;
}

}  // namespace

class TestOperations : public QObject {
  Q_OBJECT

 private slots:
  void embedding_data() {
    columns<EmbeddingInput>();
    Random random(1);
    for (TensorType type : kTypes) {
      for (int dim : {32, 96, 576}) {
        EmbeddingInput in;
        in.type = type;
        in.vocab = 11;
        in.dim = dim;
        in.scale = dim == 96 ? 24.0F : 1.0F;
        in.table = random.fileRows(type, in.vocab, dim);
        in.tokens = {10, 0, 3, 3};
        addCase(&OpBackend::embedding, QString("%1 dim %2").arg(tensorTypeInfo(type).name).arg(dim),
                in);
      }
    }
  }
  void embedding() { check<EmbeddingInput>(&OpBackend::embedding, 1e-30, 2e-7); }

  void rmsNorm_data() {
    columns<RmsNormInput>();
    Random random(2);
    for (auto [rows, dim] : {std::pair{1, 1}, {1, 7}, {3, 64}, {2, 576}, {17, 1537}}) {
      RmsNormInput in;
      in.rows = rows;
      in.dim = dim;
      in.x = random.normals(static_cast<std::size_t>(rows) * dim, 3.0F);
      in.weight = random.normals(static_cast<std::size_t>(dim));
      addCase(&OpBackend::rmsNorm, QString("%1 x %2").arg(rows).arg(dim), in);
    }
    RmsNormInput zeros;
    zeros.rows = 1;
    zeros.dim = 32;
    zeros.x.assign(32, 0.0F);
    zeros.weight.assign(32, 1.0F);
    addCase(&OpBackend::rmsNorm, "zeros", zeros);
    RmsNormInput large = zeros;
    large.x = random.normals(32, 1e6F);
    addCase(&OpBackend::rmsNorm, "a million", large);
  }
  void rmsNorm() { check<RmsNormInput>(&OpBackend::rmsNorm, 1e-30, 1e-5); }

  void linear_data() {
    columns<LinearInput>();
    Random random(3);
    for (TensorType type : kTypes) {
      for (auto [rows, out, inputs] : {std::tuple{1, 1, 32},
                                       {1, 5, 64},
                                       {1, 33, 576},
                                       {2, 16, 96},
                                       {4, 48, 64},
                                       {7, 19, 1536},
                                       {33, 17, 160}}) {
        LinearInput in;
        in.rows = rows;
        in.out = out;
        in.in = inputs;
        in.type = type;
        in.weight = random.fileRows(type, out, inputs, 0.1F);
        in.x = random.normals(static_cast<std::size_t>(rows) * inputs);
        if (out % 2 == 1) in.bias = random.normals(static_cast<std::size_t>(out));
        addCase(&OpBackend::linear,
                QString("%1 %2 x %3 x %4")
                    .arg(tensorTypeInfo(type).name)
                    .arg(rows)
                    .arg(out)
                    .arg(inputs),
                in);
      }
    }
    // Sizes that are no multiple of anything; only plain types have such rows.
    for (auto [rows, out, inputs] : {std::tuple{1, 1, 1}, {3, 7, 13}, {2, 3, 47}}) {
      LinearInput in;
      in.rows = rows;
      in.out = out;
      in.in = inputs;
      in.weight = random.fileRows(TensorType::kF32, out, inputs);
      in.x = random.normals(static_cast<std::size_t>(rows) * inputs);
      addCase(&OpBackend::linear, QString("odd %1 x %2 x %3").arg(rows).arg(out).arg(inputs), in);
    }
  }
  void linear() {
    QFETCH(int, backend);
    check<LinearInput>(&OpBackend::linear, 1e-6, backends()[backend].linearTolerance);
  }

  void int8Linear_data() {
    columns<Int8LinearInput>();
    Random random(4);
    for (bool activations : {false, true}) {
      for (int group : {32, 64}) {
        for (auto [rows, out, inputs] : {std::tuple{1, 1, 32},
                                         {1, 33, 576},
                                         {2, 16, 96},
                                         {5, 48, 64},
                                         {7, 19, 1536},
                                         {33, 18, 160}}) {
          Int8LinearInput in;
          in.rows = rows;
          in.out = out;
          in.in = inputs;
          in.groupSize = group;
          in.int8Activations = activations;
          in.weight = random.normals(static_cast<std::size_t>(out) * inputs, 0.1F);
          in.x = random.normals(static_cast<std::size_t>(rows) * inputs);
          for (int i = 0; i < 32; ++i) in.weight[i] = 0.0F;  // a group of zeros
          in.x[inputs / 2] = 300.0F;                         // an outlier
          if (out % 2 == 1) in.bias = random.normals(static_cast<std::size_t>(out));
          addCase(&OpBackend::int8Linear,
                  QString("%1 group %2, %3 x %4 x %5")
                      .arg(activations ? "W8A8" : "W8A16")
                      .arg(group)
                      .arg(rows)
                      .arg(out)
                      .arg(inputs),
                  in);
        }
      }
    }
  }
  void int8Linear() {
    QFETCH(int, backend);
    QFETCH(Int8LinearInput, input);
    const OpBackend& ops = backends()[backend];
    const bool wide = input.int8Activations && input.groupSize == 64;
    check<Int8LinearInput>(&OpBackend::int8Linear, 1e-6,
                           wide ? ops.int8Linear64Tolerance : ops.int8LinearTolerance);
  }

  void rope_data() {
    columns<RopeInput>();
    Random random(5);
    for (bool halves : {false, true}) {
      const QString style = halves ? "halves" : "interleaved";
      const auto make = [&](int rows, int nHeads, int headDim, int dims) {
        RopeInput in;
        in.rows = rows;
        in.nHeads = nHeads;
        in.headDim = headDim;
        in.dims = dims;
        in.halves = halves;
        in.x = random.normals(static_cast<std::size_t>(rows) * nHeads * headDim);
        for (int r = 0; r < rows; ++r) in.positions.push_back(r == 0 ? 0 : 977 * r + 3);
        return in;
      };
      addCase(&OpBackend::rope, style + " one pair", make(2, 1, 2, 2));
      addCase(&OpBackend::rope, style + " 9 heads of 64", make(5, 9, 64, 64));
      addCase(&OpBackend::rope, style + " part of a head", make(3, 2, 80, 32));
      RopeInput scaled = make(3, 3, 64, 64);
      scaled.linearScale = 4.0F;
      scaled.base = 100000.0F;
      addCase(&OpBackend::rope, style + " linear scale", scaled);
      RopeInput factors = make(4, 2, 32, 32);
      for (int i = 0; i < 16; ++i) factors.freqFactors.push_back(1.0F + 0.5F * i);
      addCase(&OpBackend::rope, style + " frequency factors", factors);
    }
  }
  void rope() { check<RopeInput>(&OpBackend::rope, 1e-6, 2e-4); }

  void attention_data() {
    columns<AttentionInput>();
    Random random(6);
    for (bool int8 : {false, true}) {
      const QString type = int8 ? "int8" : "fp16";
      for (auto [rows, length, nHeads, nKvHeads, headDim] : {std::tuple{1, 1, 1, 1, 16},
                                                             {1, 15, 4, 2, 32},
                                                             {1, 16, 9, 3, 64},
                                                             {1, 17, 9, 3, 64},
                                                             {1, 257, 9, 3, 64},
                                                             {5, 5, 4, 4, 32},
                                                             {16, 33, 8, 1, 64},
                                                             {40, 100, 6, 2, 128},
                                                             {3, 50, 14, 2, 80}}) {
        addCase(&OpBackend::attention,
                QString("%1 %2 rows of %3, %4/%5 heads of %6")
                    .arg(type)
                    .arg(rows)
                    .arg(length)
                    .arg(nHeads)
                    .arg(nKvHeads)
                    .arg(headDim),
                attentionInput(random, rows, length, nHeads, nKvHeads, headDim, int8));
      }
      AttentionInput window = attentionInput(random, 20, 70, 4, 2, 32, int8);
      window.window = 24;
      addCase(&OpBackend::attention, type + " sliding window", window);
      AttentionInput capped = attentionInput(random, 3, 40, 4, 2, 32, int8);
      capped.softcap = 2.0F;
      capped.scale = 1.0F;
      addCase(&OpBackend::attention, type + " softcap", capped);
      AttentionInput blocks = attentionInput(random, 4, 70, 4, 2, 32, int8);
      blocks.blockSize = 32;
      blocks.blockTable = {6, 2, 4};
      addCase(&OpBackend::attention, type + " blocks of 32", blocks);
      AttentionInput large = attentionInput(random, 2, 20, 4, 2, 32, int8);
      for (float& v : large.v) v *= 1e5F;  // beyond FP16
      addCase(&OpBackend::attention, type + " values beyond FP16", large);
      AttentionInput zeros = attentionInput(random, 2, 20, 4, 2, 32, int8);
      zeros.k.assign(zeros.k.size(), 0.0F);
      zeros.v.assign(zeros.v.size(), 0.0F);
      addCase(&OpBackend::attention, type + " zeros", zeros);
    }
  }
  void attention() {
    QFETCH(int, backend);
    QFETCH(AttentionInput, input);
    const OpBackend& ops = backends()[backend];
    check<AttentionInput>(&OpBackend::attention, 1e-6,
                          input.int8 ? ops.int8AttentionTolerance : ops.attentionTolerance);
  }

  void gate_data() {
    columns<GateInput>();
    Random random(7);
    for (bool gelu : {false, true}) {
      for (int n : {1, 15, 1537}) {
        GateInput in;
        in.gelu = gelu;
        in.gate = random.normals(static_cast<std::size_t>(n), 3.0F);
        in.up = random.normals(static_cast<std::size_t>(n));
        addCase(&OpBackend::gate, QString("%1 %2").arg(gelu ? "gelu" : "silu").arg(n), in);
      }
      GateInput ends;
      ends.gelu = gelu;
      ends.gate = {-1e30F, -1000.0F, -100.0F, -20.0F, -0.0F, 0.0F, 20.0F, 100.0F, 1000.0F};
      ends.up.assign(ends.gate.size(), 1.0F);
      if (gelu) ends.gate.front() = -1e10F;
      addCase(&OpBackend::gate, QString("%1 ends").arg(gelu ? "gelu" : "silu"), ends);
    }
  }
  void gate() { check<GateInput>(&OpBackend::gate, 1e-6, 1e-5); }

  void add_data() {
    columns<AddInput>();
    Random random(8);
    for (int n : {1, 31, 576}) {
      AddInput in;
      in.y = random.normals(static_cast<std::size_t>(n));
      in.x = random.normals(static_cast<std::size_t>(n), 100.0F);
      addCase(&OpBackend::add, QString::number(n), in);
    }
  }
  void add() { check<AddInput>(&OpBackend::add, 1e-30, 1e-7); }

  void softmax_data() {
    columns<SoftmaxInput>();
    Random random(9);
    for (int n : {1, 2, 100, 4099}) {
      SoftmaxInput in;
      in.x = random.normals(static_cast<std::size_t>(n), 4.0F);
      addCase(&OpBackend::softmax, QString::number(n), in);
    }
    SoftmaxInput far;
    far.x = {-3e38F, 1e4F, 1e4F, -std::numeric_limits<float>::infinity()};
    addCase(&OpBackend::softmax, "far apart", far);
  }
  void softmax() { check<SoftmaxInput>(&OpBackend::softmax, 1e-7, 1e-5); }

  void everyBackendIsThere() {
    QVERIFY(!backends().empty());
    QCOMPARE(backends().front().name, std::string("reference"));
  }
};

QTEST_APPLESS_MAIN(TestOperations)
#include "tst_operations.moc"

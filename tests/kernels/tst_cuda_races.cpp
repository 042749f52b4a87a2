// Small cases of every CUDA kernel, for ThreadSanitizer: with each CUDA thread a fiber that it
// knows, it reports a missing barrier, a race between blocks, a lost update
// (tests/cuda_on_cpu/README.md). Values are compared too, loosely: the other tests do that well.
#include <QtTest>

#include <cmath>
#include <numeric>

#include "kernels/cuda/logits.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/rows.h"
#include "tests/kernels/cuda_linear_ops.h"
#include "tests/kernels/cuda_ops.h"
#include "tests/kernels/random_data.h"

using namespace vitrine::test;
namespace cuda = vitrine::kernels::cuda;
using cuda::RowType;
using vitrine::kernels::KvElement;

namespace {

const OpBackend& ops() {
  static const OpBackend all = cudaOps();
  return all;
}

/// Runs an operation on `cuda` and on the reference.
template <typename Input>
void compare(std::function<Floats(const Input&)> OpBackend::*operation, const Input& input,
             float tolerance, const OpBackend& backend = ops()) {
  const Floats got = (backend.*operation)(input);
  const Floats wanted = (referenceOps().*operation)(input);
  QCOMPARE(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    QVERIFY2(
        std::fabs(got[i] - wanted[i]) <= tolerance * (1.0F + std::fabs(wanted[i])),
        qPrintable(QString("element %1: got %2, wanted %3").arg(i).arg(got[i]).arg(wanted[i])));
  }
}

/// Every form of rows.
constexpr std::pair<RowType, int> kForms[] = {
    {RowType::kFp32, 0},  {RowType::kFp16, 0},   {RowType::kBf16, 0}, {RowType::kInt8, 32},
    {RowType::kInt8, 64}, {RowType::kInt8, 128}, {RowType::kInt8, 0}};

}  // namespace

class TestCudaRaces : public QObject {
  Q_OBJECT

 private slots:
  void embedding() {
    Random random(1);
    for (TensorType type : {TensorType::kF16, TensorType::kQ8_0, TensorType::kQ4_1}) {
      EmbeddingInput in;
      in.type = type;
      in.vocab = 3;
      in.dim = 160;
      in.table = random.fileRows(type, in.vocab, in.dim);
      in.tokens = {2, 2};
      compare(&OpBackend::embedding, in, 1e-5F);
    }
  }

  void rowsOfEveryForm() {
    Random random(2);
    for (int width : {70, 1100}) {
      const Floats x = random.normals(static_cast<std::size_t>(2 * width));
      const auto input = onDevice(x);
      const auto weight = onDevice(random.normals(static_cast<std::size_t>(width)));
      for (auto [type, group] : kForms) {
        const DeviceRows converted(type, 2, width, group);
        cuda::convertRows(testStream(), input.data(), width, width, 2, converted.view);
        const Floats got = converted.values();
        QVERIFY(std::fabs(got[1] - x[1]) < 0.05F);
        const DeviceRows normed(type, 2, width, group);
        cuda::rmsNorm(testStream(),
                      {input.data(), nullptr, weight.data(), 2, width, 1e-5F, normed.view});
        const DeviceRows gated(type, 1, width, group);
        cuda::gate(testStream(), {input.data(), 1, width, false, gated.view});
        for (float v : normed.values()) QVERIFY(std::isfinite(v));
        for (float v : gated.values()) QVERIFY(std::isfinite(v));
      }
    }
  }

  void staticRowsWithOutliers() {
    Random random(8);
    constexpr int kWidth = 1100, kRows = 3, kColumns = 70;
    const auto input = onDevice(random.normals(static_cast<std::size_t>(2 * kRows * kWidth)));
    const auto weight = onDevice(random.normals(kWidth));
    std::vector<std::int32_t> columns;
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(cuda::roundUp(kWidth, 64) / 32), 0);
    for (int i = 0; i < kColumns; ++i) {
      columns.push_back(15 * i);
      bits[static_cast<std::size_t>(15 * i / 32)] |= 1U << (15 * i % 32);
    }
    const auto onDeviceColumns = onDevice(columns);
    const auto onDeviceBits = onDevice(bits);
    const auto values = filled<std::uint16_t>(std::size_t{kRows} * 128);
    const auto use = onDevice(std::vector<cuda::StaticUse>{{}});
    const DeviceRows y(RowType::kInt8, kRows, kWidth, 64);
    for (const float scale : {0.01F, 0.0F}) {
      cuda::Rows to = y.view;
      to.staticScale = scale;
      to.use = use.data();
      to.outliers = {kColumns, 128, onDeviceColumns.data(), onDeviceBits.data(), values.data()};
      cuda::convertRows(testStream(), input.data(), kWidth, kWidth, kRows, to);
      cuda::rmsNorm(testStream(), {input.data(), nullptr, weight.data(), kRows, kWidth, 1e-5F, to});
      cuda::gate(testStream(), {input.data(), kRows, kWidth, false, to});
      for (float v : y.values()) QVERIFY(std::isfinite(v));
    }
    QCOMPARE(std::size_t{toHost(use).front().values}, std::size_t{3} * kRows * (kWidth - kColumns));
  }

  void ropeAndAppend() {
    Random random(3);
    for (auto element : {KvElement::kFp16, KvElement::kInt8}) {
      for (int headDim : {64, 80, 256}) {
        DeviceCache cache(element, 16, 2, headDim, 2);
        cuda::RopeAppendParams p;
        p.heads = {4, 2, headDim};
        p.pairs = headDim / 2;
        p.halves = true;
        p.step = cache.step({15, 16, -1}, {0, 0, 0}, {{1, 0}});
        p.kv = cache.layer;
        const auto qkv = onDevice(random.normals(static_cast<std::size_t>(3 * p.heads.qkvDim())));
        const auto norm = onDevice(Floats(static_cast<std::size_t>(headDim), 1.0F));
        const std::vector<double> turns(static_cast<std::size_t>(p.pairs), 0.125);
        const auto turnsOnDevice = onDevice(turns);
        const auto angles = filled<float2>(static_cast<std::size_t>(3 * p.pairs));
        p.qkv = qkv.data();
        p.qNorm = norm.data();
        p.kNorm = norm.data();
        p.angles = angles.data();
        cuda::ropeAngles(testStream(), p.step.positions, turnsOnDevice.data(), 3, p.pairs,
                         angles.data());
        cuda::ropeAppend(testStream(), p);
        for (float v : toHost(qkv)) QVERIFY(std::isfinite(v));
      }
    }
  }

  void logits() {
    Random random(4);
    constexpr int kVocab = 4200;  // two tiles
    Floats x = random.normals(kVocab);
    for (float& v : x) v = std::round(4.0F * v);  // many ties
    const auto device = onDevice(x);
    const auto scratch = filled<std::byte>(cuda::bestTokensScratchBytes(1, kVocab, 64));
    for (int k : {1, 20, 64}) {
      const auto out = filled<cuda::Candidate>(static_cast<std::size_t>(k));
      cuda::bestTokens(testStream(), device.data(), 1, kVocab, k, out.data(), scratch.data());
      QCOMPARE(toHost(out).front().id,
               static_cast<int>(std::max_element(x.begin(), x.end()) - x.begin()));
    }
    cuda::softcap(testStream(), device.data(), kVocab, 5.0F);
    for (float v : toHost(device)) QVERIFY(std::fabs(v) <= 5.0F);
  }

  void products() {
    if (!ops().linear) QSKIP("no products yet");
    Random random(5);
    for (TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16}) {
      for (int rows : {1, 3, 9}) {
        LinearInput in;
        in.rows = rows;
        in.out = 18;
        in.in = 96;
        in.type = type;
        in.weight = random.fileRows(type, in.out, in.in, 0.1F);
        in.x = random.normals(static_cast<std::size_t>(rows * in.in));
        compare(&OpBackend::linear, in, 0.02F);
      }
    }
    for (bool activations : {false, true}) {
      for (int rows : {1, 3, 9}) {
        for (int group : {32, 64, 128}) {
          Int8LinearInput in;
          in.rows = rows;
          in.out = 18;
          in.in = 160;
          in.groupSize = group;
          in.int8Activations = activations;
          in.weight = random.normals(static_cast<std::size_t>(in.out * in.in), 0.1F);
          in.x = random.normals(static_cast<std::size_t>(rows * in.in));
          compare(&OpBackend::int8Linear, in, 0.05F);
        }
      }
    }
  }

  // Warps of a block that share an output.
  void sharedProducts() {
    Random random(7);
    constexpr int kOut = 4, kIn = 2100;
    const Floats w = random.normals(kOut * kIn, 0.1F), x = random.normals(3 * kIn);
    const DeviceRows rows = deviceRows(RowType::kFp16, x, 3, kIn);
    for (int group : {0, 64}) {
      const DeviceMatrix matrix(cuda::WeightFormat::kInt8, group, w, kOut, kIn);
      const Floats y = multiply(matrix, rows, 3);
      const Floats gated = multiplyGated(matrix, rows, 3, false, RowType::kFp32);
      for (int r = 0; r < 3; ++r) {
        float sum = 0.0F;
        for (int i = 0; i < kIn; ++i) sum += x[r * kIn + i] * matrix.values[i];
        QVERIFY(std::fabs(y[r * kOut] - sum) < 0.01F);
        const float wanted = y[r * kOut] / (1.0F + std::exp(-y[r * kOut])) * y[r * kOut + 2];
        QVERIFY(std::fabs(gated[r * 64] - wanted) < 1e-4F);
      }
    }
  }

  void attention() {
    if (!ops().attention) QSKIP("no attention yet");
    Random random(6);
    for (bool int8 : {false, true}) {
      for (auto [rows, length, nHeads, nKvHeads, headDim] :
           {std::tuple{1, 33, 4, 2, 64},
            {1, 17, 3, 1, 80},
            {9, 20, 4, 1, 128},
            {1, 291, 2, 1, 64}}) {  // one split: several chunks of each warp
        AttentionInput in;
        in.rows = rows;
        in.length = length;
        in.nHeads = nHeads;
        in.nKvHeads = nKvHeads;
        in.headDim = headDim;
        in.int8 = int8;
        in.scale = 1.0F / std::sqrt(static_cast<float>(headDim));
        in.nBlocks = (length + in.blockSize - 1) / in.blockSize + 1;
        for (int b = in.nBlocks - 1; b > 0; --b) in.blockTable.push_back(b);
        const std::size_t kv = static_cast<std::size_t>(length * nKvHeads * headDim);
        in.k = random.normals(kv);
        in.v = random.normals(kv);
        in.q = random.normals(static_cast<std::size_t>(rows * nHeads * headDim));
        compare(&OpBackend::attention, in, 0.03F);
        compare(&OpBackend::attention, in, 0.03F, cudaDecodeOps());
      }
    }
  }
};

QTEST_APPLESS_MAIN(TestCudaRaces)
#include "tst_cuda_races.moc"

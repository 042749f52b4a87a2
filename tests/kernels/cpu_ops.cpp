#include "tests/kernels/cpu_ops.h"

#include <cmath>
#include <cstring>

namespace vitrine::test {

namespace cpu = kernels::cpu;

namespace {

std::byte* aligned(std::vector<std::byte>& memory, std::size_t bytes) {
  memory.resize(bytes + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (64 - address % 64) % 64;
}

void addBias(Floats& y, const Floats& bias) {
  for (std::size_t i = 0; i < y.size() && !bias.empty(); ++i) y[i] += bias[i % bias.size()];
}

Floats rope(const cpu::CpuKernels& k, const RopeInput& in) {
  Floats x = in.x;
  const int pairs = in.dims / 2;
  Floats cosines(static_cast<std::size_t>(in.dims)), sines(cosines);
  for (int r = 0; r < in.rows; ++r) {
    for (int i = 0; i < pairs; ++i) {
      double f = std::pow(static_cast<double>(in.base), -2.0 * i / in.dims) / in.linearScale;
      if (!in.freqFactors.empty()) f /= in.freqFactors[i];
      const int first = in.halves ? i : 2 * i;
      const int second = in.halves ? i + pairs : 2 * i + 1;
      cosines[first] = cosines[second] = static_cast<float>(std::cos(in.positions[r] * f));
      sines[second] = static_cast<float>(std::sin(in.positions[r] * f));
      sines[first] = -sines[second];
    }
    for (int h = 0; h < in.nHeads; ++h) {
      float* head = x.data() + (static_cast<std::ptrdiff_t>(r) * in.nHeads + h) * in.headDim;
      k.rope(head, cosines.data(), sines.data(), in.dims, in.halves);
    }
  }
  return x;
}

Floats attention(const cpu::CpuKernels& k, const AttentionInput& in) {
  const KvCopy kv(k, in);
  Floats scratch(cpu::attentionScratchFloats(in.headDim));
  Floats y(in.q.size());
  const int group = in.nHeads / in.nKvHeads;
  const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(in.nHeads) * in.headDim;
  const int tile = cpu::kAttentionRows / group;
  for (int h = 0; h < in.nKvHeads; ++h) {
    for (int row = 0; row < in.rows; row += tile) {
      const std::ptrdiff_t first =
          row * stride + static_cast<std::ptrdiff_t>(h) * group * in.headDim;
      cpu::AttentionTask task;
      task.kv = kv.head(h);
      task.q = in.q.data() + first;
      task.qStride = stride;
      task.rows = std::min(tile, in.rows - row);
      task.heads = group;
      task.firstPosition = in.length - in.rows + row;
      task.scale = in.scale;
      task.softcap = in.softcap;
      task.window = in.window;
      task.scratch = scratch.data();
      k.attend(task, y.data() + first, stride);
    }
  }
  return y;
}

}  // namespace

PackedCopy::PackedCopy(const cpu::FileMatrix& from, cpu::WeightFormat format, int groupSize,
                       bool oneScale)
    : matrix(cpu::planMatrix(from, format, groupSize)) {
  std::byte* data = aligned(memory, matrix.bytes());
  matrix.data = data;
  Floats row(cpu::packScratchFloats(from));
  for (int t = 0; oneScale && t < matrix.tiles; ++t) {
    matrix.tensorLargest = std::max(matrix.tensorLargest, cpu::tileLargest(from, t, row.data()));
  }
  for (int t = 0; t < matrix.tiles; ++t) {
    cpu::packTile(from, matrix, t, data + matrix.tileBytes * static_cast<std::size_t>(t),
                  row.data());
  }
}

PreparedRows::PreparedRows(const cpu::CpuKernels& k, cpu::ActivationFormat format, const float* x,
                           int rows, int width, float fixedScale, kernels::Int8Use* use) {
  view.format = format;
  view.groups = (width + cpu::kGroup - 1) / cpu::kGroup;
  view.rowBytes = cpu::activationRowBytes(format, view.groups);
  const auto groups = static_cast<std::size_t>(rows) * view.groups;
  view.data = aligned(data, view.rowBytes * static_cast<std::size_t>(rows));
  scales.resize(groups);
  sums.resize(groups);
  offsets.resize(groups);
  view.scales = scales.data();
  view.sums = sums.data();
  view.offsets = offsets.data();
  view.fixedScale = fixedScale;
  view.use = use;
  for (int r = 0; r < rows; ++r)
    k.prepare(x + static_cast<std::ptrdiff_t>(r) * width, width, view, r);
}

Floats multiply(const cpu::CpuKernels& k, const cpu::PackedMatrix& weights, const float* x,
                int rows, bool int8Activations, float fixedScale) {
  const PreparedRows prepared(k, cpu::activationFormat(k, weights, int8Activations), x, rows,
                              weights.cols, fixedScale);
  Floats y(static_cast<std::size_t>(rows) * weights.rows);
  Floats panel(static_cast<std::size_t>(weights.groups) * cpu::kGroup * 2 * cpu::kTileRows);
  k.matmul({&weights, 0, weights.tiles, &prepared.view, rows, y.data(), weights.rows, false,
            panel.data()});
  return y;
}

KvCopy::KvCopy(const cpu::CpuKernels& k, const AttentionInput& in)
    : input(in), headBytes(cpu::kvHeadBytes(in.headDim, in.blockSize, in.int8)) {
  pool.assign(headBytes * in.nKvHeads * in.nBlocks + 64, std::byte{0xFF});
  for (int p = 0; p < in.length; ++p) {
    for (int h = 0; h < in.nKvHeads; ++h) {
      const std::ptrdiff_t at = (static_cast<std::ptrdiff_t>(p) * in.nKvHeads + h) * in.headDim;
      k.kvStore(head(h), p, in.k.data() + at, in.v.data() + at);
    }
  }
}

cpu::KvHead KvCopy::head(int kvHead) const {
  return {const_cast<std::byte*>(pool.data()),
          headBytes * input.nKvHeads,
          headBytes * kvHead,
          input.blockTable.data(),
          input.blockSize,
          input.headDim,
          input.int8};
}

OpBackend cpuOps(cpu::Isa isa) {
  const cpu::CpuKernels& k = cpu::kernelsFor(isa);
  OpBackend ops;
  ops.name = std::string("cpu ") + cpu::nameOf(isa);
  ops.rmsNorm = [&k](const RmsNormInput& in) {
    Floats y(in.x.size());
    for (int r = 0; r < in.rows; ++r) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r) * in.dim;
      k.rmsNorm(in.x.data() + at, in.weight.data(), y.data() + at, in.dim, in.eps);
    }
    return y;
  };
  ops.linear = [&k](const LinearInput& in) {
    const cpu::FileMatrix file{in.type, in.out, in.in,
                               in.weight.size() / static_cast<std::size_t>(in.out),
                               in.weight.data()};
    const PackedCopy packed(file, cpu::nativeFormat(in.type));
    Floats y = multiply(k, packed.matrix, in.x.data(), in.rows, false);
    addBias(y, in.bias);
    return y;
  };
  ops.int8Linear = [&k](const Int8LinearInput& in) {
    const cpu::FileMatrix file{TensorType::kF32, in.out, in.in,
                               static_cast<std::size_t>(in.in) * sizeof(float),
                               reinterpret_cast<const std::byte*>(in.weight.data())};
    const PackedCopy packed(file, cpu::WeightFormat::kInt8, in.groupSize);
    Floats y = multiply(k, packed.matrix, in.x.data(), in.rows, in.int8Activations);
    addBias(y, in.bias);
    return y;
  };
  ops.rope = [&k](const RopeInput& in) { return rope(k, in); };
  ops.hadamard = [&k](const HadamardInput& in) {
    Floats x = in.x;
    for (int r = 0; r < in.rows; ++r) k.hadamard(x.data() + r * in.headDim, in.headDim);
    return x;
  };
  ops.attention = [&k](const AttentionInput& in) { return attention(k, in); };
  ops.gate = [&k](const GateInput& in) {
    Floats y(in.gate.size());
    const auto run = in.gelu ? k.geglu : k.swiglu;
    run(in.gate.data(), in.up.data(), y.data(), static_cast<int>(y.size()));
    return y;
  };
  // BF16 weights take activations rounded to 8 bits, a unit of 2^-8 each; INT8 and 4-bit weights
  // integers of 16 bits, one scale for 32.
  ops.linearTolerance = 3e-3;
  // The scales of INT8 groups are FP16 here, rounded up: other integers than the reference's.
  // Activations have groups of 32 even where weights have 64, so an outlier of 300 spoils fewer
  // values. tst_cpu_kernels compares with the integers themselves.
  ops.int8LinearTolerance = 2e-2;
  ops.int8Linear64Tolerance = 0.3;
  ops.attentionTolerance = 1e-5;
  ops.int8AttentionTolerance = 1e-5;
  return ops;
}

}  // namespace vitrine::test

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

#include "engine/backend/cuda/kv_pool.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/rows.h"
#include "tests/device/measures.h"
#include "tests/device/probe.h"
#include "tests/device/stopwatch.h"

namespace vitrine::device {

namespace gpu = kernels::cuda;
using kernels::KvElement;

namespace {

constexpr int kBlockSize = 16;
constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20;

template <typename T>
gpu::DeviceBuffer<T> upload(cudaStream_t stream, const std::vector<T>& values) {
  gpu::DeviceBuffer<T> buffer(values.size());
  gpu::copyToDevice(stream, buffer.data(), values.data(), buffer.bytes());
  gpu::check(cudaStreamSynchronize(stream), "waiting for the device");
  return buffer;
}

template <typename T>
gpu::DeviceBuffer<T> zeros(cudaStream_t stream, std::size_t n) {
  gpu::DeviceBuffer<T> buffer(n);
  gpu::check(cudaMemsetAsync(buffer.data(), 0, buffer.bytes(), stream), "clearing memory");
  gpu::check(cudaStreamSynchronize(stream), "waiting for the device");
  return buffer;
}

/// One layer's cache of one sequence and a query row at its end, heads as in the 8B shape.
class LongContext {
 public:
  LongContext(int length, KvElement element, bool shuffled, bool tiny)
      : m_stream(gpu::Stream::make()) {
    m_params.heads = tiny ? gpu::Heads{4, 2, 32} : gpu::Heads{32, 8, 128};
    const gpu::Heads heads = m_params.heads;
    const std::size_t rows = static_cast<std::size_t>(heads.nKvHeads) * kBlockSize;
    const std::size_t values =
        rows * static_cast<std::size_t>(heads.headDim) * (element == KvElement::kInt8 ? 1 : 2);
    const std::size_t scales = element == KvElement::kInt8 ? rows * sizeof(float) : 0;
    m_params.kv = {0,       values,     2 * values,     2 * values + scales,
                   element, kBlockSize, heads.nKvHeads, heads.headDim};
    const std::size_t blockBytes = 2 * (values + scales);
    const int nBlocks = (length + kBlockSize - 1) / kBlockSize;
    m_blocks = zeros<std::byte>(m_stream.get(), blockBytes * static_cast<std::size_t>(nBlocks));
    std::vector<int> order(static_cast<std::size_t>(nBlocks));
    std::iota(order.begin(), order.end(), 0);
    if (shuffled) std::shuffle(order.begin(), order.end(), std::mt19937(1));
    std::vector<std::byte*> table;
    for (const int block : order) {
      table.push_back(m_blocks.data() + blockBytes * static_cast<std::size_t>(block));
    }
    m_table = upload(m_stream.get(), table);
    m_positions = upload(m_stream.get(), std::vector<std::int32_t>{length - 1});
    m_sequences = upload(m_stream.get(), std::vector<std::int32_t>{0});
    m_q = zeros<float>(m_stream.get(), static_cast<std::size_t>(heads.qDim()));
    m_y = zeros<float>(m_stream.get(),
                       static_cast<std::size_t>(gpu::roundUp(heads.qDim(), gpu::kColumnPad)));
    cudaDeviceProp properties{};
    gpu::check(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's properties");
    m_splits = gpu::decodeSplits(heads, 1, length, properties.multiProcessorCount);
    m_partials = gpu::DeviceBuffer<std::byte>(gpu::decodePartialBytes(heads, 1, m_splits));
    m_params.q = m_q.data();
    m_params.qStride = heads.qDim();
    m_params.scale = 0.1F;
    m_params.step = {1, m_positions.data(), m_sequences.data(), m_table.data(), nBlocks};
    m_params.y.values = m_y.data();
    m_params.y.stride = gpu::roundUp(heads.qDim(), gpu::kColumnPad);
    m_bytes = static_cast<double>(blockBytes) * nBlocks;
  }

  double seconds(int repeats) {
    constexpr int kLaunches = 20;
    return medianSeconds(repeats,
                         [&] {
                           for (int i = 0; i < kLaunches; ++i) {
                             gpu::decodeAttention(m_stream.get(), m_params, m_splits,
                                                  m_partials.data());
                           }
                           m_stream.synchronize();
                         }) /
           kLaunches;
  }
  double bytes() const { return m_bytes; }

 private:
  gpu::Stream m_stream;
  gpu::AttentionParams m_params;
  gpu::DeviceBuffer<std::byte> m_blocks, m_partials;
  gpu::DeviceBuffer<std::byte*> m_table;
  gpu::DeviceBuffer<std::int32_t> m_positions, m_sequences;
  gpu::DeviceBuffer<float> m_q, m_y;
  int m_splits = 1;
  double m_bytes = 0;
};

void measureAttention(const BenchOptions& options, const Limits& limits,
                      std::vector<Measure>& all) {
  const int length = options.tiny ? 100 : 32768;
  LongContext fp16(length, KvElement::kFp16, true, options.tiny);
  LongContext int8(length, KvElement::kInt8, true, options.tiny);
  LongContext inOrder(length, KvElement::kFp16, false, options.tiny);
  const double fp16Seconds = fp16.seconds(options.repeats);
  const double int8Seconds = int8.seconds(options.repeats);
  const double inOrderSeconds = inOrder.seconds(options.repeats);
  const auto share = [&](const char* what, LongContext& context, double seconds, double goal) {
    const double rate = context.bytes() / seconds;
    all.push_back({"G5", what, rate / limits.readBytesPerSecond, "of probe", goal, true,
                   text("%.1f us, %.0f GB/s", seconds * 1e6, rate / 1e9)});
  };
  share("decode attention, FP16 KV", fp16, fp16Seconds, 0.80);
  share("decode attention, INT8 KV", int8, int8Seconds, 0.70);
  all.push_back({"G6", "shuffled blocks / blocks in a row", fp16Seconds / inOrderSeconds, "x", 1.05,
                 false, text("%.1f us against %.1f us", fp16Seconds * 1e6, inOrderSeconds * 1e6)});
  all.push_back({"G7", "attention time, INT8 KV / FP16 KV", int8Seconds / fp16Seconds, "x", 0.60,
                 false, text("%.1f us against %.1f us", int8Seconds * 1e6, fp16Seconds * 1e6)});
}

/// A product of many rows, its rows converted from FP32 first, as in a layer.
class ManyRows {
 public:
  ManyRows(int rows, int out, int in, bool int8)
      : m_stream(gpu::Stream::make()),
        m_blasWorkspace(kBlasWorkspace),
        m_blas(m_stream.get(), m_blasWorkspace.data(), kBlasWorkspace),
        m_in(in) {
    const auto n = [](int a, int b) { return static_cast<std::size_t>(a) * b; };
    gpu::Matrix& w = m_params.weights;
    w.format = int8 ? gpu::WeightFormat::kInt8 : gpu::WeightFormat::kFp16;
    w.out = out;
    w.in = in;
    w.paddedOut = gpu::roundUp(out, gpu::kOutputPad);
    w.stride = gpu::roundUp(in, gpu::kColumnPad);
    m_weights = zeros<std::byte>(m_stream.get(), n(w.paddedOut, w.stride) * (int8 ? 1 : 2));
    w.values = m_weights.data();
    m_x = zeros<float>(m_stream.get(), n(rows, in));
    m_rows = zeros<std::byte>(m_stream.get(), n(rows, w.stride) * (int8 ? 1 : 2));
    m_params.x.type = int8 ? gpu::RowType::kInt8 : gpu::RowType::kFp16;
    m_params.x.values = m_rows.data();
    m_params.x.stride = w.stride;
    if (int8) {
      w.groupSize = m_params.x.groupSize = gpu::kWholeRow;  // cuBLAS
      m_scales = zeros<float>(m_stream.get(), static_cast<std::size_t>(rows));
      m_weightScales = zeros<std::uint16_t>(m_stream.get(), static_cast<std::size_t>(w.paddedOut));
      w.scales = m_weightScales.data();
      m_params.x.scales = m_scales.data();
    }
    m_y = zeros<float>(m_stream.get(), n(rows, out));
    m_params.rows = rows;
    m_params.y = m_y.data();
    m_params.yStride = out;
    m_workspace = gpu::DeviceBuffer<std::byte>(gpu::linearWorkspaceBytes(w, m_params.x.type, rows));
  }

  double seconds(int repeats) {
    constexpr int kLaunches = 10;
    return medianSeconds(repeats,
                         [&] {
                           for (int i = 0; i < kLaunches; ++i) {
                             gpu::convertRows(m_stream.get(), m_x.data(), m_in, m_in, m_params.rows,
                                              m_params.x);
                             gpu::linear(m_stream.get(), m_blas, m_params, m_workspace.data());
                           }
                           m_stream.synchronize();
                         }) /
           kLaunches;
  }

 private:
  gpu::Stream m_stream;
  gpu::DeviceBuffer<std::byte> m_blasWorkspace;
  gpu::Blas m_blas;
  gpu::LinearParams m_params;
  gpu::DeviceBuffer<std::byte> m_weights, m_rows, m_workspace;
  gpu::DeviceBuffer<std::uint16_t> m_weightScales;
  gpu::DeviceBuffer<float> m_x, m_scales, m_y;
  int m_in;
};

Measure int8Product(const BenchOptions& options) {
  const int rows = options.tiny ? 20 : 2048;
  const int out = options.tiny ? 96 : 28672;
  const int in = options.tiny ? 128 : 4096;
  const double fp16 = ManyRows(rows, out, in, false).seconds(options.repeats);
  const double int8 = ManyRows(rows, out, in, true).seconds(options.repeats);
  const double flops = 2.0 * rows * out * in;
  return {"G9",
          "W8A8 product with quantization / FP16, " + std::to_string(rows) + " rows",
          fp16 / int8,
          "x",
          1.15,
          true,
          text("%.0f TOP/s against %.0f TFLOP/s", flops / int8 / 1e12, flops / fp16 / 1e12)};
}

/// Blocks that come back from host memory, against a plain copy of as many pinned bytes.
Measure swap(const BenchOptions& options) {
  const std::size_t blockBytes = options.tiny ? 4096 : std::size_t{2} << 20;
  const int onDevice = options.tiny ? 8 : 256;
  engine::KvShape shape;
  shape.nBlocks = 2 * onDevice;
  shape.hostBlocks = onDevice;
  shape.nKvHeads = 1;
  const gpu::Stream compute = gpu::Stream::make();
  gpu::KvLayer layer;
  layer.vOffset = blockBytes / 2;
  layer.blockSize = kBlockSize;
  layer.nKvHeads = 1;
  layer.headDim = static_cast<int>(blockBytes / 2 / kBlockSize / 2);
  engine::cuda::KvPool pool(shape, blockBytes, {layer}, compute.get());
  std::vector<engine::BlockId> first(static_cast<std::size_t>(onDevice)), second = first;
  std::iota(first.begin(), first.end(), 0);
  std::iota(second.begin(), second.end(), onDevice);
  const auto use = [&](const std::vector<engine::BlockId>& blocks,
                       std::span<const engine::BlockId> written) {
    if (!pool.prepare(blocks, written)) throw std::runtime_error("the pool is too small");
    compute.synchronize();
  };
  use(first, first);
  use(second, second);
  pool.idle();
  gpu::check(cudaDeviceSynchronize(), "waiting for the device");
  // All blocks have a copy on the host by now, so each call brings one half back and no more.
  const double seconds = medianSeconds(options.repeats,
                                       [&] {
                                         use(first, {});
                                         use(second, {});
                                       }) /
                         2;
  const std::size_t bytes = blockBytes * static_cast<std::size_t>(onDevice);
  gpu::PinnedBuffer<std::byte> host(bytes);
  gpu::DeviceBuffer<std::byte> device(bytes);
  const double plain = medianSeconds(options.repeats, [&] {
    gpu::copyToDevice(compute.get(), device.data(), host.data(), bytes);
    compute.synchronize();
  });
  return {"G11",
          "blocks from host memory / plain pinned copy",
          plain / seconds,
          "x",
          0.85,
          true,
          text("%.1f GB/s against %.1f GB/s", bytes / seconds / 1e9, bytes / plain / 1e9)};
}

}  // namespace

Limits measureLimits(const BenchOptions& options) {
  const gpu::Stream stream = gpu::Stream::make();
  Limits limits;
  {
    const std::size_t bytes = options.tiny ? 1 << 20 : std::size_t{4} << 30;
    const auto memory = zeros<std::byte>(stream.get(), bytes);
    const auto sum = zeros<unsigned>(stream.get(), 1);
    const double seconds = medianSeconds(options.repeats, [&] {
      readAll(stream.get(), memory.data(), bytes, sum.data());
      stream.synchronize();
    });
    limits.readBytesPerSecond = static_cast<double>(bytes) / seconds;
  }
  const int n = options.tiny ? 64 : 8192;
  const std::size_t elements = static_cast<std::size_t>(n) * n;
  // Random bits as FP16 of moderate size: multiplying zeros draws less power and runs faster.
  std::vector<std::uint16_t> values(elements);
  std::mt19937 random(1);
  for (auto& v : values) v = static_cast<std::uint16_t>((random() & 0x83FFU) | 0x3000U);
  const auto a = upload(stream.get(), values);
  const auto w = upload(stream.get(), values);
  const gpu::DeviceBuffer<float> c(elements);
  const gpu::DeviceBuffer<std::byte> workspace(kBlasWorkspace);
  gpu::Blas blas(stream.get(), workspace.data(), kBlasWorkspace);
  const double seconds = medianSeconds(options.repeats, [&] {
    blas.multiply(CUDA_R_16F, a.data(), n, w.data(), n, n, n, n, c.data(), n, false);
    stream.synchronize();
  });
  limits.fp16FlopsPerSecond = 2.0 * n * n * static_cast<double>(n) / seconds;
  return limits;
}

std::vector<Measure> measureKernels(const BenchOptions& options, const Limits& limits) {
  std::vector<Measure> all;
  measureAttention(options, limits, all);
  all.push_back(int8Product(options));
  all.push_back(swap(options));
  return all;
}

}  // namespace vitrine::device

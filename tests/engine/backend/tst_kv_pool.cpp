// The pool of the CUDA backend against a plain model, with kernels played by copies and memsets on
// the compute stream: queued work overtakes other streams wherever no event holds it back.
#include <QTest>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/backend/cuda/kv_pool.h"
#include "engine/backend/host_memory.h"
#include "kernels/cuda/handles.h"
#include "tests/cuda_on_cpu/harness.h"

using namespace vitrine::engine;
using vitrine::engine::cuda::KvPool;
using vitrine::kernels::cuda::CudaError;
using vitrine::kernels::cuda::PinnedBuffer;
using vitrine::kernels::cuda::Stream;

namespace {

// One layer with one head of 16 elements, FP16: K of 16 positions, then V.
constexpr std::size_t kBlockBytes = 1024;
constexpr std::size_t kRunBytes = kBlockBytes / 2;
constexpr int kBlockSize = 16;
using Bytes = std::vector<std::byte>;

std::vector<vitrine::kernels::cuda::KvLayer> layers() {
  vitrine::kernels::cuda::KvLayer layer;
  layer.vOffset = kRunBytes;
  layer.blockSize = kBlockSize;
  layer.nKvHeads = 1;
  layer.headDim = 16;
  return {layer};
}

KvShape shapeOf(int nBlocks, int hostBlocks) {
  KvShape shape;
  shape.nBlocks = nBlocks;
  shape.hostBlocks = hostBlocks;
  return shape;
}

/// A pool and what its blocks should hold. A block whose content is of no matter has none here.
class Bench {
 public:
  Bench(int nBlocks, int hostBlocks)
      : m_stream(Stream::make()),
        m_log(kLogBlocks * kBlockBytes),
        m_pool(std::make_unique<KvPool>(shapeOf(nBlocks, hostBlocks), kBlockBytes, layers(),
                                        m_stream.get())),
        m_expected(static_cast<std::size_t>(nBlocks)) {}

  KvPool& pool() { return *m_pool; }
  cudaStream_t stream() const { return m_stream.get(); }
  std::optional<Bytes>& expected(BlockId block) {
    return m_expected[static_cast<std::size_t>(block)];
  }

  /// A batch that reads blocks and writes `value` into others, from byte `from` on.
  bool run(const std::vector<BlockId>& read, const std::vector<BlockId>& written,
           const std::vector<BlockId>& fresh, std::size_t from, int value) {
    if (!m_pool->prepare(read, written, fresh)) return false;
    for (const BlockId block : fresh) expected(block).reset();
    for (const BlockId block : read) look(block);
    for (const BlockId block : written) {
      const std::size_t first = expected(block) ? from : 0;
      const cudaError_t code = cudaMemsetAsync(m_pool->address(block) + first, value,
                                               kBlockBytes - first, m_stream.get());
      if (code != cudaSuccess) throw CudaError(code, "the kernel's write");
      if (!expected(block)) expected(block) = Bytes(kBlockBytes);
      std::fill(expected(block)->begin() + static_cast<std::ptrdiff_t>(first),
                expected(block)->end(), static_cast<std::byte>(value));
      look(block);
    }
    return true;
  }

  /// The kernels that ran saw what they should have seen. Waits for them.
  std::string finish() {
    m_stream.synchronize();
    std::string wrong;
    for (std::size_t i = 0; i < m_looks.size(); ++i) {
      const auto& [block, bytes] = m_looks[i];
      if (!std::equal(bytes.begin(), bytes.end(), m_log.data() + i * kBlockBytes)) {
        wrong = "a kernel saw something else in block " + std::to_string(block);
      }
    }
    m_looks.clear();
    return wrong;
  }

  std::string compare() {
    Bytes bytes(kBlockBytes);
    for (std::size_t i = 0; i < m_expected.size(); ++i) {
      if (!m_expected[i]) continue;
      m_pool->read(static_cast<BlockId>(i), bytes);
      if (bytes != *m_expected[i]) return "block " + std::to_string(i) + " holds something else";
    }
    return m_pool->checkInvariants();
  }

 private:
  static constexpr std::size_t kLogBlocks = 512;

  void look(BlockId block) {
    if (!expected(block)) return;
    if (m_looks.size() == kLogBlocks) {
      if (const std::string wrong = finish(); !wrong.empty()) throw std::runtime_error(wrong);
    }
    vitrine::kernels::cuda::copyToHost(m_stream.get(), m_log.data() + m_looks.size() * kBlockBytes,
                                       m_pool->address(block), kBlockBytes);
    m_looks.push_back({block, *expected(block)});
  }

  Stream m_stream;
  PinnedBuffer<std::byte> m_log;
  std::unique_ptr<KvPool> m_pool;
  std::vector<std::optional<Bytes>> m_expected;
  struct Look {
    BlockId block;
    Bytes bytes;
  };
  std::deque<Look> m_looks;
};

std::vector<BlockId> pick(std::mt19937& random, int nBlocks, int count) {
  std::vector<BlockId> blocks(static_cast<std::size_t>(nBlocks));
  for (int i = 0; i < nBlocks; ++i) blocks[static_cast<std::size_t>(i)] = i;
  std::ranges::shuffle(blocks, random);
  blocks.resize(static_cast<std::size_t>(std::min(count, nBlocks)));
  return blocks;
}

std::vector<BlockId> range(BlockId first, int count) {
  std::vector<BlockId> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(first + i);
  return blocks;
}

void useLazyStreams(std::uint64_t seed) {
  cuda_on_cpu::reset();
  cuda_on_cpu::settings().lazy = true;
  cuda_on_cpu::settings().shuffle = true;
  cuda_on_cpu::settings().seed = seed;
}

}  // namespace

class TestKvPool : public QObject {
  Q_OBJECT
 private slots:
  void init() { useLazyStreams(1); }
  void cleanup() {
    cuda_on_cpu::clearFaults();
    QCOMPARE(cuda_on_cpu::report(), std::string());
    QVERIFY2(cuda_on_cpu::counts().holdsNothing(), cuda_on_cpu::describeHeld().c_str());
  }

  void blocksLeaveAndComeBack() {
    Bench bench(12, 8);  // four on the device
    for (BlockId block = 0; block < 12; ++block) {
      QVERIFY(bench.run({}, {block}, {block}, 0, block + 1));
    }
    QCOMPARE(bench.pool().deviceCapacity(), 4);
    QCOMPARE(bench.pool().deviceBytes(), 4 * kBlockBytes);
    QVERIFY(bench.run({0, 3, 7}, {9}, {}, 512, 200));
    QCOMPARE(bench.finish(), std::string());
    QCOMPARE(bench.compare(), std::string());
  }

  void moreThanTheDeviceHoldsIsRefused() {
    Bench bench(12, 8);
    QVERIFY(bench.run({}, range(0, 4), range(0, 4), 0, 7));
    const std::uint64_t generation = bench.pool().generation();
    QVERIFY(!bench.pool().prepare(range(0, 3), range(2, 3)));
    QCOMPARE(bench.pool().generation(), generation);
    // The same block twice takes one place.
    QVERIFY(bench.pool().prepare(std::vector<BlockId>{0, 1, 2, 2, 0}, std::vector<BlockId>{3}));
    QCOMPARE(bench.pool().generation(), generation);
    QCOMPARE(bench.compare(), std::string());
  }

  void theLeastRecentlyUsedLeaves() {
    Bench bench(8, 4);
    QVERIFY(bench.run({}, range(0, 4), range(0, 4), 0, 1));
    QVERIFY(bench.run({0, 1, 3}, {}, {}, 0, 0));
    std::byte* const freed = bench.pool().address(2);
    QVERIFY(bench.run({}, {4}, {4}, 0, 2));
    QCOMPARE(bench.pool().address(4), freed);
    QCOMPARE(bench.finish(), std::string());
    QCOMPARE(bench.compare(), std::string());
  }

  void whatWasCopiedMeanwhileLeavesAtOnce() {
    Bench bench(16, 8);
    QVERIFY(bench.run({}, range(0, 8), range(0, 8), 0, 1));
    bench.pool().idle();
    const std::uint64_t before = bench.pool().bytesOut();
    QCOMPARE(before, std::uint64_t{4 * kBlockBytes});  // half of the device
    QVERIFY(bench.run({}, range(8, 4), range(8, 4), 0, 2));
    QCOMPARE(bench.pool().bytesOut(), before);
    QVERIFY(bench.run({0, 1, 2, 3}, {}, {}, 0, 0));
    QCOMPARE(bench.finish(), std::string());
    QCOMPARE(bench.compare(), std::string());
  }

  void hostMemoryComesAndGoes() {
    Bench bench(40, 32);
    const std::size_t before = HostMemory::residentBytes(MemoryUse::kKvCache);
    QCOMPARE(bench.pool().hostBytes(), std::size_t{0});
    for (BlockId block = 0; block < 40; ++block) {
      QVERIFY(bench.run({}, {block}, {block}, 0, block));
    }
    QVERIFY(bench.pool().hostBytes() >= 32 * kBlockBytes);
    QVERIFY(bench.pool().hostBytes() <= 33 * kBlockBytes);
    QCOMPARE(bench.finish(), std::string());
    // In whole pages, and the last slab is smaller than the others.
    QVERIFY(HostMemory::residentBytes(MemoryUse::kKvCache) >=
            before + bench.pool().hostBytes() - 4096);
    // All content is written anew: nothing is left in host memory but what was pushed out again.
    QVERIFY(bench.run({}, range(0, 8), range(0, 8), 0, 1));
    for (BlockId block = 8; block < 40; ++block) {
      bench.expected(block).reset();
      QVERIFY(bench.run({}, {0}, {0}, 0, 3));
    }
    QCOMPARE(bench.finish(), std::string());
    QCOMPARE(bench.compare(), std::string());
  }

  void deviceMemoryIsGivenBackAndTakenAgain() {
    Bench bench(24, 8);
    QVERIFY(bench.run({}, range(0, 16), range(0, 16), 0, 9));
    const std::size_t before = cuda_on_cpu::counts().deviceBytes;
    const std::size_t freed = bench.pool().giveBack(5 * kBlockBytes);
    QVERIFY(freed >= 5 * kBlockBytes);
    QCOMPARE(before - cuda_on_cpu::counts().deviceBytes, freed);
    QCOMPARE(bench.pool().deviceCapacity(), 16 - static_cast<int>(freed / kBlockBytes));
    QCOMPARE(bench.compare(), std::string());
    // A batch that needs it has it again.
    QVERIFY(bench.run(range(0, 16), {}, {}, 0, 0));
    QCOMPARE(bench.pool().deviceCapacity(), 16);
    QCOMPARE(bench.finish(), std::string());
    // Something always stays.
    bench.pool().giveBack(1000 * kBlockBytes);
    QVERIFY(bench.pool().deviceCapacity() >= 1);
    QCOMPARE(bench.compare(), std::string());
  }

  void whileOthersHaveTheMemoryBlocksStayInHostMemory() {
    cuda_on_cpu::settings().memoryBytes = 1 << 20;
    Bench bench(64, 32);
    QVERIFY(bench.run({}, range(0, 32), range(0, 32), 0, 5));
    QVERIFY(bench.pool().giveBack(16 * kBlockBytes) >= 16 * kBlockBytes);
    const int capacity = bench.pool().deviceCapacity();
    cuda_on_cpu::settings().othersBytes =
        (1 << 20) - cuda_on_cpu::counts().deviceBytes - kBlockBytes / 2;
    QVERIFY(!bench.pool().prepare(range(0, capacity + 1), {}));
    for (BlockId block = 32; block < 64; ++block) {
      QVERIFY(bench.run({block - 20}, {block}, {block}, 0, block));
    }
    QCOMPARE(bench.pool().deviceCapacity(), capacity);
    QCOMPARE(bench.finish(), std::string());
    QCOMPARE(bench.compare(), std::string());
  }

  void aPoolThatDoesNotFitSaysHowMuchItWanted() {
    cuda_on_cpu::settings().memoryBytes = 64 * kBlockBytes;
    const Stream stream = Stream::make();
    try {
      KvPool pool(shapeOf(100, 0), kBlockBytes, layers(), stream.get());
      QFAIL("it was made");
    } catch (const CudaError& error) {
      QVERIFY(error.isOutOfMemory());
      QVERIFY2(QString(error.what()).contains("102400 bytes"), error.what());
    }
  }

  void blocksAreCopiedWherePagesCannotBeLocked() {
    Bench bench(12, 8);
    cuda_on_cpu::failCall(1, cudaErrorMemoryAllocation, "cudaHostRegister");
    for (BlockId block = 0; block < 12; ++block) {
      QVERIFY(bench.run({}, {block}, {block}, 0, block + 1));
    }
    QCOMPARE(cuda_on_cpu::failedFunction(), std::string("cudaHostRegister"));
    QVERIFY(bench.run(range(0, 4), {}, {}, 0, 0));
    QCOMPARE(bench.finish(), std::string());
    QCOMPARE(bench.compare(), std::string());
  }

  void copiedBlocksAreEqual() {
    Bench bench(10, 6);
    QVERIFY(bench.run({}, {0}, {0}, 0, 1));
    QVERIFY(bench.run({}, {0}, {}, 512, 2));
    for (BlockId block = 1; block < 10; ++block) {
      bench.pool().copy(block - 1, block, kBlockSize);
      bench.expected(block) = bench.expected(block - 1);
    }
    QCOMPARE(bench.compare(), std::string());
    // A part: so many positions of keys, and of values.
    QVERIFY(bench.run({}, {0}, {0}, 0, 3));
    bench.pool().copy(0, 5, 9);
    bench.expected(5).reset();
    Bytes bytes(kBlockBytes);
    bench.pool().read(5, bytes);
    const auto isThree = [](std::byte b) { return b == std::byte{3}; };
    const auto part = static_cast<std::ptrdiff_t>(9 * kRunBytes / kBlockSize);
    QVERIFY(std::all_of(bytes.begin(), bytes.begin() + part, isThree));
    const auto values = bytes.begin() + static_cast<std::ptrdiff_t>(kRunBytes);
    QVERIFY(std::all_of(values, values + part, isThree));
    QCOMPARE(bench.compare(), std::string());
  }

  void randomOperationsAgreeWithAPlainModel_data() {
    QTest::addColumn<int>("seed");
    for (int seed = 1; seed <= 24; ++seed) QTest::addRow("seed %d", seed) << seed;
  }
  void randomOperationsAgreeWithAPlainModel() {
    QFETCH(int, seed);
    useLazyStreams(static_cast<std::uint64_t>(seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto draw = [&](int below) {
      return static_cast<int>(random() % static_cast<unsigned>(below));
    };
    const int device = 1 + draw(12);
    const int nBlocks = device + draw(20);
    const bool failing = seed % 2 == 0;
    Bench bench(nBlocks, nBlocks - device);
    KvPool& pool = bench.pool();
    int failures = 0;
    for (int step = 0; step < 300; ++step) {
      if (failing && draw(8) == 0) {
        cuda_on_cpu::failCall(1 + static_cast<std::uint64_t>(draw(12)),
                              draw(2) == 0 ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
      }
      const int what = draw(20);
      const BlockId block = draw(nBlocks), other = draw(nBlocks);
      std::vector<BlockId> written;
      try {
        if (what < 12) {
          const int count = draw(device + 2);
          std::vector<BlockId> read = pick(random, nBlocks, count);
          while (!read.empty() && draw(3) != 0) {
            written.push_back(read.back());
            read.pop_back();
          }
          std::vector<BlockId> fresh;
          std::ranges::copy_if(written, std::back_inserter(fresh),
                               [&](BlockId) { return draw(3) == 0; });
          bench.run(read, written, fresh, static_cast<std::size_t>(16 * draw(64)), draw(256));
        } else if (what < 14) {
          written = {other};
          pool.copy(block, other, kBlockSize);
          bench.expected(other) = bench.expected(block);
        } else if (what == 14) {
          Bytes bytes(kBlockBytes, static_cast<std::byte>(draw(256)));
          written = {block};
          pool.write(block, bytes);
          bench.expected(block) = bytes;
        } else if (what == 15) {
          Bytes bytes(kBlockBytes);
          pool.read(block, bytes);
          if (bench.expected(block)) QVERIFY(bytes == *bench.expected(block));
        } else if (what == 16) {
          pool.giveBack(static_cast<std::size_t>(draw(4)) * kBlockBytes);
        } else if (what == 17) {
          QCOMPARE(bench.finish(), std::string());
        } else {
          pool.idle();
        }
      } catch (const CudaError&) {
        // Nothing is known about what was to change; all else is as it was.
        ++failures;
        for (const BlockId changed : written) bench.expected(changed).reset();
      }
      cuda_on_cpu::clearFaults();
      const std::string wrong = pool.checkInvariants();
      QVERIFY2(wrong.empty(), wrong.c_str());
    }
    QCOMPARE(bench.finish(), std::string());
    QCOMPARE(bench.compare(), std::string());
    QCOMPARE(failing, failures > 0);
  }
};

QTEST_GUILESS_MAIN(TestKvPool)
#include "tst_kv_pool.moc"

#include <QtTest>
#include <algorithm>
#include <numeric>
#include <set>

#include "cuda_on_cpu/harness_fixture.h"
#include "cuda_on_cpu/test_kernels.h"

using namespace cuda_on_cpu;

// How kernels run: indices, collectives, shared memory, orders, and what launches are refused.

class TestCudaKernels : public QObject {
  Q_OBJECT

 private slots:
  void init() { begin(); }
  void cleanupTestCase() { reset(); }

  void everyThreadKnowsItsPlace() {
    const dim3 grid(3, 2, 2), block(8, 5, 3);
    const std::size_t threads = 12 * 120;
    unsigned* out = onDevice(std::vector<unsigned>(threads * 12));
    CUDA_OK(indices(nullptr, grid, block, out));
    const std::vector<unsigned> all = fromDevice(out, threads * 12);
    for (unsigned i = 0; i < threads; ++i) {
      const unsigned b = i / 120, t = i % 120;
      const unsigned wanted[12] = {b % 3, b / 3 % 2, b / 6, t % 8, t / 8 % 5, t / 40,
                                   8,     5,         3,     3,     2,         2};
      for (unsigned k = 0; k < 12; ++k) QCOMPARE(all[i * 12 + k], wanted[k]);
    }
    CUDA_OK(cudaFree(out));
  }

  void collectivesGiveWhatCudaSays_data() {
    QTest::addColumn<int>("seed");
    for (int seed = -1; seed < 4; ++seed) QTest::addRow("seed %d", seed) << seed;
  }
  void collectivesGiveWhatCudaSays() {
    QFETCH(int, seed);
    settings().shuffle = seed >= 0;
    settings().seed = static_cast<std::uint64_t>(std::max(seed, 0));
    std::vector<int> in(32);
    for (int i = 0; i < 32; ++i) in[i] = (i * 7 + 3) % 11 - 4;
    int* deviceIn = onDevice(in);
    int* deviceOut = onDevice(std::vector<int>(32 * kCollectives));
    CUDA_OK(collectives(nullptr, deviceIn, deviceOut));
    const std::vector<int> out = fromDevice(deviceOut, 32 * kCollectives);
    int sum = 0, sumHalf = 0, maxHalf = -100;
    unsigned ballot = 0;
    for (int i = 0; i < 32; ++i) {
      sum += in[i];
      if (i < 16) sumHalf += in[i];
      if (i >= 16) maxHalf = std::max(maxHalf, in[i]);
      ballot |= (in[i] > 0 ? 1U : 0U) << i;
    }
    const int least = *std::min_element(in.begin(), in.end());
    const int most = *std::max_element(in.begin(), in.end());
    for (int i = 0; i < 32; ++i) {
      unsigned match = 0;
      for (int j = 0; j < 32; ++j) match |= (in[j] == in[i] ? 1U : 0U) << j;
      const int wanted[kCollectives] = {in[5],
                                        in[(i + 3) % 32],
                                        in[i / 8 * 8 + 2],
                                        i >= 1 ? in[i - 1] : in[i],
                                        i % 16 >= 3 ? in[i - 3] : in[i],
                                        i < 31 ? in[i + 1] : in[i],
                                        i % 8 < 3 ? in[i + 5] : in[i],
                                        in[i ^ 16],
                                        in[i ^ 3],
                                        static_cast<int>(ballot),
                                        0,
                                        1,
                                        sum,
                                        least,
                                        most,
                                        static_cast<int>(match),
                                        i < 16 ? sumHalf : maxHalf};
      for (int k = 0; k < kCollectives; ++k) {
        QVERIFY2(out[k * 32 + i] == wanted[k],
                 qPrintable(QString("collective %1, lane %2: %3 instead of %4")
                                .arg(k)
                                .arg(i)
                                .arg(out[k * 32 + i])
                                .arg(wanted[k])));
      }
    }
    CUDA_OK(cudaFree(deviceIn));
    CUDA_OK(cudaFree(deviceOut));
  }

  void blockVotes() {
    std::vector<int> in(96, 1);
    in[40] = 0;
    int* deviceIn = onDevice(in);
    int* deviceOut = onDevice(std::vector<int>(3));
    CUDA_OK(votes(nullptr, deviceIn, deviceOut));
    QCOMPARE(fromDevice(deviceOut, 3), (std::vector<int>{95, 0, 1}));
    CUDA_OK(cudaFree(deviceIn));
    CUDA_OK(cudaFree(deviceOut));
  }

  /// What one block leaves in shared memory, the next does not find.
  void sharedMemoryIsNanInEveryBlock() {
    settings().workers = 1;
    const int blocks = 5;
    std::uint32_t* out = onDevice(std::vector<std::uint32_t>(64 * blocks));
    CUDA_OK(freshShared(nullptr, out, blocks));
    for (const std::uint32_t value : fromDevice(out, 64 * blocks)) QCOMPARE(value, 0xFFFFFFFFU);
    CUDA_OK(cudaFree(out));
  }

  void randomOrderComesFromTheSeed() {
    settings().workers = 1;
    const auto orders = [](std::uint64_t seed, auto* launch, int n) {
      reset();
      settings().workers = 1;
      settings().shuffle = true;
      settings().seed = seed;
      unsigned* counter = onDevice(std::vector<unsigned>(1));
      unsigned* out = onDevice(std::vector<unsigned>(static_cast<std::size_t>(n)));
      launch(nullptr, counter, out, n);
      return fromDevice(out, static_cast<std::size_t>(n));
    };
    for (auto* launch : {&orderOfBlocks, &orderOfThreads}) {
      std::set<std::vector<unsigned>> seen;
      for (std::uint64_t seed = 0; seed < 5; ++seed) {
        std::vector<unsigned> order = orders(seed, launch, 64);
        QCOMPARE(orders(seed, launch, 64), order);
        seen.insert(order);
        std::sort(order.begin(), order.end());
        std::vector<unsigned> all(64);
        std::iota(all.begin(), all.end(), 0U);
        QCOMPARE(order, all);
      }
      QCOMPARE(seen.size(), std::size_t{5});
    }
  }

  void launchesThatADeviceRefuses() {
    const auto refused = [](dim3 grid, dim3 block, std::size_t bytes, bool allow) {
      const cudaError_t code = launchEmpty(nullptr, grid, block, bytes, allow);
      if (cudaGetLastError() != code) return cudaErrorUnknown;
      return code;
    };
    QCOMPARE(refused(0, 32, 0, false), cudaErrorInvalidConfiguration);
    QCOMPARE(refused(1, 0, 0, false), cudaErrorInvalidConfiguration);
    QCOMPARE(refused(1, 1025, 0, false), cudaErrorInvalidConfiguration);
    QCOMPARE(refused(1, dim3(1, 1, 65), 0, false), cudaErrorInvalidConfiguration);
    QCOMPARE(refused(dim3(1, 65536), 32, 0, false), cudaErrorInvalidConfiguration);
    QCOMPARE(refused(1, 32, 48 * 1024 + 1, false), cudaErrorInvalidValue);
    QCOMPARE(refused(1, 32, 64 * 1024 + 1, true), cudaErrorInvalidValue);
    QVERIFY(report().find("dynamic shared memory") != std::string::npos);
    CUDA_OK(launchEmpty(nullptr, 1, 1024, 0, false));
    CUDA_OK(launchEmpty(nullptr, dim3(70000, 1, 1), 32, 64 * 1024, true));
  }

  void errorOfAKernelSticks() {
    settings().lazy = true;
    CUDA_OK(failKernel(nullptr));
    QCOMPARE(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    QVERIFY2(report().find("block (3,0,0) thread (7,0,0)") != std::string::npos, report().c_str());
    void* memory = nullptr;
    QCOMPARE(cudaMalloc(&memory, 16), cudaErrorLaunchFailure);
    QCOMPARE(cudaGetLastError(), cudaErrorLaunchFailure);
    QCOMPARE(cudaGetLastError(), cudaErrorLaunchFailure);
  }
};

QTEST_GUILESS_MAIN(TestCudaKernels)
#include "tst_cuda_kernels.moc"

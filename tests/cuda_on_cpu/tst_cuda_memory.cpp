#include <QtTest>
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "cuda_on_cpu/harness_fixture.h"
#include "cuda_on_cpu/test_kernels.h"

using namespace cuda_on_cpu;

// Device memory, copies, devices, and calls that fail by plan.

class TestCudaMemory : public QObject {
  Q_OBJECT

 private slots:
  void init() { begin({.memoryBytes = 64 << 20}); }
  void cleanupTestCase() { reset(); }

  void freshAndFreedMemoryIsNan_data() {
    QTest::addColumn<int>("bytes");
    QTest::newRow("small") << 1000;
    QTest::newRow("large") << (20 << 20) + 1000;
  }
  void freshAndFreedMemoryIsNan() {
    QFETCH(int, bytes);
    const auto n = static_cast<std::size_t>(bytes);
    char* memory = nullptr;
    for (int round = 0; round < 2; ++round) {
      CUDA_OK(cudaMalloc(&memory, n));
      const std::vector<char> values = fromDevice(memory, n);
      QVERIFY(std::all_of(values.begin(), values.end(), [](char c) { return c == '\xff'; }));
      CUDA_OK(cudaMemset(memory, 0, n));
      QCOMPARE(fromDevice(memory, n)[n - 1], '\0');
      CUDA_OK(cudaFree(memory));
    }
    QVERIFY(counts().holdsNothing());
  }

  void memoryEndsWhereTheSettingSays() {
    void *big = nullptr, *small = nullptr;
    std::size_t free = 0, total = 0;
    settings().othersBytes = 1 << 20;
    QCOMPARE(cudaMalloc(&big, 64 << 20), cudaErrorMemoryAllocation);
    QVERIFY(big == nullptr);
    QCOMPARE(cudaGetLastError(), cudaErrorMemoryAllocation);
    CUDA_OK(cudaGetLastError());  // it does not stick
    CUDA_OK(cudaMalloc(&big, 60 << 20));
    CUDA_OK(cudaMemGetInfo(&free, &total));
    QCOMPARE(total, std::size_t{64} << 20);
    QCOMPARE(free, std::size_t{3} << 20);
    CUDA_OK(cudaMalloc(&small, 3 << 20));
    QCOMPARE(cudaMalloc(&small, 1), cudaErrorMemoryAllocation);
    QCOMPARE(describeHeld(), std::string("2 device allocations of 66060288 bytes"));
  }

  void devicesHaveMemoryOfTheirOwn() {
    settings().devices = 2;
    int count = 0, device = -1;
    CUDA_OK(cudaGetDeviceCount(&count));
    QCOMPARE(count, 2);
    void *first = nullptr, *second = nullptr;
    CUDA_OK(cudaMalloc(&first, 60 << 20));
    CUDA_OK(cudaSetDevice(1));
    CUDA_OK(cudaGetDevice(&device));
    QCOMPARE(device, 1);
    CUDA_OK(cudaMalloc(&second, 60 << 20));
    cudaPointerAttributes attributes{};
    CUDA_OK(cudaPointerGetAttributes(&attributes, second));
    QCOMPARE(attributes.device, 1);
    QCOMPARE(cudaSetDevice(2), cudaErrorInvalidDevice);
    CUDA_OK(cudaSetDevice(0));
  }

  void driversThatDoNotServe() {
    int count = -1;
    settings().driverVersion = 0;
    QCOMPARE(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    settings().driverVersion = 11040;
    QCOMPARE(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    settings().driverVersion = 13000;
    settings().devices = 0;
    QCOMPARE(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    QCOMPARE(count, 0);
  }

  void copiesThatLeaveAnAllocationAreRefused() {
    std::vector<char> host(4096);
    char* memory = onDevice(std::vector<char>(1000));
    const auto copy = [&](void* to, const void* from, std::size_t n, cudaMemcpyKind kind) {
      return cudaMemcpy(to, from, n, kind);
    };
    CUDA_OK(copy(memory, host.data(), 1000, cudaMemcpyHostToDevice));
    QCOMPARE(copy(memory, host.data(), 1001, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    QCOMPARE(copy(memory + 1, host.data(), 1000, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    QCOMPARE(copy(host.data(), memory, 1001, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    QCOMPARE(copy(host.data(), memory, 1000, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    QCOMPARE(cudaMemset(memory, 0, 1001), cudaErrorInvalidValue);
    QCOMPARE(cudaMemcpy2DAsync(memory, 600, host.data(), 10, 10, 3, cudaMemcpyHostToDevice),
             cudaErrorInvalidValue);
    CUDA_OK(cudaMemcpy2DAsync(memory, 400, host.data(), 10, 10, 3, cudaMemcpyHostToDevice));
    CUDA_OK(cudaFree(memory));
    QCOMPARE(cudaFree(memory), cudaErrorInvalidValue);
    QCOMPARE(copy(memory, host.data(), 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  }

  void rowsAreCopiedWithPitch() {
    std::vector<char> host(40, 'x');
    char* memory = onDevice(std::vector<char>(100, '.'));
    CUDA_OK(cudaMemcpy2DAsync(memory, 20, host.data(), 10, 5, 4, cudaMemcpyHostToDevice));
    CUDA_OK(cudaDeviceSynchronize());
    const std::vector<char> all = fromDevice(memory, 100);
    for (int i = 0; i < 100; ++i) QCOMPARE(all[i], i < 80 && i % 20 < 5 ? 'x' : '.');
    CUDA_OK(cudaFree(memory));
  }

  void queuedCopyOfFreedMemoryIsAFault() {
    settings().lazy = true;
    cudaStream_t stream = nullptr;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    void *memory = nullptr, *pinned = nullptr;
    CUDA_OK(cudaMallocAsync(&memory, 100, stream));
    CUDA_OK(cudaMallocHost(&pinned, 100));
    CUDA_OK(cudaFreeAsync(memory, stream));
    CUDA_OK(cudaMemcpyAsync(memory, pinned, 100, cudaMemcpyHostToDevice, stream));
    QCOMPARE(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    QVERIFY(!report().empty());
  }

  void writesNextToAnAllocationAreSeen() {
#if defined(__SANITIZE_ADDRESS__)
    QSKIP("AddressSanitizer would end the test");
#endif
    char* memory = onDevice(std::vector<char>(100));
    QCOMPARE(brokenGuards(), std::string());
    memory[101] = 1;  // not lazy: the host can reach it
    QVERIFY(brokenGuards().find("100 bytes was written 1 bytes behind") != std::string::npos);
    memory[101] = '\xfb';
    memory[-3] = 1;
    QVERIFY(brokenGuards().find("3 bytes before") != std::string::npos);
    reset();
  }

  /// While work is only queued, a device pointer means nothing to the host.
  void hostCannotTouchTheDevice() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    QSKIP("sanitizers take the signal");
#endif
    settings().lazy = true;
    static char* memory;
    memory = onDevice(std::vector<char>(100));
    static sigjmp_buf back;
    struct sigaction action = {}, before = {};
    action.sa_handler = [](int) { siglongjmp(back, 1); };
    sigaction(SIGSEGV, &action, &before);
    volatile bool isStopped = false;
    if (sigsetjmp(back, 1) == 0) {
      [[maybe_unused]] const volatile char value = memory[0];
    } else {
      isStopped = true;
    }
    sigaction(SIGSEGV, &before, nullptr);
    QVERIFY(isStopped);
    CUDA_OK(addNumber(nullptr, reinterpret_cast<float*>(memory), 1.0F,
                      reinterpret_cast<float*>(memory), 25));
    CUDA_OK(cudaDeviceSynchronize());  // kernels can
    QCOMPARE(fromDevice(reinterpret_cast<float*>(memory), 1)[0], 1.0F);
  }

  void plannedCallFails() {
    void *first = nullptr, *second = nullptr;
    failCall(2, cudaErrorMemoryAllocation, "cudaMalloc");
    CUDA_OK(cudaMalloc(&first, 16));
    CUDA_OK(cudaMemset(first, 0, 16));
    QCOMPARE(cudaMalloc(&second, 16), cudaErrorMemoryAllocation);
    QVERIFY(second == nullptr);
    QCOMPARE(failedFunction(), std::string("cudaMalloc"));
    CUDA_OK(cudaMalloc(&second, 16));
    failCall(1, cudaErrorUnknown);
    QCOMPARE(cudaFree(second), cudaErrorUnknown);  // but it is free
    CUDA_OK(cudaFree(first));
    QVERIFY2(counts().holdsNothing(), describeHeld().c_str());
  }

  void lostDeviceAnswersNothingElse() {
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    CUDA_OK(cudaMalloc(&memory, 64));
    CUDA_OK(cudaStreamCreate(&stream));
    CUDA_OK(cudaEventCreate(&event));
    loseDeviceAt(2, cudaErrorECCUncorrectable);
    CUDA_OK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 3; ++i) {
      QCOMPARE(cudaMemset(memory, 0, 64), cudaErrorECCUncorrectable);
      QCOMPARE(addNumber(stream, nullptr, 0, nullptr, 1), cudaErrorECCUncorrectable);
    }
    QCOMPARE(cudaFree(memory), cudaErrorECCUncorrectable);
    QCOMPARE(cudaStreamDestroy(stream), cudaErrorECCUncorrectable);
    QCOMPARE(cudaEventDestroy(event), cudaErrorECCUncorrectable);
    QVERIFY2(counts().holdsNothing(), describeHeld().c_str());
    QCOMPARE(cudaGetLastError(), cudaErrorECCUncorrectable);
  }

  void everythingThatIsHeldIsCounted() {
    void *device = nullptr, *pinned = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    CUDA_OK(cudaMalloc(&device, 100));
    CUDA_OK(cudaHostAlloc(&pinned, 50, cudaHostAllocDefault));
    CUDA_OK(cudaStreamCreate(&stream));
    CUDA_OK(cudaEventCreate(&event));
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    QCOMPARE(describeHeld(), std::string("1 device allocation of 100 bytes, 50 page-locked bytes, "
                                         "1 stream, 1 event, 1 graph, 1 executable graph"));
    QVERIFY(counts().calls >= 7);
    CUDA_OK(cudaFree(device));
    CUDA_OK(cudaFreeHost(pinned));
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaEventDestroy(event));
    CUDA_OK(cudaGraphDestroy(graph));
    CUDA_OK(cudaGraphExecDestroy(executable));
    QCOMPARE(describeHeld(), std::string("nothing"));
  }
};

QTEST_GUILESS_MAIN(TestCudaMemory)
#include "tst_cuda_memory.moc"

#include <QtTest>
#include <atomic>
#include <thread>

#include "cuda_on_cpu/harness_fixture.h"
#include "cuda_on_cpu/test_kernels.h"

using namespace cuda_on_cpu;

// The order of queued work, and graphs. The kernels add; results tell what ran before what.

class TestCudaStreams : public QObject {
  Q_OBJECT

  static constexpr int kN = 100;
  static constexpr std::size_t kBytes = kN * sizeof(float);
  cudaStream_t m_first = nullptr, m_second = nullptr;
  float *m_a = nullptr, *m_b = nullptr, *m_c = nullptr, *m_pinned = nullptr;

  void set(float* memory, float value) {
    const std::vector<float> values(kN, value);
    CUDA_OK(cudaMemcpy(memory, values.data(), kBytes, cudaMemcpyHostToDevice));
  }
  float valueOf(const float* memory) { return fromDevice(memory, kN)[kN - 1]; }

 private slots:
  void init() {
    begin({.lazy = true});
    CUDA_OK(cudaStreamCreateWithFlags(&m_first, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&m_second, cudaStreamNonBlocking));
    m_a = onDevice(std::vector<float>(kN, 1.0F));
    m_b = onDevice(std::vector<float>(kN, 0.0F));
    m_c = onDevice(std::vector<float>(kN, 0.0F));
    CUDA_OK(cudaMallocHost(&m_pinned, kBytes));
    CUDA_OK(cudaDeviceSynchronize());
  }
  void cleanup() { reset(); }

  void pinnedCopyRunsWhenItIsWaitedFor() {
    m_pinned[0] = -7.0F;
    CUDA_OK(addNumber(m_first, m_a, 1.0F, m_b, kN));
    CUDA_OK(cudaMemcpyAsync(m_pinned, m_b, kBytes, cudaMemcpyDeviceToHost, m_first));
    QCOMPARE(m_pinned[0], -7.0F);
    CUDA_OK(cudaStreamSynchronize(m_first));
    QCOMPARE(m_pinned[0], 2.0F);
  }
  void pinnedSourceIsReadLate() {
    m_pinned[0] = 1.0F;
    CUDA_OK(cudaMemcpyAsync(m_b, m_pinned, kBytes, cudaMemcpyHostToDevice, m_first));
    m_pinned[0] = 2.0F;  // a mistake of the host: it shows
    CUDA_OK(cudaStreamSynchronize(m_first));
    QCOMPARE(fromDevice(m_b, 1)[0], 2.0F);
  }
  void pageableSourceIsReadAtOnce() {
    std::vector<float> values(kN, 3.0F);
    CUDA_OK(cudaMemcpyAsync(m_b, values.data(), kBytes, cudaMemcpyHostToDevice, m_first));
    values.assign(kN, 4.0F);
    CUDA_OK(cudaStreamSynchronize(m_first));
    QCOMPARE(valueOf(m_b), 3.0F);
  }
  void eventOrdersTwoStreams() {
    settings().shuffle = true;
    cudaEvent_t event = nullptr;
    CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    int wrong = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      settings().seed = seed;
      for (const bool waits : {false, true}) {
        set(m_b, 0.0F);
        set(m_c, 0.0F);
        CUDA_OK(addNumber(m_first, m_a, 1.0F, m_b, kN));
        CUDA_OK(cudaEventRecord(event, m_first));
        if (waits) CUDA_OK(cudaStreamWaitEvent(m_second, event, 0));
        CUDA_OK(addNumber(m_second, m_b, 1.0F, m_c, kN));
        CUDA_OK(cudaDeviceSynchronize());
        if (waits) {
          QCOMPARE(valueOf(m_c), 3.0F);
        } else if (valueOf(m_c) != 3.0F) {
          ++wrong;
        }
      }
    }
    QVERIFY2(wrong > 2 && wrong < 18, qPrintable(QString::number(wrong)));
    CUDA_OK(cudaEventDestroy(event));
  }
  void legacyStreamWaitsForBlockingStreams() {
    settings().shuffle = true;
    cudaStream_t blocking = nullptr;
    CUDA_OK(cudaStreamCreate(&blocking));
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      settings().seed = seed;
      CUDA_OK(addNumber(blocking, m_a, 1.0F, m_b, kN));
      CUDA_OK(addNumber(nullptr, m_b, 1.0F, m_c, kN));
      CUDA_OK(addNumber(blocking, m_c, 1.0F, m_b, kN));
      CUDA_OK(cudaDeviceSynchronize());
      QCOMPARE(valueOf(m_b), 4.0F);
    }
    CUDA_OK(cudaStreamDestroy(blocking));
  }
  void askingMakesTimePass() {
    cudaEvent_t event = nullptr;
    CUDA_OK(cudaEventCreate(&event));
    CUDA_OK(cudaEventQuery(event));  // never recorded: done
    CUDA_OK(addNumber(m_first, m_a, 1.0F, m_b, kN));
    CUDA_OK(cudaEventRecord(event, m_first));
    QCOMPARE(cudaEventQuery(event), cudaErrorNotReady);
    QCOMPARE(cudaStreamQuery(m_first), cudaErrorNotReady);
    CUDA_OK(cudaGetLastError());  // "not ready" is no error
    int asked = 0;
    while (cudaEventQuery(event) == cudaErrorNotReady) QVERIFY(++asked < 10);
    CUDA_OK(cudaStreamQuery(m_first));
    float milliseconds = -1.0F;
    CUDA_OK(cudaEventElapsedTime(&milliseconds, event, event));
    QCOMPARE(milliseconds, 0.0F);
    CUDA_OK(cudaEventDestroy(event));
  }
  void hostFunctionRunsInItsTurn() {
    static int calls;
    calls = 0;
    CUDA_OK(cudaLaunchHostFunc(
        m_first, [](void*) { ++calls; }, nullptr));
    QCOMPARE(calls, 0);
    CUDA_OK(cudaStreamSynchronize(m_first));
    QCOMPARE(calls, 1);
  }
  void handlesThatAreGoneAreRefused() {
    cudaEvent_t event = nullptr;
    CUDA_OK(cudaEventCreate(&event));
    CUDA_OK(cudaEventDestroy(event));
    QCOMPARE(cudaEventRecord(event, m_first), cudaErrorInvalidResourceHandle);
    QCOMPARE(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
    CUDA_OK(cudaStreamDestroy(m_second));
    QCOMPARE(addNumber(m_second, m_a, 1.0F, m_b, kN), cudaErrorInvalidResourceHandle);
    QCOMPARE(cudaStreamSynchronize(m_second), cudaErrorInvalidResourceHandle);
    QVERIFY(!report().empty());
  }

  void graphReplaysWhatWasRecorded() {
    float* value = onDevice(std::vector<float>(1, 10.0F));
    float number = 1.0F;
    CUDA_OK(cudaStreamBeginCapture(m_first, cudaStreamCaptureModeThreadLocal));
    CUDA_OK(addNumber(m_first, m_a, number, m_b, kN));
    CUDA_OK(addValueAt(m_first, m_b, value, m_c, kN));
    cudaStreamCaptureStatus status{};
    CUDA_OK(cudaStreamIsCapturing(m_first, &status));
    QCOMPARE(status, cudaStreamCaptureStatusActive);
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamEndCapture(m_first, &graph));
    cudaGraphExec_t executable = nullptr;
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    QCOMPARE(valueOf(m_b), 0.0F);  // recorded, not run
    number = 5.0F;                 // frozen in the graph
    CUDA_OK(cudaGraphLaunch(executable, m_first));
    CUDA_OK(cudaStreamSynchronize(m_first));
    QCOMPARE(valueOf(m_c), 12.0F);
    const float changed = 20.0F;  // read by each replay
    CUDA_OK(cudaMemcpyAsync(value, &changed, sizeof changed, cudaMemcpyHostToDevice, m_first));
    CUDA_OK(cudaGraphLaunch(executable, m_first));
    CUDA_OK(cudaGraphExecDestroy(executable));  // while it is queued
    CUDA_OK(cudaStreamSynchronize(m_first));
    QCOMPARE(valueOf(m_c), 22.0F);
    CUDA_OK(cudaFree(value));
  }
  void forkAndJoinAreRecorded() {
    cudaEvent_t fork = nullptr, join = nullptr;
    CUDA_OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CUDA_OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    settings().shuffle = true;
    for (const bool joins : {true, false}) {
      CUDA_OK(cudaStreamBeginCapture(m_first, cudaStreamCaptureModeGlobal));
      CUDA_OK(addNumber(m_first, m_a, 1.0F, m_b, kN));
      CUDA_OK(cudaEventRecord(fork, m_first));
      CUDA_OK(cudaStreamWaitEvent(m_second, fork, 0));
      CUDA_OK(addNumber(m_second, m_b, 1.0F, m_c, kN));
      CUDA_OK(cudaEventRecord(join, m_second));
      if (joins) CUDA_OK(cudaStreamWaitEvent(m_first, join, 0));
      CUDA_OK(addNumber(m_first, m_c, 1.0F, m_b, kN));
      cudaGraph_t graph = nullptr;
      const cudaError_t code = cudaStreamEndCapture(m_first, &graph);
      if (!joins) {
        QCOMPARE(code, cudaErrorStreamCaptureUnjoined);
        QVERIFY(graph == nullptr);
        continue;
      }
      CUDA_OK(code);
      cudaGraphExec_t executable = nullptr;
      CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
      for (int i = 0; i < 20; ++i) {
        set(m_b, 0.0F);
        set(m_c, 0.0F);
        CUDA_OK(cudaGraphLaunch(executable, m_first));
        CUDA_OK(cudaStreamSynchronize(m_first));
        QCOMPARE(valueOf(m_b), 4.0F);
      }
      CUDA_OK(cudaGraphExecDestroy(executable));
      CUDA_OK(cudaGraphDestroy(graph));
    }
  }
  void whatCannotBeRecordedSpoilsTheRecording_data() {
    QTest::addColumn<int>("what");
    const char* names[] = {"waiting",       "allocating",  "freeing",
                           "pageable copy", "device wait", "plain copy"};
    for (int i = 0; i < 6; ++i) QTest::newRow(names[i]) << i;
  }
  void whatCannotBeRecordedSpoilsTheRecording() {
    QFETCH(int, what);
    void* memory = nullptr;
    std::vector<float> host(kN);
    CUDA_OK(cudaStreamBeginCapture(m_first, cudaStreamCaptureModeThreadLocal));
    CUDA_OK(addNumber(m_first, m_a, 1.0F, m_b, kN));
    cudaError_t code = cudaSuccess;
    switch (what) {
      case 0:
        code = cudaStreamSynchronize(m_first);
        break;
      case 1:
        code = cudaMalloc(&memory, 16);
        break;
      case 2:
        code = cudaFree(m_c);
        break;
      case 3:
        code = cudaMemcpyAsync(host.data(), m_b, kBytes, cudaMemcpyDeviceToHost, m_first);
        break;
      case 4:
        code = cudaDeviceSynchronize();
        break;
      default:
        code = cudaMemcpy(host.data(), m_a, kBytes, cudaMemcpyDeviceToHost);
        break;
    }
    QCOMPARE(code, cudaErrorStreamCaptureUnsupported);
    cudaGraph_t graph = nullptr;
    QCOMPARE(cudaStreamEndCapture(m_first, &graph), cudaErrorStreamCaptureInvalidated);
    CUDA_OK(addNumber(m_first, m_a, 1.0F, m_b, kN));  // the stream works again
    CUDA_OK(cudaStreamSynchronize(m_first));
  }
  void anotherThreadMayWorkWhileOneRecords() {
    CUDA_OK(cudaStreamBeginCapture(m_first, cudaStreamCaptureModeThreadLocal));
    cudaError_t code = cudaErrorUnknown;
    std::thread([&] {
      void* memory = nullptr;
      code = cudaMalloc(&memory, 16);
      cudaFree(memory);
    }).join();
    CUDA_OK(code);
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamEndCapture(m_first, &graph));
    CUDA_OK(cudaGraphDestroy(graph));
  }
};

QTEST_GUILESS_MAIN(TestCudaStreams)
#include "tst_cuda_streams.moc"

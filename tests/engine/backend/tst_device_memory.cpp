#include <QTest>

#include <dlfcn.h>

#include "engine/backend/cuda/device_memory.h"
#include "engine/backend/cuda/device_probe.h"
#include "engine/backend/cuda/nvml.h"
#include "kernels/cuda/handles.h"
#include "tests/cuda_on_cpu/harness.h"

using namespace vitrine::engine;
using namespace vitrine::engine::cuda;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::shared_ptr<const Nvml> standIn() {
  return Nvml::open(VITRINE_NVML_STAND_IN);
}

void set(const char* name, std::uint64_t value) {
  qputenv(name, QByteArray::number(static_cast<qulonglong>(value)));
}

}  // namespace

/// What the driver tells: why a GPU cannot be used, and who has its memory.
class TestDeviceMemory : public QObject {
  Q_OBJECT

 private slots:
  void init() {
    cuda_on_cpu::reset();
    cuda_on_cpu::settings().devices = 4;
    cuda_on_cpu::settings().memoryBytes = 1000 * kMiB;
    for (const char* name : {"NVML_USED", "NVML_TOTAL", "NVML_OTHERS", "NVML_MODE", "NVML_FAILS",
                             "CUDA_VISIBLE_DEVICES"}) {
      qunsetenv(name);
    }
  }

  void withoutTheLibraryTheContextHasAllThatIsTaken() {
    cuda_on_cpu::settings().othersBytes = 70 * kMiB;
    DeviceFigures figures(0, nullptr);
    figures.contextMade();
    const vitrine::kernels::cuda::DeviceBuffer<std::byte> ours(10 * kMiB);
    DeviceMemory memory = figures.read();
    QCOMPARE(memory.total, 1000 * kMiB);
    QCOMPARE(memory.free, 920 * kMiB);
    QCOMPARE(memory.context, 70 * kMiB);
    QCOMPARE(memory.others, std::uint64_t{0});
    memory.weights = ours.bytes();
    QCOMPARE(memory.residual(), std::int64_t{0});
  }

  void withTheLibraryOthersAndContextAreApart() {
    cuda_on_cpu::settings().othersBytes = 370 * kMiB;
    set("NVML_TOTAL", 1000 * kMiB);
    set("NVML_USED", 70 * kMiB);
    set("NVML_OTHERS", 70 * kMiB);
    DeviceFigures figures(1, standIn());
    set("NVML_USED", 370 * kMiB);
    figures.contextMade();
    DeviceMemory memory = figures.read();
    QCOMPARE(memory.context, 300 * kMiB);
    QCOMPARE(memory.others, 70 * kMiB + 1000);  // a process that computes and draws counts once
    QCOMPARE(memory.residual(), std::int64_t{-1000});
    // Another backend on the same device finds the context there.
    DeviceFigures later(1, standIn());
    later.contextMade();
    QCOMPARE(later.read().context, 300 * kMiB);
  }

  void othersThatAreNotToldCountAsBefore() {
    set("NVML_TOTAL", 1000 * kMiB);
    set("NVML_USED", 40 * kMiB);
    qputenv("NVML_OTHERS", "unknown");
    DeviceFigures figures(2, standIn());
    set("NVML_USED", 90 * kMiB);
    figures.contextMade();
    QCOMPARE(figures.read().context, 50 * kMiB);
    QCOMPARE(figures.read().others, 40 * kMiB);
  }

  void aDeviceThatDoesNotAnswerHasNoFigures() {
    DeviceFigures figures(3, nullptr);
    figures.contextMade();
    cuda_on_cpu::failCall(1, cudaErrorLaunchFailure, "cudaMemGetInfo");
    QCOMPARE(figures.read().total, std::uint64_t{0});
    QCOMPARE(figures.read().total, 1000 * kMiB);
  }

  void aLibraryThatDoesNotStartIsNone() {
    QVERIFY(standIn() != nullptr);
    qputenv("NVML_FAILS", "1");
    QVERIFY(standIn() == nullptr);
    QVERIFY(Nvml::open("libno-such-library.so") == nullptr);
  }

  void theProbeListsWhatCanBeUsed() {
    const GpuProbe probe = probeDevices();
    QCOMPARE(probe.problem, std::string());
    QCOMPARE(probe.devices.size(), std::size_t{4});
    QCOMPARE(probe.devices[3].index, 3);
    QCOMPARE(probe.devices[0].architecture, std::string("sm_80"));
    QCOMPARE(probe.devices[0].totalBytes, 1000 * kMiB);
    QCOMPARE(probe.driverVersion, std::string("13.0"));
  }

  void theProbeSaysWhatIsWrong_data() {
    QTest::addColumn<int>("driver");
    QTest::addColumn<int>("devices");
    QTest::addColumn<int>("architecture");
    QTest::addColumn<QString>("words");
    QTest::newRow("old driver") << 12040 << 1 << 80 << "too old: it knows CUDA 12.4";
    QTest::newRow("no device") << 13000 << 0 << 80 << "no NVIDIA GPU was found";
    QTest::newRow("Volta") << 13000 << 1 << 70 << "(sm_70) is too old; sm_75 is needed";
  }
  void theProbeSaysWhatIsWrong() {
    QFETCH(int, driver);
    QFETCH(int, devices);
    QFETCH(int, architecture);
    QFETCH(QString, words);
    cuda_on_cpu::settings().driverVersion = driver;
    cuda_on_cpu::settings().devices = devices;
    cuda_on_cpu::settings().architecture = architecture;
    const GpuProbe probe = probeDevices();
    QVERIFY(probe.devices.empty());
    QVERIFY2(probe.problem.find(words.toStdString()) != std::string::npos, probe.problem.c_str());
    QCOMPARE(probe.broken, devices > 0);
  }

  void aDriverThatIsNotThereIsNamed() {
    if (dlopen("libcuda.so.1", RTLD_LAZY) != nullptr) QSKIP("this machine has a driver");
    cuda_on_cpu::settings().driverVersion = 0;
    QCOMPARE(probeDevices().problem, std::string("no GPU driver is installed"));
  }

  void devicesThatTheEnvironmentHidesAreNamedSo() {
    cuda_on_cpu::settings().devices = 0;
    qputenv("CUDA_VISIBLE_DEVICES", "7");
    QCOMPARE(probeDevices().problem, std::string("CUDA_VISIBLE_DEVICES=\"7\" hides every GPU"));
  }

  void anErrorOfTheDriverIsPassedOn() {
    cuda_on_cpu::failCall(1, cudaErrorUnknown, "cudaGetDeviceCount");
    const GpuProbe probe = probeDevices();
    QVERIFY2(probe.problem.find("\"unknown error\" (error 999)") != std::string::npos,
             probe.problem.c_str());
    cuda_on_cpu::failCall(1, cudaErrorDevicesUnavailable, "cudaGetDeviceProperties");
    cuda_on_cpu::settings().devices = 1;
    QVERIFY(probeDevices().problem.find("busy") != std::string::npos);
  }

  void aDeviceThatIsClosedToProgramsIsNoDevice() {
    QCOMPARE(standIn()->restriction("0000:01:00.0"), std::string());
    set("NVML_MODE", 2);
    QCOMPARE(standIn()->restriction("0000:01:00.0"), std::string("prohibited"));
    set("NVML_MODE", 3);
    QCOMPARE(standIn()->restriction("0000:01:00.0"), std::string("exclusive process"));
    QCOMPARE(standIn()->restriction("x"), std::string());
  }
};

QTEST_GUILESS_MAIN(TestDeviceMemory)
#include "tst_device_memory.moc"

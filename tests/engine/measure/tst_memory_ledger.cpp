#include <QtTest>

#include <sstream>
#include <thread>
#include <vector>

#include "engine/backend/host_memory.h"
#include "engine/measure/memory_ledger.h"
#include "engine/measure/process_memory.h"

using namespace vitrine::engine;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Three mappings of a program, a heap, a heap of another thread, a stack behind its guard, the
// model's file and a piece that belongs to nobody.
constexpr const char* kMaps =
    R"(555500000000-555500001000 r-xp 00000000 08:01 11   /usr/bin/some program
Rss:                   4 kB
Anonymous:             0 kB
555500001000-555500003000 rw-p 00001000 08:01 11   /usr/bin/some program
Rss:                   8 kB
Anonymous:             8 kB
555500003000-555500004000 rw-p 00000000 00:00 0 
Rss:                   4 kB
Anonymous:             4 kB
555510000000-555510100000 rw-p 00000000 00:00 0    [heap]
Rss:                 512 kB
Anonymous:           512 kB
7f0004000000-7f0004021000 rw-p 00000000 00:00 0 
Rss:                 100 kB
Anonymous:           100 kB
7f0004021000-7f0008000000 ---p 00000000 00:00 0 
Rss:                   0 kB
Anonymous:             0 kB
7f0020000000-7f0020001000 ---p 00000000 00:00 0 
Rss:                   0 kB
Anonymous:             0 kB
7f0020001000-7f0020801000 rw-p 00000000 00:00 0 
Rss:                  40 kB
Anonymous:            40 kB
7f0030010000-7f0030030000 r--p 00000000 08:01 12   /models/a model.gguf
Rss:                 128 kB
Anonymous:             0 kB
7f0040010000-7f0040020000 rw-p 00000000 00:00 0 
Rss:                  64 kB
Anonymous:            64 kB
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0    [stack]
Rss:                  16 kB
Anonymous:            16 kB
)";
const std::vector<AddressRange> kVariables{{0x555500003000, 0x555500004000}};

}  // namespace

class TestMemoryLedger : public QObject {
  Q_OBJECT

 private slots:
  void mappingsAreSortedByWhatTheyAre() {
    std::istringstream text(kMaps);
    const ProcessMemory memory = sortMappings(text, "/models/a model.gguf", 8 * kMiB, kVariables);
    QVERIFY(memory.known);
    QCOMPARE(memory.otherFiles, std::uint64_t{4} << 10);
    QCOMPARE(memory.programData, std::uint64_t{12} << 10);
    QCOMPARE(memory.heaps, std::uint64_t{612} << 10);
    QCOMPARE(memory.stacks, std::uint64_t{56} << 10);
    QCOMPARE(memory.modelFile, std::uint64_t{128} << 10);
    QCOMPARE(memory.otherAnonymous, std::uint64_t{64} << 10);
    QCOMPARE(memory.mapped, memory.otherFiles + memory.programData + memory.heaps + memory.stacks +
                                memory.modelFile + memory.otherAnonymous);
  }

  // The system makes one mapping of zeroed variables and of what was allocated right behind them.
  void anAllocationBehindVariablesIsNoData() {
    std::istringstream text(
        "7f0000000000-7f0000002000 rw-p 00003000 08:01 11   /usr/lib/some library.so\n"
        "Rss:                   8 kB\n"
        "Anonymous:             8 kB\n"
        "7f0000002000-7f0001002000 rw-p 00000000 00:00 0 \n"
        "Rss:               12000 kB\n"
        "Anonymous:         12000 kB\n");
    const ProcessMemory memory =
        sortMappings(text, {}, 8 * kMiB, {{0x7f0000002000, 0x7f0000004000}});
    QCOMPARE(memory.programData, std::uint64_t{16} << 10);
    QCOMPARE(memory.otherAnonymous, std::uint64_t{11992} << 10);
  }

  void anotherFileIsNotTheModel() {
    std::istringstream text(kMaps);
    const ProcessMemory memory = sortMappings(text, "/models/model.gguf", 8 * kMiB, kVariables);
    QCOMPARE(memory.modelFile, std::uint64_t{0});
    QCOMPARE(memory.otherFiles, std::uint64_t{132} << 10);
  }

  void memoryOfOurOwnIsCountedByPages() {
    const std::size_t before = HostMemory::residentBytes(MemoryUse::kKvCache);
    {
      auto memory = HostMemory::map(32 * kMiB, "a test", MemoryUse::kKvCache);
      QVERIFY(memory.has_value());
      QCOMPARE(HostMemory::residentBytes(MemoryUse::kKvCache), before);
      std::fill_n(memory->data(), 8 * kMiB, std::byte{1});
      const std::size_t touched = HostMemory::residentBytes(MemoryUse::kKvCache) - before;
      QVERIFY2(touched >= 8 * kMiB && touched <= 10 * kMiB, std::to_string(touched).c_str());
      QCOMPARE(HostMemory::residentBytes(MemoryUse::kWeights), std::size_t{0});
      HostMemory moved = std::move(*memory);
      QCOMPARE(HostMemory::residentBytes(MemoryUse::kKvCache) - before, touched);
    }
    QCOMPARE(HostMemory::residentBytes(MemoryUse::kKvCache), before);
  }

  void whatIsAllocatedAppearsInItsPart() {
    const EngineSnapshot empty;
    const MemoryLedger before = readMemoryLedger(empty, {});
    QVERIFY(before.known);
    checkSum(before);

    std::vector<std::vector<char>> small;  // below the size that the allocator maps apart
    for (int i = 0; i < 2000; ++i) small.emplace_back(16 << 10, 'x');
    const MemoryLedger filled = readMemoryLedger(empty, {});
    QVERIFY(filled.heapUsed >= before.heapUsed + 30 * kMiB);
    checkSum(filled);

    std::vector<char> big(40 * kMiB, 'x');
    const MemoryLedger more = readMemoryLedger(empty, {});
    QVERIFY(more.heapUsed >= filled.heapUsed + 39 * kMiB);
    QVERIFY(more.rss >= filled.rss + 39 * kMiB);
    checkSum(more);

    for (std::size_t i = 0; i < small.size(); i += 2) std::vector<char>().swap(small[i]);
    const MemoryLedger holes = readMemoryLedger(empty, {});
    QVERIFY(holes.heapFree >= more.heapFree + 14 * kMiB);
    checkSum(holes);
  }

  void otherThreadsHeapsAndStacksAreFound() {
    const EngineSnapshot empty;
    const MemoryLedger before = readMemoryLedger(empty, {});
    std::atomic<bool> ready = false, done = false;
    std::thread thread([&] {
      volatile char deep[256 << 10];
      for (std::size_t i = 0; i < sizeof deep; i += 4096) deep[i] = 1;
      std::vector<std::vector<char>> own;
      for (int i = 0; i < 1000; ++i) own.emplace_back(16 << 10, 'x');
      ready = true;
      while (!done) std::this_thread::yield();
    });
    while (!ready) std::this_thread::yield();
    const MemoryLedger during = readMemoryLedger(empty, {});
    done = true;
    thread.join();
    QCOMPARE(during.threads, before.threads + 1);
    QVERIFY(during.stacks >= before.stacks + (240 << 10));
    QVERIFY(during.heapUsed >= before.heapUsed + 15 * kMiB);
    checkSum(during);
  }

  void aDevicesMemoryIsBesideTheProcess() {
    EngineSnapshot snapshot;
    snapshot.memory.weightBytes = 500 * kMiB;
    snapshot.memory.workspaceBytes = 40 * kMiB;
    DeviceMemory device;
    device.total = 1000 * kMiB;
    device.free = 300 * kMiB;
    device.weights = 500 * kMiB;
    device.kvBlocks = 60 * kMiB;
    device.kvScales = 10 * kMiB;
    device.kvFree = 20 * kMiB;
    device.workspace = 40 * kMiB;
    device.context = 50 * kMiB;
    device.others = 25 * kMiB;
    snapshot.memory.device = device;
    auto moved = HostMemory::map(4 * kMiB, "a test", MemoryUse::kKvCache);
    QVERIFY(moved.has_value());
    std::fill_n(moved->data(), 4 * kMiB, std::byte{1});
    const MemoryLedger ledger = readMemoryLedger(snapshot, {});
    QVERIFY(ledger.device.has_value());
    std::uint64_t sum = 0;
    for (const auto& part : ledger.deviceParts()) sum += part.bytes;
    QCOMPARE(sum, 695 * kMiB);
    QCOMPARE(ledger.device->residual(), static_cast<std::int64_t>(5 * kMiB));
    QCOMPARE(ledger.gpu, 670 * kMiB);
    // Of the process's memory only blocks that left the device are the engine's.
    QCOMPARE(ledger.weights + ledger.workspace + ledger.kvUsed + ledger.kvFree, std::uint64_t{0});
    QCOMPARE(ledger.kvMoved, HostMemory::residentBytes(MemoryUse::kKvCache));
    QVERIFY(ledger.kvMoved >= 4 * kMiB);
    checkSum(ledger);
    QVERIFY(readMemoryLedger(EngineSnapshot{}, {}).deviceParts().empty());
  }

 private:
  static void checkSum(const MemoryLedger& ledger) {
    const double share =
        std::abs(static_cast<double>(ledger.residual())) / static_cast<double>(ledger.rss);
    std::string parts;
    for (const auto& part : ledger.parts()) {
      parts += std::string(part.name) + " " + std::to_string(part.bytes >> 10) + " KiB, ";
    }
    // A process of a few MiB: some hundred KiB of the C library's own are more than 3 %.
    QVERIFY2(share <= 0.03 || std::abs(ledger.residual()) <= (1 << 20),
             (parts + "of " + std::to_string(ledger.rss >> 10) + " KiB, residual " +
              std::to_string(ledger.residual() / 1024))
                 .c_str());
  }
};

QTEST_APPLESS_MAIN(TestMemoryLedger)
#include "tst_memory_ledger.moc"

// The engine on a device (the CUDA backend on the CPU) whose memory runs short, and one that fails.
#include <QTemporaryDir>
#include <QtTest>

#include "engine/backend/host_memory.h"
#include "engine/measure/memory_ledger.h"
#include "tests/cuda_on_cpu/harness.h"
#include "tests/engine/engine_harness.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
using namespace vitrine::test;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

ChatMessage user(std::string text) {
  return {"user", std::move(text), {}};
}

struct Outcome {
  std::vector<TokenId> answer;
  int reused = 0;

  bool operator==(const Outcome&) const = default;
};

/// Turns of several conversations, one after another; each conversation comes back after all the
/// others had theirs.
std::vector<Outcome> talk(EngineHarness& h, int conversations, int rounds) {
  std::vector<Outcome> outcomes;
  std::vector<std::vector<ChatMessage>> histories(static_cast<std::size_t>(conversations));
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < conversations; ++i) {
      auto& messages = histories[static_cast<std::size_t>(i)];
      messages.push_back(user("Conversation " + std::to_string(i) + ", question " +
                              std::to_string(round) + ": what comes next, and why is it so?"));
      const auto heard = h.ask(greedyChat(messages, 12, "c" + std::to_string(i)));
      if (!heard.report) qFatal("%s", heard.error ? heard.error->message.c_str() : "no report");
      messages.push_back({"assistant", heard.report->text, heard.report->tokenIds});
      outcomes.push_back({heard.report->tokenIds, heard.report->reusedTokens});
    }
  }
  return outcomes;
}

}  // namespace

class TestDevicePressure : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY(folder.isValid());
    TinyModelOptions options;
    options.contextLength = 512;
    random = randomModel(options).save((folder.filePath("random.gguf")).toStdString());
    options.dModel = 256;  // more weights than anything else
    options.dFfn = 1024;
    options.nLayers = 8;
    options.contextLength = 128;
    wide = randomModel(options).save(folder.filePath("wide.gguf").toStdString());
    ParrotOptions endless;
    endless.endless = true;
    parrot = parrotModel("abcdef", endless).save(folder.filePath("parrot.gguf").toStdString());
  }
  void init() {
    cuda_on_cpu::reset();
    cuda_on_cpu::settings().memoryBytes = 256 * kMiB;
    cuda_on_cpu::settings().devices = 2;  // before the program looks for them, once
    config = EngineConfig{};
    config.backend = BackendKind::kCuda;
  }
  void cleanup() {
    cuda_on_cpu::clearFaults();
    QVERIFY2(cuda_on_cpu::counts().holdsNothing(), cuda_on_cpu::describeHeld().c_str());
  }

  void sixConversationsInTheDeviceMemoryOfTwo_data() {
    QTest::addColumn<int>("kv");
    QTest::newRow("FP16") << static_cast<int>(KvType::kFp16);
    QTest::newRow("INT8") << static_cast<int>(KvType::kInt8);
  }
  void sixConversationsInTheDeviceMemoryOfTwo() {
    QFETCH(int, kv);
    constexpr int kConversations = 6, kRounds = 2;
    config.cache.type = static_cast<KvType>(kv);
    config.cache.reuse = true;
    std::vector<Outcome> expected;
    std::uint64_t blockBytes = 0;
    {
      EngineHarness h;
      QVERIFY(h.load(random, config).info);
      expected = talk(h, kConversations, kRounds);
      const auto snapshot = h.idleSnapshot();
      blockBytes = snapshot->bytesPerBlock;
      QCOMPARE(snapshot->memory.device->hostKv, std::uint64_t{0});
    }
    EngineHarness h;
    cuda_on_cpu::settings().lazy = true;
    cuda_on_cpu::settings().shuffle = true;
    cuda_on_cpu::settings().seed = 5;
    config.cache.budgetBytes = 2 * 512 / 16 * blockBytes / 2;  // of two half contexts
    config.cache.hostBudgetBytes = 100 * blockBytes;
    const auto loaded = h.load(random, config);
    QVERIFY2(loaded.info, loaded.error ? loaded.error->message.c_str() : "");
    const auto outcomes = talk(h, kConversations, kRounds);
    const auto snapshot = h.idleSnapshot();
    QCOMPARE(snapshot->shape.nBlocks - snapshot->shape.hostBlocks, 32);
    QVERIFY(snapshot->blocksCached > 32);  // more is kept than the device holds
    QVERIFY(snapshot->memory.device->hostKv > 0);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      QCOMPARE(outcomes[i].answer, expected[i].answer);
      QCOMPARE(outcomes[i].reused, expected[i].reused);  // nothing was computed again
    }
  }

  void manyAtATimeTakeTurnsOnASmallDevice() {
    config.maxSequences = 6;
    EngineHarness h;
    QVERIFY(h.load(parrot, config).info);
    const std::uint64_t blockBytes = h.idleSnapshot()->bytesPerBlock;
    config.cache.budgetBytes = 8 * blockBytes;
    config.cache.hostBudgetBytes = 60 * blockBytes;
    QVERIFY(h.reconfigure(config).info);
    std::vector<RequestId> ids;
    for (int i = 0; i < 6; ++i) {
      ids.push_back(h.engine.generate(
          greedyChat({user("Number " + std::to_string(i))}, 20, "c" + std::to_string(i))));
    }
    for (const RequestId id : ids) {
      const auto heard = h.wait(id);
      QVERIFY2(heard.report, heard.error ? heard.error->message.c_str() : "");
      QCOMPARE(heard.report->generatedTokens, 20);
      QVERIFY(heard.report->text.find("abcdefabcdef") != std::string::npos);
    }
  }

  void theFiguresOfTheDeviceAddUp() {
    // A device that this process had no context on: what others have counts as the context's.
    cuda_on_cpu::settings().othersBytes = 20 * kMiB;
    config.device = 1;
    EngineHarness h;
    QVERIFY(h.load(random, config).info);
    talk(h, 2, 1);
    const auto snapshot = h.idleSnapshot();
    QVERIFY(snapshot->memory.device.has_value());
    const MemoryLedger ledger = readMemoryLedger(*snapshot, random.string());
    QVERIFY(ledger.device.has_value());
    const DeviceMemory& device = *ledger.device;
    QCOMPARE(device.total, 256 * kMiB);
    QCOMPARE(device.context, 20 * kMiB);
    QVERIFY(device.total - device.free >= cuda_on_cpu::counts().deviceBytes + 20 * kMiB);
    QVERIFY(device.weights > 0 && device.kvBlocks > 0 && device.workspace > 0);
    QVERIFY2(std::abs(device.residual()) < static_cast<std::int64_t>(kMiB),
             std::to_string(device.residual()).c_str());
    // What lies on the device is no part of the process's memory.
    QCOMPARE(ledger.workspace, std::uint64_t{0});
    QCOMPARE(ledger.kvUsed, std::uint64_t{0});
    QCOMPARE(ledger.kvMoved, HostMemory::residentBytes(MemoryUse::kKvCache));
    std::uint64_t sum = 0;
    for (const auto& part : ledger.deviceParts()) sum += part.bytes;
    QCOMPARE(static_cast<std::int64_t>(sum) + device.residual(),
             static_cast<std::int64_t>(device.total - device.free));
  }

  void aPoolThatDoesNotFitIsMadeSmaller() {
    int whole = 0;
    {
      EngineHarness h;
      whole = h.load(random, config).info != nullptr ? h.idleSnapshot()->shape.nBlocks : 0;
      QVERIFY(whole > 0);
    }
    int shrunk = 0, refused = 0;
    for (int n = 1; n <= 16; ++n) {
      EngineHarness h;
      cuda_on_cpu::failCall(static_cast<std::uint64_t>(n), cudaErrorMemoryAllocation, "cudaMalloc");
      const auto loaded = h.load(random, config);
      cuda_on_cpu::clearFaults();
      if (!loaded.info) {
        QCOMPARE(loaded.error->code, ErrorCode::kOutOfMemory);
        ++refused;
        continue;
      }
      const auto heard = h.ask(greedyChat({user("Hello")}, 4));
      QVERIFY2(heard.report, heard.error ? heard.error->message.c_str() : "");
      shrunk += h.idleSnapshot()->shape.nBlocks < whole ? 1 : 0;
    }
    QVERIFY2(shrunk > 0, std::to_string(refused).c_str());
  }

  void aDeviceThatIsLostEndsTheTurnAndTheCpuGoesOn() {
    EngineHarness h;
    QVERIFY(h.load(parrot, config).info);
    const RequestId id = h.engine.generate(greedyChat({user("Hello")}, 400));
    h.waitFor(id, [](const EngineHarness::Heard& heard) {
      return heard.tokens.size() >= 5 || heard.ended();
    });
    cuda_on_cpu::loseDeviceAt(1);
    const auto lost = h.wait(id);
    QVERIFY(lost.error.has_value());
    QCOMPARE(lost.error->code, ErrorCode::kDeviceLost);
    QVERIFY2(lost.error->message.find("CPU") != std::string::npos, lost.error->message.c_str());
    // Whoever asks is told the same, and questions about the cache are harmless.
    QCOMPARE(h.ask(greedyChat({user("Again")}, 5)).error->code, ErrorCode::kDeviceLost);
    h.engine.clearCache();
    QVERIFY(h.wait(h.engine.forecast(greedyChat({user("Again")}, 5))).ended());
    QCOMPARE(h.idleSnapshot()->runningSequences, 0);
    config.backend = BackendKind::kCpu;
    const auto moved = h.reconfigure(config);
    QVERIFY2(moved.info, moved.error ? moved.error->message.c_str() : "");
    QCOMPARE(moved.info->backend.name, std::string("cpu"));
    cuda_on_cpu::clearFaults();
    const auto answered = h.ask(greedyChat({user("Hello")}, 12));
    QVERIFY(answered.report.has_value());
    QCOMPARE(answered.report->generatedTokens, 12);
    QCOMPARE(answered.report->reuse.cause, ReuseCause::kEvicted);
  }

  // A device that holds one backend of the model, but not two.
  void aSwitchOnAFullDeviceStaysOnTheDevice_data() {
    QTest::addColumn<int>("backend");
    QTest::newRow("auto") << static_cast<int>(BackendKind::kAuto);
    QTest::newRow("cuda") << static_cast<int>(BackendKind::kCuda);
  }
  void aSwitchOnAFullDeviceStaysOnTheDevice() {
    QFETCH(int, backend);
    config.backend = static_cast<BackendKind>(backend);
    config.precision.weights = WeightMode::kFp16;
    fillWith(random, config, 1.3);
    EngineHarness h;
    const auto loaded = h.load(random, config);
    QVERIFY2(loaded.info, loaded.error ? loaded.error->message.c_str() : "");
    QCOMPARE(loaded.info->backend.name, std::string("cuda"));
    const int blocks = h.idleSnapshot()->shape.nBlocks;
    std::vector<ChatMessage> messages = {user("Hello")};
    const auto first = h.ask(greedyChat(messages, 8));
    QVERIFY2(first.report, first.error ? first.error->message.c_str() : "");
    for (const WeightMode mode : {WeightMode::kInt8, WeightMode::kFp16}) {
      config.precision.weights = mode;
      const auto switched = h.reconfigure(config);
      QVERIFY2(switched.info, switched.error ? switched.error->message.c_str() : "");
      QCOMPARE(switched.info->backend.name, std::string("cuda"));
      // Not a pool that was cut to what was free beside the old one.
      QVERIFY(h.idleSnapshot()->shape.nBlocks >= blocks);
      const auto answered = h.ask(greedyChat(messages, 8));
      QVERIFY2(answered.report, answered.error ? answered.error->message.c_str() : "");
      QCOMPARE(answered.report->weights, std::string(nameOf(mode)));
      if (mode == WeightMode::kFp16) QCOMPARE(answered.report->tokenIds, first.report->tokenIds);
    }
    // Another model in its place, while an answer runs.
    const RequestId running = h.engine.generate(greedyChat(messages, 0));
    h.waitFor(running, [](const EngineHarness::Heard& heard) { return !heard.tokens.empty(); });
    const auto other = h.load(random, config);
    QVERIFY2(other.info, other.error ? other.error->message.c_str() : "");
    QCOMPARE(other.info->backend.name, std::string("cuda"));
    QVERIFY(h.wait(running).report.has_value());
    QVERIFY(h.ask(greedyChat(messages, 4)).report.has_value());
  }

  void aChangeThatDoesNotFitEvenAloneLeavesWhatWasThere() {
    config.precision.weights = WeightMode::kInt8;
    fillWith(wide, config, 1.1);
    EngineHarness h;
    QVERIFY(h.load(wide, config).info);
    const auto first = h.ask(greedyChat({user("Hello")}, 8));
    QVERIFY2(first.report, first.error ? first.error->message.c_str() : "");
    EngineConfig wanted = config;
    wanted.precision.weights = WeightMode::kFp16;
    const auto refused = h.reconfigure(wanted);
    QVERIFY(refused.error.has_value());
    QCOMPARE(refused.error->code, ErrorCode::kOutOfMemory);
    QVERIFY(refused.kept);
    const auto again = h.ask(greedyChat({user("Hello")}, 8));
    QVERIFY2(again.report, again.error ? again.error->message.c_str() : "");
    QCOMPARE(again.report->backend, std::string("cuda"));
    QCOMPARE(again.report->weights, std::string("int8"));
    QCOMPARE(again.report->tokenIds, first.report->tokenIds);
    // With "auto" it goes to the CPU, and says why.
    config.backend = BackendKind::kAuto;
    QVERIFY(h.reconfigure(config).info);
    wanted.backend = BackendKind::kAuto;
    const auto moved = h.reconfigure(wanted);
    QVERIFY2(moved.info, moved.error ? moved.error->message.c_str() : "");
    QCOMPARE(moved.info->backend.name, std::string("cpu"));
    QVERIFY(!moved.info->backend.note.empty());
    QVERIFY(h.ask(greedyChat({user("Hello")}, 8)).report.has_value());
  }

 private:
  /// Gives the device `share` of the memory that a model takes there.
  static void fillWith(const std::filesystem::path& model, const EngineConfig& config,
                       double share) {
    std::size_t taken = 0;
    {
      EngineHarness h;
      const auto loaded = h.load(model, config);
      if (!loaded.info) qFatal("%s", loaded.error ? loaded.error->message.c_str() : "not loaded");
      h.ask(greedyChat({user("Hello")}, 4));
      taken = cuda_on_cpu::counts().deviceBytes;
    }
    cuda_on_cpu::settings().memoryBytes =
        static_cast<std::size_t>(share * static_cast<double>(taken));
  }

  QTemporaryDir folder;
  std::filesystem::path random, parrot, wide;
  EngineConfig config;
};

QTEST_GUILESS_MAIN(TestDevicePressure)
#include "tst_device_pressure.moc"

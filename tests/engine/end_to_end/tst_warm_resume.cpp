#include <QTemporaryDir>
#include <QtTest>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "engine/cache/archive_catalog.h"
#include "tests/engine/engine_harness.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
using namespace vitrine::test;
namespace fs = std::filesystem;

namespace {

std::vector<ChatMessage> chat(int turns) {
  std::vector<ChatMessage> messages;
  for (int i = 0; i < turns; ++i) {
    messages.push_back({"user", "question number " + std::to_string(i) + " of this chat", {}});
    messages.push_back({"assistant", "and an answer", {}});
  }
  messages.push_back({"user", "the last one", {}});
  return messages;
}

}  // namespace

/// Programs that end and start again: the second one finds what the first one kept.
class TestWarmResume : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY(m_models.isValid());
    m_model = fs::path(m_models.path().toStdString()) / "tiny.gguf";
    randomModel().save(m_model.string());
    TinyModelOptions other;
    other.seed = 2;
    m_otherModel = fs::path(m_models.path().toStdString()) / "other.gguf";
    randomModel(other).save(m_otherModel.string());
    EngineHarness h;
    QVERIFY(h.load(m_model, config(false)).info);
    m_expected = ask(h).tokenIds;
    QCOMPARE(m_expected.size(), std::size_t{12});
  }
  void init() {
    m_dir = std::make_unique<QTemporaryDir>();
    m_folder = fs::path(m_dir->path().toStdString()) / "kv";
  }

  void theNextProgramGoesOn() {
    {
      EngineHarness h;
      QVERIFY(h.load(m_model, config()).info);
      QCOMPARE(ask(h).tokenIds, m_expected);
    }
    QVERIFY(ArchiveCatalog::bytesIn(m_folder) > 0);
    EngineHarness h;
    QVERIFY(h.load(m_model, config()).info);
    auto snapshot = h.idleSnapshot();
    QCOMPARE(snapshot->archived.size(), std::size_t{1});
    QCOMPARE(snapshot->archived[0].conversation, std::string("c"));
    QCOMPARE(snapshot->archiveBytes, ArchiveCatalog::bytesIn(m_folder));
    QCOMPARE(snapshot->archiveLimitBytes, ArchiveOptions{}.limitBytes);
    QCOMPARE(snapshot->blocksCached, 0);
    const TurnReport report = ask(h);
    QCOMPARE(report.tokenIds, m_expected);
    QCOMPARE(report.reusedTokens, report.promptTokens - 1);
    QCOMPARE(report.restore.tokens, report.reusedTokens);
    QVERIFY(report.restore.restored);
    QVERIFY(report.restore.recomputeMs > 0);  // the first program measured it
    QVERIFY(report.ttft.restore > 0);
    h.engine.release("c");  // from the pool alone
    QCOMPARE(ask(h).restore.tokens, report.reusedTokens);
    h.engine.clearArchive();
    h.engine.clearCache();
    QCOMPARE(ask(h).reusedTokens, 0);
  }

  void otherModelsAndSettingsDoNotUseIt_data() {
    QTest::addColumn<int>("what");
    QTest::newRow("the same") << 0;
    QTest::newRow("another model") << 1;
    QTest::newRow("KV type") << 2;
    QTest::newRow("KV heads") << 3;
    QTest::newRow("weights") << 4;
    QTest::newRow("activations") << 5;
    QTest::newRow("block size") << 6;
    QTest::newRow("backend") << 7;
  }
  void otherModelsAndSettingsDoNotUseIt() {
    QFETCH(int, what);
    {
      EngineHarness h;
      QVERIFY(h.load(m_model, config()).info);
      ask(h);
    }
    EngineConfig other = config();
    if (what == 2) other.cache.type = KvType::kInt8;
    if (what == 3) other.kvHeads = 4;
    if (what == 4) other.precision.weights = WeightMode::kFp16;
    if (what >= 5) other.precision.weights = WeightMode::kNative;
    if (what == 5) {
      other.precision.weights = WeightMode::kInt8;
      other.precision.activations = ActivationMode::kInt8;
    }
    if (what == 6) other.cache.blockSize = 32;
    if (what == 7) other.backend = BackendKind::kReference;
    TurnReport cold;
    {
      EngineHarness h;
      EngineConfig without = other;
      without.archive.folder.clear();
      QVERIFY(h.load(what == 1 ? m_otherModel : m_model, without).info);
      cold = ask(h);
    }
    EngineHarness h;
    const auto loaded = h.load(what == 1 ? m_otherModel : m_model, other);
    QVERIFY2(loaded.info, loaded.error ? loaded.error->message.c_str() : "");
    const TurnReport report = ask(h);
    QCOMPARE(report.reusedTokens, what == 0 ? report.promptTokens - 1 : 0);
    QCOMPARE(report.restore.tokens > 0, what == 0);
    QCOMPARE(report.tokenIds, cold.tokenIds);
  }

  void changingTheSettingsAndBackBringsItBack() {
    EngineHarness h;
    QVERIFY(h.load(m_model, config()).info);
    ask(h);
    EngineConfig int8 = config();
    int8.cache.type = KvType::kInt8;
    QVERIFY(h.reconfigure(int8).info);
    QCOMPARE(ask(h).reusedTokens, 0);
    QVERIFY(h.reconfigure(config()).info);
    const TurnReport report = ask(h);
    QCOMPARE(report.reusedTokens, report.promptTokens - 1);
    QCOMPARE(report.tokenIds, m_expected);
    h.engine.unload();
    QVERIFY(h.load(m_model, int8).info);
    QVERIFY(ask(h).restore.restored);
  }

  void switchingItOnAndOffTakesEffectAtOnce() {
    EngineHarness h;
    QVERIFY(h.load(m_model, config(false)).info);
    ask(h);
    QVERIFY(h.reconfigure(config()).info);
    auto longer = request(2);
    QVERIFY(h.ask(longer).report);
    QVERIFY(h.reconfigure(config(false)).info);
    QVERIFY(h.ask(longer).report->reusedTokens > 0);  // the pool was not touched
    QVERIFY(h.idleSnapshot()->archived.empty());
  }

  /// Saved without being asked to, and then the engine sleeps: no time of the processor.
  void anIdleEngineSavesAndSleeps() {
    EngineHarness h;
    QVERIFY(h.load(m_model, config()).info);
    ask(h);
    QVERIFY(h.engine.snapshot()->archived.empty());
    QTRY_COMPARE_WITH_TIMEOUT(h.engine.snapshot()->archived.size(), std::size_t{1}, 10000);
    const auto used = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec +
             usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec;
    };
    const auto before = used();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    QVERIFY2(used() - before < 3000, qPrintable(QString("%1 us").arg(used() - before)));
  }

  void temporaryConversationsLeaveNothing() {
    {
      EngineHarness h;
      QVERIFY(h.load(m_model, config()).info);
      auto one = request();
      one.keepOnDisk = false;
      QVERIFY(h.ask(one).report);
      auto other = request(2);
      other.conversation = "d";
      QVERIFY(h.ask(other).report);
      h.engine.forget("d");
    }
    QCOMPARE(ArchiveCatalog::bytesIn(m_folder), std::uint64_t{0});
  }

  /// Programs that are killed at random moments, in the middle of answers and saves.
  void killedAtAnyMomentTheRestSurvives() {
#ifdef __SANITIZE_THREAD__
    QSKIP("ThreadSanitizer cannot start threads after a fork");
#endif
    {
      EngineHarness h;
      QVERIFY(h.load(m_model, config()).info);
      ask(h);
    }
    for (int round = 0; round < 12; ++round) {
      const pid_t child = fork();
      QVERIFY(child >= 0);
      if (child == 0) {
        EngineHarness h;
        if (!h.load(m_model, config()).info) _exit(1);
        for (int i = 0;; ++i) {
          auto one = request(1 + i % 5);
          one.conversation = std::to_string(i % 3);
          h.ask(one);
          // A change of the blocks saves at once.
          EngineConfig other = config();
          other.cache.budgetBytes = (40 + static_cast<std::uint64_t>(i % 2)) << 20;
          h.reconfigure(other);
        }
      }
      usleep(static_cast<useconds_t>(60000 + 17000 * round));
      kill(child, SIGKILL);
      int status = 0;
      QCOMPARE(waitpid(child, &status, 0), child);
      QVERIFY(WIFSIGNALED(status));
      EngineHarness h;
      QVERIFY(h.load(m_model, config()).info);
      const TurnReport report = ask(h);
      QCOMPARE(report.tokenIds, m_expected);
      QCOMPARE(report.reusedTokens, report.promptTokens - 1);
    }
  }

 private:
  EngineConfig config(bool archive = true) const {
    EngineConfig c;
    c.threads = 1;
    c.cache.budgetBytes = 32 << 20;
    if (archive) c.archive.folder = m_folder;
    return c;
  }
  static GenerateRequest request(int turns = 6) {
    auto r = greedyChat(chat(turns), 12);
    r.ignoreEnd = true;
    return r;
  }
  static TurnReport ask(EngineHarness& h) {
    const auto heard = h.ask(request());
    if (heard.error) qWarning("%s", heard.error->message.c_str());
    return heard.report.value_or(TurnReport{});
  }

  QTemporaryDir m_models;
  fs::path m_model, m_otherModel;
  std::vector<TokenId> m_expected;
  std::unique_ptr<QTemporaryDir> m_dir;
  fs::path m_folder;
};

QTEST_GUILESS_MAIN(TestWarmResume)
#include "tst_warm_resume.moc"

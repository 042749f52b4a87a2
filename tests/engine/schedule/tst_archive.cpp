#include <QTemporaryDir>
#include <QtTest>

#include <sys/stat.h>

#include <fstream>
#include <random>
#include <thread>

#include "engine/cache/kv_archive.h"
#include "tests/engine/schedule/scheduler_fixture.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::vector<TokenId> prompt(int seed, int count) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(1 + static_cast<TokenId>(random() % 60));
  return tokens;
}

/// A scheduler with an archive: what a program is between start and end.
struct Run {
  explicit Run(const fs::path& folder, int nBlocks = 64, std::string settings = "a",
               std::uint64_t limit = 1 << 30)
      : f(nBlocks), archive({folder, limit}, [] {}) {
    archive.setDelays(0ms, 0ms);
    archive.attach(f.scheduler->cache(), f.backend, std::move(settings));
    f.scheduler->setArchive(&archive);
    // The test backend computes faster than a disk reads; let it seem as slow as a model.
    archive.setPrediction([this](int, int tokens) { return tokenMs * tokens; });
  }

  /// Answers, and checks that the answer is the one without blocks or disk.
  TurnReport ask(const std::vector<TokenId>& tokens, const std::string& conversation = "c",
                 bool keepOnDisk = true) {
    auto request = SchedulerFixture::greedy(8, true, conversation);
    request.keepOnDisk = keepOnDisk;
    const RequestId id = f.submit(tokens, request);
    const bool drained = f.drain();
    const auto& outcome = f.outcomes[id];
    if (!drained || !f.problem.empty() || !outcome.report) {
      qWarning("%s", f.problem.c_str());
      return {};
    }
    right = outcome.report->tokenIds ==
            SchedulerFixture::expectedAnswer(tokens, request, f.options.contextTokens);
    return *outcome.report;
  }
  void end() { archive.detach(10s); }
  /// Lets it save as the idle engine would.
  void idle() {
    for (auto due = archive.due(); due || saving(); due = archive.due()) {
      if (due) {
        archive.work();
      } else {
        std::this_thread::sleep_for(1ms);
      }
    }
  }
  bool saving() const { return archive.isSaving(); }
  std::vector<std::string> names() const {
    EngineSnapshot snapshot;
    archive.describe(snapshot);
    std::vector<std::string> all;
    for (const auto& one : snapshot.archived) all.push_back(one.conversation);
    std::ranges::sort(all);
    return all;
  }

  SchedulerFixture f;
  KvArchive archive;
  bool right = false;
  double tokenMs = 10;
};

}  // namespace

/// Conversations that come back from disk: after a new start, and after their blocks were evicted.
class TestArchive : public QObject {
  Q_OBJECT

 private slots:
  void init() {
    m_dir = std::make_unique<QTemporaryDir>();
    m_folder = fs::path(m_dir->path().toStdString()) / "kv";
  }

  void aConversationNeedsNoPrefillAfterANewStart_data() {
    QTest::addColumn<int>("length");
    for (const int length : {40, 41, 47, 48, 49, 64, 200}) {
      QTest::addRow("%d tokens", length) << length;
    }
  }
  void aConversationNeedsNoPrefillAfterANewStart() {
    QFETCH(int, length);
    std::vector<TokenId> history = prompt(1, length);
    {
      Run first(m_folder);
      const auto report = first.ask(history);
      QVERIFY(first.right);
      QCOMPARE(report.restore.tokens, 0);
      history.insert(history.end(), report.tokenIds.begin(), report.tokenIds.end());
      first.end();
    }
    Run second(m_folder);
    QCOMPARE(second.names(), std::vector<std::string>{"c"});
    auto next = history;
    next.insert(next.end(), {9, 9, 9});
    const auto report = second.ask(next);
    QVERIFY(second.right);
    // All but the answer's last token, whose K and V nobody needed, and the three new ones.
    QCOMPARE(report.reusedTokens, static_cast<int>(history.size()) - 1);
    QCOMPARE(report.restore.tokens, report.reusedTokens);
    QCOMPARE(report.prefilledTokens, 4);
    QVERIFY(report.restore.restored);
    QVERIFY(report.restore.bytes > 0);
    QVERIFY(report.restore.milliseconds > 0);
    QVERIFY(report.ttft.restore > 0);
    QCOMPARE(report.reuse.reusedTokens, report.reusedTokens);
    QCOMPARE(report.reuse.reason, std::string("continued"));
    QCOMPARE(second.f.backend.computedTokens, 4 + 7);
    // Now the pool has it.
    QCOMPARE(second.ask(next).restore.tokens, 0);
  }

  void everyBranchIsThere() {
    const auto head = prompt(1, 70);
    auto left = head, right = head;
    left.insert(left.end(), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18});
    right.insert(right.end(), {21, 22, 23});
    {
      Run first(m_folder);
      first.ask(left);
      first.ask(right);
      first.end();
      EngineSnapshot snapshot;
      first.archive.describe(snapshot);
      QCOMPARE(snapshot.archived.size(), std::size_t{1});
      // The blocks that both share are there once: 4 of 16, then 31 and 16 positions.
      QCOMPARE(snapshot.archived[0].tokens, 64 + (6 + 18 + 7) + (6 + 3 + 7));
    }
    for (const auto& branch : {left, right}) {
      Run second(m_folder);
      QCOMPARE(second.ask(branch).reusedTokens, static_cast<int>(branch.size()) - 1);
      QVERIFY(second.right);
    }
    Run edited(m_folder);
    auto other = left;
    other[80] = 55;
    QCOMPARE(edited.ask(other).reusedTokens, 80);
    QVERIFY(edited.right);
    QCOMPARE(edited.f.outcomes.begin()->second.report->reuse.reason,
             std::string("edited at token 80"));
  }

  void savedAgainItKeepsWhatThePoolHasLost() {
    const auto one = prompt(1, 90), two = prompt(2, 90);
    Run run(m_folder, 9);  // room for one conversation
    run.ask(one, "c");
    run.idle();
    run.ask(two, "c");
    run.idle();
    QVERIFY(run.f.scheduler->cache().evictedBlocks() > 0);
    const auto report = run.ask(one, "c");
    QVERIFY(run.right);
    QCOMPARE(report.reusedTokens, 89);
    QVERIFY(report.restore.restored);
    QCOMPARE(run.ask(two, "c").reusedTokens, 89);
    QVERIFY(run.right);
  }

  void anotherConversationWithTheSameBeginningProfits() {
    auto tokens = prompt(1, 100);
    {
      Run first(m_folder);
      first.ask(tokens, "a");
      first.end();
    }
    Run second(m_folder);
    tokens.resize(60);
    tokens.push_back(7);
    QCOMPARE(second.ask(tokens, "b").reusedTokens, 60);
    QVERIFY(second.right);
  }

  void onlyWhatHasANameAndMayIsKept() {
    {
      Run run(m_folder);
      run.ask(prompt(1, 50), "");
      run.ask(prompt(2, 50), "private", false);
      run.ask(prompt(3, 50), "kept");
      run.end();
      QCOMPARE(run.names(), std::vector<std::string>{"kept"});
    }
    struct stat status {};
    QCOMPARE(stat(m_folder.c_str(), &status), 0);
    QCOMPARE(status.st_mode & 0777U, 0700U);
    QCOMPARE(std::distance(fs::directory_iterator(m_folder), {}), 1);
  }

  void otherSettingsAreNotUsed() {
    const auto tokens = prompt(1, 80);
    {
      Run first(m_folder);
      first.ask(tokens);
      first.end();
    }
    Run other(m_folder, 64, "b");
    QCOMPARE(other.ask(tokens).reusedTokens, 0);
    QVERIFY(other.right);
    other.end();
    QCOMPARE(std::distance(fs::directory_iterator(m_folder), {}), 2);  // both are kept
    // Under the name that the other settings would have: the text inside is compared, too.
    fs::path a, b;
    for (const auto& entry : fs::directory_iterator(m_folder)) {
      const auto file = ArchiveFile::open(entry.path());
      QVERIFY(file);
      ((*file)->header().settings == "a" ? a : b) = entry.path();
    }
    fs::rename(a, b);
    Run third(m_folder, 64, "b");
    QVERIFY(third.names().empty());
    QCOMPARE(third.ask(tokens).reusedTokens, 0);
    QVERIFY(third.right);
  }

  void damagedBlocksAreComputedAndTheFileRemoved_data() {
    QTest::addColumn<int>("block");
    for (const int block : {0, 3, 6}) QTest::addRow("block %d", block) << block;
  }
  void damagedBlocksAreComputedAndTheFileRemoved() {
    QFETCH(int, block);
    const auto tokens = prompt(1, 110);
    {
      Run first(m_folder);
      first.ask(tokens);
      first.end();
    }
    const fs::path path = fs::directory_iterator(m_folder)->path();
    Run second(m_folder);  // it knows the file as good
    {
      const int blocks = (110 + 7 + 15) / 16, size = 16 * 8;
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(fs::file_size(path)) - (blocks - block) * size + 5);
      const char was = static_cast<char>(file.get());
      file.seekp(-1, std::ios::cur);
      file.put(static_cast<char>(was ^ 4));
    }
    const auto report = second.ask(tokens);
    QVERIFY(second.right);
    QCOMPARE(report.reusedTokens, block * 16);
    QCOMPARE(report.restore.tokens, block * 16);
    QCOMPARE(report.restore.restored, block > 0);
    QVERIFY(!fs::exists(path));
    QVERIFY(second.names().empty());
    second.end();
    QCOMPARE(second.names(), std::vector<std::string>{"c"});  // saved anew
  }

  void filesThatVanishOrCannotBeReadAreNoTrouble() {
    const auto tokens = prompt(1, 80);
    {
      Run first(m_folder);
      first.ask(tokens);
      first.end();
    }
    Run second(m_folder);
    fs::remove_all(m_folder);
    QCOMPARE(second.ask(tokens).reusedTokens, 0);
    QVERIFY(second.right);
    second.end();
    QVERIFY(!second.archive.problem().empty());
    std::ofstream(m_folder) << "a file where the folder should be";
    Run third(m_folder);
    QCOMPARE(third.ask(tokens).reusedTokens, 0);
    QVERIFY(third.right);
    third.end();
    QVERIFY(!third.archive.problem().empty());
  }

  void aDiskWithoutRoomIsReportedAndTriedLater() {
    Run run("/dev/full/kv");
    run.ask(prompt(1, 80));
    QVERIFY(run.right);
    run.idle();
    QVERIFY(!run.archive.problem().empty());
    run.ask(prompt(2, 80));
    QVERIFY(run.archive.due() > KvArchive::Clock::now() + 30s);
  }

  void computingIsChosenWhereItIsFaster() {
    const auto tokens = prompt(1, 200);
    {
      Run first(m_folder);
      first.ask(tokens);
      first.end();
    }
    Run second(m_folder);
    second.tokenMs = 1e-9;
    const auto report = second.ask(tokens);
    QVERIFY(second.right);
    QCOMPARE(report.reusedTokens, 0);
    QCOMPARE(report.restore.tokens, 199);
    QVERIFY(!report.restore.restored);
    QVERIFY(report.restore.milliseconds > report.restore.recomputeMs);
    QCOMPARE(report.ttft.restore, 0.0F);
    Run third(m_folder);
    QVERIFY(third.ask(tokens).restore.restored);
    QVERIFY(third.right);
  }

  void theLeastRecentlyUsedMakesRoom() {
    // A conversation of 7 blocks takes about 1.7 KB.
    Run run(m_folder, 200, "a", 6000);
    for (const char* name : {"1", "2", "3"}) {
      run.ask(prompt(name[0], 100), name);
      run.idle();
      std::this_thread::sleep_for(20ms);
    }
    QCOMPARE(run.names(), (std::vector<std::string>{"1", "2", "3"}));
    run.end();
    Run again(m_folder, 200, "a", 6000);
    again.ask(prompt('1', 100), "1");  // used: now the newest
    std::this_thread::sleep_for(20ms);
    again.ask(prompt('4', 100), "4");
    again.end();
    QCOMPARE(again.names(), (std::vector<std::string>{"1", "3", "4"}));
    again.archive.setLimit(2000);
    QCOMPARE(again.names(), std::vector<std::string>{"4"});
    QVERIFY(ArchiveCatalog::bytesIn(m_folder) <= 2000);
    // Larger than the limit by itself: not written at all.
    Run small(m_folder, 200, "a", 2000);
    small.ask(prompt(77, 400), "large");
    small.end();
    QCOMPARE(small.names(), std::vector<std::string>{"4"});
  }

  void whatIsForgottenIsGone() {
    Run run(m_folder);
    run.ask(prompt(1, 80), "a");
    run.ask(prompt(2, 80), "b");
    run.idle();
    run.ask(prompt(3, 80), "a");
    run.f.scheduler->forget("a");
    run.archive.forget("a");
    run.end();
    QCOMPARE(run.names(), std::vector<std::string>{"b"});
    QCOMPARE(std::distance(fs::directory_iterator(m_folder), {}), 1);
    run.archive.removeAll();
    QVERIFY(run.names().empty());
    QCOMPARE(std::distance(fs::directory_iterator(m_folder), {}), 0);
  }

  void aConversationForgottenWhileItIsWrittenStaysForgotten() {
    for (int steps = 0; steps < 5; ++steps) {
      Run run(m_folder);
      run.ask(prompt(1, 400), "a");
      for (int i = 0; i < steps; ++i) run.archive.work();
      run.f.scheduler->forget("a");
      run.archive.forget("a");
    run.archive.forget("a");
      run.end();
      std::this_thread::sleep_for(20ms);
      QCOMPARE(ArchiveCatalog::bytesIn(m_folder), std::uint64_t{0});
    }
  }

  void nothingIsDueWithoutAChange() {
    Run run(m_folder);
    QVERIFY(!run.archive.due());
    run.ask(prompt(1, 80));
    QVERIFY(run.archive.due());
    run.idle();
    QVERIFY(!run.archive.due());
    const auto time = fs::last_write_time(fs::directory_iterator(m_folder)->path());
    run.ask(prompt(1, 80));  // all of it is on disk already
    run.idle();
    QCOMPARE(fs::last_write_time(fs::directory_iterator(m_folder)->path()), time);
  }

  void stoppingWhileItIsReadIsClean() {
    const auto tokens = prompt(1, 900);
    {
      Run first(m_folder);
      first.ask(tokens);
      first.end();
    }
    Run second(m_folder);
    const RequestId id = second.f.submit(tokens, SchedulerFixture::greedy(8, true));
    second.f.stops[id].request_stop();
    QVERIFY(second.f.drain());
    QCOMPARE(second.f.outcomes[id].report->stopReason, StopReason::kCancelled);
    QCOMPARE(second.f.problem, std::string{});
    second.ask(tokens);
    QVERIFY(second.right);
  }

 private:
  std::unique_ptr<QTemporaryDir> m_dir;
  fs::path m_folder;
};

QTEST_GUILESS_MAIN(TestArchive)
#include "tst_archive.moc"

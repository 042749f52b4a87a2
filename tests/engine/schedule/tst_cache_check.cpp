// The proof that a cached conversation holds what a cold prefill would give: equal where the cache
// is right, and a damaged block is found. On the test backend and on small real models.
#include <QtTest>

#include <algorithm>
#include <map>

#include "engine/backend/backend.h"
#include "engine/model/model.h"
#include "tests/engine/schedule/scheduler_fixture.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
using namespace vitrine::test;

namespace {

GenerateRequest greedy(int maxTokens, std::string conversation = "c") {
  return SchedulerFixture::greedy(maxTokens, true, std::move(conversation));
}

/// A scheduler on any backend, with the proofs that its events brought.
struct Bench {
  Bench(Backend& given, const Scheduler::Options& options, const Tokenizer* modelsOwn = nullptr)
      : backend(given), language(modelsOwn != nullptr ? modelsOwn : &tokenizer) {
    scheduler = std::make_unique<Scheduler>(backend, options, records, [this](const Event& event) {
      if (const auto* verified = std::get_if<CacheVerified>(&event)) proof = verified->proof;
      if (const auto* failed = std::get_if<TurnFailed>(&event)) error = failed->error;
      if (const auto* done = std::get_if<TurnFinished>(&event)) reports[done->id] = done->report;
    });
  }

  std::vector<TokenId> ask(std::vector<TokenId> tokens, const GenerateRequest& request) {
    BuiltPrompt prompt;
    prompt.tokens = tokens;
    const RequestId id = ++lastId;
    scheduler->submit(std::make_unique<Turn>(id, request, std::move(prompt),
                                             Turn::Language{language, &endTokens},
                                             Turn::Clock::now(), std::stop_token()));
    drain();
    const auto& answer = reports.at(id).tokenIds;
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    return tokens;
  }

  void verify(std::vector<TokenId> tokens, std::stop_token stop = {}) {
    proof.reset();
    error.reset();
    scheduler->verify(std::make_unique<CacheCheck>(++lastId, std::move(tokens), stop));
  }

  void drain() {
    for (int i = 0; i < 10000 && !scheduler->isIdle(); ++i) {
      scheduler->step();
      if (problem.empty()) problem = scheduler->checkInvariants();
    }
  }

  std::optional<CacheProof> prove(std::vector<TokenId> tokens) {
    verify(std::move(tokens));
    drain();
    return proof;
  }

  /// One bit of the block's first position.
  bool damage(BlockId block) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(backend.memory().kvBytesPerBlock));
    if (!backend.readBlock(block, bytes)) return false;
    bytes[0] ^= std::byte{0x08};
    return backend.writeBlock(block, bytes).has_value();
  }
  /// The block of this position in the latest history of conversation "c".
  BlockId cachedBlock(int position) const {
    EngineSnapshot snapshot;
    scheduler->describe(snapshot);
    const auto owner = std::ranges::find(snapshot.owners, "c", &CacheOwner::conversation);
    return owner->chain.at(static_cast<std::size_t>(position / 16));
  }

  Backend& backend;
  TestTokenizer tokenizer;
  const Tokenizer* language;
  std::vector<TokenId> endTokens{0};
  Records records;
  std::map<RequestId, TurnReport> reports;
  std::optional<CacheProof> proof;
  std::optional<Error> error;
  std::string problem;
  RequestId lastId = 0;
  std::unique_ptr<Scheduler> scheduler;
};

Scheduler::Options optionsFor(int contextTokens, int chunk = 256) {
  Scheduler::Options options;
  options.contextTokens = contextTokens;
  options.prefillChunk = chunk;
  return options;
}

}  // namespace

class TestCacheCheck : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { QVERIFY(folder.isValid()); }

  void anIntactCacheIsProvedEqual_data() {
    QTest::addColumn<int>("length");
    QTest::addColumn<int>("chunk");
    QTest::newRow("whole blocks") << 64 << 256;
    QTest::newRow("a partial block") << 71 << 256;
    QTest::newRow("less than a block") << 9 << 256;
    QTest::newRow("small chunks") << 71 << 5;
    QTest::newRow("chunks of a block") << 80 << 16;
  }
  void anIntactCacheIsProvedEqual() {
    QFETCH(int, length);
    QFETCH(int, chunk);
    TestBackend backend(64);
    Bench bench(backend, optionsFor(512, chunk));
    auto history = bench.ask(counted(length), greedy(10));
    history.push_back(7);
    const auto before = state(bench);
    const auto proof = bench.prove(history);
    QVERIFY2(proof, bench.error ? bench.error->message.c_str() : "");
    QCOMPARE(proof->tokens, length + 9);
    QCOMPARE(proof->blocks, (length + 9 + 15) / 16);
    QCOMPARE(proof->differentBlocks, 0);
    QCOMPARE(proof->largestLogitDifference, 0.0);
    QVERIFY(proof->klMean < 1e-9);
    QCOMPARE(proof->continuedTokens, 16);
    QCOMPARE(proof->firstDifferentToken, -1);
    QVERIFY(proof->coldMs > 0 && proof->cachedMs > 0);
    QCOMPARE(state(bench), before);
    QCOMPARE(bench.problem, std::string{});
  }

  void aDamagedBlockIsFound_data() {
    QTest::addColumn<int>("position");
    QTest::newRow("the first") << 0;
    QTest::newRow("in the middle") << 32;
    QTest::newRow("the last, which is partial") << 64;
  }
  void aDamagedBlockIsFound() {
    QFETCH(int, position);
    TestBackend backend(64);
    Bench bench(backend, optionsFor(512));
    const auto history = bench.ask(counted(60), greedy(12));
    QVERIFY(bench.damage(bench.cachedBlock(position)));
    const auto proof = bench.prove(history);
    QVERIFY(proof);
    QCOMPARE(proof->differentBlocks, 1);
    QVERIFY(proof->largestLogitDifference > 0);
    QVERIFY(proof->klMean > 0);
    QCOMPARE(proof->firstDifferentToken, 0);
    QCOMPARE(bench.problem, std::string{});
  }

  void sharedAndEditedHistoriesAreEqual() {
    TestBackend backend(64);
    Bench bench(backend, optionsFor(512));
    const auto first = bench.ask(counted(90), greedy(10, "a"));
    auto edited = counted(90);
    edited[50] = 3;
    const auto second = bench.ask(edited, greedy(10, "a"));
    const auto third = bench.ask(counted(90), greedy(20, "b"));
    for (const auto& history : {first, second, third}) {
      const auto proof = bench.prove(history);
      QVERIFY(proof);
      QVERIFY(proof->tokens >= 98);
      QCOMPARE(proof->differentBlocks, 0);
      QCOMPARE(proof->largestLogitDifference, 0.0);
    }
    QCOMPARE(bench.problem, std::string{});
  }

  void answersGoOnMeanwhileAndAreTheSame() {
    TestBackend backend(64);
    Bench bench(backend, optionsFor(512, 32));
    const auto history = bench.ask(counted(100), greedy(10));
    BuiltPrompt prompt;
    prompt.tokens = counted(20, 30);
    bench.scheduler->submit(std::make_unique<Turn>(
        900, greedy(40, "other"), prompt, Turn::Language{&bench.tokenizer, &bench.endTokens},
        Turn::Clock::now(), std::stop_token()));
    bench.scheduler->step();
    const auto steps = bench.records.steps.count();
    bench.verify(history);
    bench.drain();
    QVERIFY(bench.proof);
    QCOMPARE(bench.proof->differentBlocks, 0);
    QCOMPARE(bench.reports.at(900).tokenIds,
             SchedulerFixture::expectedAnswer(prompt.tokens, greedy(40), 512));
    QCOMPARE(bench.records.steps.count() - steps, std::uint64_t{39});  // one a token, as ever
    QCOMPARE(bench.problem, std::string{});
  }

  void saysWhatIsMissing() {
    TestBackend backend(16);
    Bench bench(backend, optionsFor(256));
    QVERIFY(!bench.prove(counted(40)));
    QCOMPARE(bench.error->code, ErrorCode::kNotFound);
    const auto history = bench.ask(counted(150), greedy(10));
    const auto before = state(bench);
    QVERIFY(!bench.prove(history));
    QCOMPARE(bench.error->code, ErrorCode::kOutOfMemory);
    QVERIFY(QString::fromStdString(bench.error->message).contains("free"));
    QCOMPARE(state(bench), before);
    QCOMPARE(bench.problem, std::string{});
  }

  void canBeStopped() {
    TestBackend backend(64);
    Bench bench(backend, optionsFor(512, 16));
    const auto history = bench.ask(counted(100), greedy(10));
    const auto before = state(bench);
    std::stop_source stop;
    bench.verify(history, stop.get_token());
    bench.scheduler->step();
    bench.scheduler->step();
    QVERIFY(!bench.scheduler->isIdle());
    stop.request_stop();
    bench.drain();
    QVERIFY(!bench.proof);
    QCOMPARE(bench.error->code, ErrorCode::kCancelled);
    QCOMPARE(state(bench), before);
    bench.verify(history);
    bench.scheduler->cancelAll();
    QCOMPARE(bench.error->code, ErrorCode::kCancelled);
    QVERIFY(bench.scheduler->isIdle());
  }

  void givesItsBlocksUpForAnAnswer() {
    TestBackend backend(16);
    Bench bench(backend, optionsFor(256, 16));
    const auto history = bench.ask(counted(50), greedy(4));
    bench.verify(history);
    bench.scheduler->step();
    const auto answer = bench.ask(counted(40, 30), greedy(150, "long"));
    QCOMPARE(answer.size(), std::size_t{190});
    QVERIFY(bench.proof || bench.error->code == ErrorCode::kOutOfMemory);
    QCOMPARE(bench.problem, std::string{});
  }

  void smallModelsKeepTheirPromise_data() {
    QTest::addColumn<bool>("cpu");
    QTest::addColumn<bool>("int8");
    for (const bool cpu : {false, true}) {
      for (const bool int8 : {false, true}) {
        QTest::addRow("%s, KV %s", cpu ? "cpu" : "reference", int8 ? "int8" : "fp16")
            << cpu << int8;
      }
    }
  }
  void smallModelsKeepTheirPromise() {
    QFETCH(bool, cpu);
    QFETCH(bool, int8);
    const auto path = randomModel().save(folder.filePath("tiny.gguf").toStdString());
    auto model = Model::load(path);
    QVERIFY(model);
    auto backend =
        cpu ? makeCpuBackend(*model, {}, {}, {}) : makeReferenceBackend(*model, {}, {}, {});
    QVERIFY(backend);
    KvShape shape;
    shape.type = int8 ? KvType::kInt8 : KvType::kFp16;
    shape.nBlocks = 32;
    shape.nKvHeads = (*model)->config().nKvHeads;
    QVERIFY((*backend)->configureCache(shape));
    Bench bench(**backend, optionsFor(512, 24), &(*model)->tokenizer());
    const auto history = bench.ask(counted(45), greedy(20));
    auto edited = history;
    edited[37] = 9;
    const auto branch = bench.ask(edited, greedy(7));
    for (const auto& tokens : {history, branch}) {
      const auto proof = bench.prove(tokens);
      QVERIFY2(proof, bench.error ? bench.error->message.c_str() : "");
      QVERIFY(proof->tokens > 40);
      QCOMPARE(proof->differentBlocks, 0);
      QCOMPARE(proof->largestLogitDifference, 0.0);
      QCOMPARE(proof->firstDifferentToken, -1);
    }
    for (const int position : {48, 16}) {
      QVERIFY(bench.damage(bench.cachedBlock(position)));
      const auto proof = bench.prove(branch);
      QVERIFY(proof);
      QCOMPARE(proof->differentBlocks, position == 48 ? 1 : 2);
      QVERIFY(proof->largestLogitDifference > 0);
    }
    QCOMPARE(bench.problem, std::string{});
  }

 private:
  /// Cells of the block map and the counters.
  static std::string state(const Bench& bench) {
    EngineSnapshot snapshot;
    bench.scheduler->describe(snapshot);
    std::string text = fmt::format(
        "{} {} {} {}", bench.records.totals.promptTokens, bench.records.totals.prefixQueries,
        bench.records.totals.generatedTokens, bench.records.steps.count());
    for (const BlockCell& cell : snapshot.blocks) {
      text += fmt::format(" {}/{}/{}/{}", static_cast<int>(cell.state), cell.filled,
                          cell.references, cell.position);
    }
    return text;
  }

  QTemporaryDir folder;
};

QTEST_GUILESS_MAIN(TestCacheCheck)
#include "tst_cache_check.moc"

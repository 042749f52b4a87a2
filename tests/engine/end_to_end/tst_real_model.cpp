#include <QtTest>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/cache/kv_cache.h"
#include "engine/engine.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/engine_harness.h"
#include "tests/test_model.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
using namespace vitrine::test;

namespace {

constexpr int kAnswer = 128;

ChatMessage user(std::string text) {
  return {"user", std::move(text), {}};
}

GenerateRequest question(std::vector<ChatMessage> messages, std::string conversation = "c") {
  auto request = greedyChat(std::move(messages), kAnswer, std::move(conversation));
  request.ignoreEnd = true;  // always 128 tokens
  return request;
}

}  // namespace

/// SmolLM2-135M: the same 128 greedy tokens, however cache and scheduler are set.
class TestRealModel : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY2(haveTestModel(), missingModelMessage().c_str());
    first = {user("Why is the sky blue?")};
    others = {{user("Write a story about a lighthouse.")},
              {user("List five animals that live in the sea, one a line.")},
              {user("What is the capital of France, and what is it known for?")}};
    EngineHarness h;
    const auto loaded = h.load(testModelPath());
    QVERIFY2(loaded.info, loaded.error ? loaded.error->message.c_str() : "");
    expected = answer(h, first);
    QCOMPARE(expected.size(), std::size_t{kAnswer});
    for (const auto& messages : others) expectedOthers.push_back(answer(h, messages));
  }

  void cachePagedContiguousAndOff_data() {
    QTest::addColumn<int>("mode");
    QTest::newRow("paged") << 0;
    QTest::newRow("contiguous") << 1;
    QTest::newRow("reuse off") << 2;
    QTest::newRow("cache off: every token computes everything") << 3;
    QTest::newRow("small prompt chunks") << 4;
    QTest::newRow("blocks of 32") << 5;
  }
  void cachePagedContiguousAndOff() {
    QFETCH(int, mode);
    EngineConfig config;
    if (mode == 1) config.cache.layout = KvLayout::kContiguous;
    if (mode == 2) config.cache.reuse = false;
    if (mode == 3) config.cache.enabled = false;
    if (mode == 4) config.prefillChunk = 7;
    if (mode == 5) config.cache.blockSize = 32;
    EngineHarness h;
    QVERIFY(h.load(testModelPath(), config).info);
    QCOMPARE(answer(h, first), expected);
    if (mode != 3) QCOMPARE(answer(h, first), expected);  // asked again, from the cache or not
  }

  /// Three times the heads: the same answer from three times the bytes. One head: a third.
  void kvHeadsOnASwitch() {
    EngineHarness h;
    QVERIFY(h.load(testModelPath()).info);
    const auto own = *h.ask(question(first)).report;
    QCOMPARE(own.tokenIds, expected);
    EngineConfig config;
    config.kvHeads = 9;
    const auto repeated = h.reconfigure(config);
    QVERIFY2(repeated.info, repeated.error ? repeated.error->message.c_str() : "");
    QCOMPARE(repeated.info->config.nKvHeads, 9);
    QCOMPARE(repeated.info->ownKvHeads, 3);
    const auto nine = *h.ask(question(first)).report;
    QCOMPARE(nine.tokenIds, expected);
    QCOMPARE(nine.reusedTokens, 0);  // other blocks: nothing of before can serve
    QCOMPARE(nine.reuse.reason, std::string("KV heads changed"));
    QCOMPARE(nine.kv.bytesUsed, 3 * own.kv.bytesUsed);
    QCOMPARE(nine.kv.bytesReserved, 3 * own.kv.bytesReserved);
    QCOMPARE(nine.kv.bytesFormula, 3 * own.kv.bytesFormula);
    const auto nineBlock = h.idleSnapshot()->bytesPerBlock;

    config.kvHeads = 1;
    QVERIFY(h.reconfigure(config).info);
    const auto one = *h.ask(question(first)).report;
    QCOMPARE(one.generatedTokens, own.generatedTokens);
    QVERIFY(one.tokenIds != expected);  // averaging is lossy
    QCOMPARE(3 * one.kv.bytesUsed, own.kv.bytesUsed);
    QCOMPARE(3 * one.kv.bytesReserved, own.kv.bytesReserved);
    QCOMPARE(3 * one.kv.bytesFormula, own.kv.bytesFormula);
    QCOMPARE(9 * h.idleSnapshot()->bytesPerBlock, nineBlock);

    for (int wrong : {2, -1, 18, 5}) {
      config.kvHeads = wrong;
      const auto refused = h.reconfigure(config);
      QVERIFY(refused.error && refused.kept);
      QVERIFY2(refused.error->message.find("it may be 1, 3, 9") != std::string::npos,
               refused.error->message.c_str());
    }
    QCOMPARE(h.ask(question(first)).report->tokenIds, one.tokenIds);
    config.kvHeads = 3;  // the model's own, by its number
    QVERIFY(h.reconfigure(config).info);
    QCOMPARE(answer(h, first), expected);
  }

  void fourTogether() {
    EngineHarness h;
    QVERIFY(h.load(testModelPath()).info);
    const RequestId one = h.engine.generate(question(first, "one"));
    std::vector<RequestId> ids;
    for (std::size_t i = 0; i < others.size(); ++i) {
      ids.push_back(h.engine.generate(question(others[i], std::to_string(i))));
    }
    QCOMPARE(h.wait(one).report->tokenIds, expected);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      QCOMPARE(h.wait(ids[i]).report->tokenIds, expectedOthers[i]);
    }
  }

  void afterAnEditAndARegenerate() {
    EngineHarness h;
    QVERIFY(h.load(testModelPath()).info);
    QCOMPARE(answer(h, {user("Why is the sky green?")}).size(), std::size_t{kAnswer});
    const auto edited = h.ask(question(first));
    QCOMPARE(edited.report->tokenIds, expected);
    QVERIFY(edited.report->reusedTokens > 20);
    QVERIFY(edited.report->reuse.reason.starts_with("edited at token"));
    const auto again = h.ask(question(first));
    QCOMPARE(again.report->tokenIds, expected);
    QCOMPARE(again.report->prefilledTokens, 1);
    QCOMPARE(again.report->reuse.reason, std::string("same prompt again"));
  }

  void tenTurnsPrefillOnlyWhatIsNew() {
    EngineHarness h;
    QVERIFY(h.load(testModelPath()).info);
    const auto model = h.engine.model();
    std::vector<ChatMessage> chat;
    int before = 0;
    for (int turn = 0; turn < 10; ++turn) {
      chat.push_back(user("Tell me fact number " + std::to_string(turn) + " about the sea."));
      const auto heard = h.ask(greedyChat(chat, 24));
      QVERIFY2(heard.report, heard.error ? heard.error->message.c_str() : "");
      const TurnReport& report = *heard.report;
      const int newTokens = report.promptTokens - before;
      if (turn > 0) QVERIFY(report.prefilledTokens <= newTokens + 16);
      QCOMPARE(report.prefilledTokens + report.reusedTokens, report.promptTokens);
      chat.push_back({"assistant", report.text, report.tokenIds});
      before = report.promptTokens + static_cast<int>(report.tokenIds.size());
    }
  }

  /// INT8 KV: blocks that a second sequence reuses (whole ones shared, the last one copied) hold
  /// byte for byte what computing its tokens from nothing writes.
  void reusedInt8BlocksEqualFreshOnes() {
    const auto model = Model::load(testModelPath()).value();
    const auto tokens = model->tokenizer().encode(
        "The sea is deep and full of animals that nobody has ever seen, and every night they come "
        "up to eat; they are followed by others, which follow them down again in the morning.");
    QVERIFY(tokens.size() > 36);
    auto backend = makeBackend(BackendKind::kAuto, model, {}).value();
    KvShape shape;
    shape.type = KvType::kInt8;
    shape.nBlocks = 16;
    shape.nKvHeads = model->config().nKvHeads;
    QVERIFY(backend->configureCache(shape));
    KvCache cache(*backend);
    const auto compute = [&](Sequence& sequence, std::size_t chunk) {
      while (sequence.computed < sequence.length()) {
        const auto done = static_cast<std::size_t>(sequence.computed);
        BatchSequence entry;
        entry.tokens = std::span(sequence.tokens).subspan(done);
        entry.tokens = entry.tokens.first(std::min(chunk, entry.tokens.size()));
        entry.firstPosition = sequence.computed;
        entry.blockTable = sequence.table;
        QVERIFY(backend->forward(std::span(&entry, 1)));
        cache.advance(sequence, static_cast<int>(entry.tokens.size()));
      }
    };
    Sequence early;
    early.tokens.assign(tokens.begin(), tokens.begin() + 36);
    early.tokens.push_back(1);  // it goes on differently
    QVERIFY(cache.begin(early, 0).value());
    compute(early, 9);
    cache.end(early);

    Sequence reused;
    reused.tokens = tokens;
    QVERIFY(cache.begin(reused, 0).value());
    QCOMPARE(reused.computed, 36);
    compute(reused, 5);
    Sequence fresh;
    fresh.tokens = tokens;
    fresh.mode.reuse = false;
    QVERIFY(cache.begin(fresh, 0).value());
    compute(fresh, tokens.size());

    const auto blockBytes = backend->memory().kvBytesPerBlock;
    QCOMPARE(reused.table.size(), fresh.table.size());
    for (std::size_t i = 0; i < tokens.size() / 16; ++i) {  // full blocks
      QVERIFY(reused.table[i] != fresh.table[i]);
      std::vector<std::byte> a(blockBytes), b(blockBytes);
      QVERIFY(backend->readBlock(reused.table[i], a));
      QVERIFY(backend->readBlock(fresh.table[i], b));
      QVERIFY2(a == b, qPrintable(QString("block %1 differs").arg(i)));
    }
  }

 private:
  std::vector<TokenId> answer(EngineHarness& h, const std::vector<ChatMessage>& messages) {
    const auto heard = h.ask(question(messages));
    if (!heard.report) qFatal("%s", heard.error->message.c_str());
    return heard.report->tokenIds;
  }

  std::vector<ChatMessage> first;
  std::vector<std::vector<ChatMessage>> others;
  std::vector<TokenId> expected;
  std::vector<std::vector<TokenId>> expectedOthers;
};

QTEST_APPLESS_MAIN(TestRealModel)
#include "tst_real_model.moc"

#include <QtTest>

#include <vector>

#include "engine/cache/kv_cache.h"
#include "tests/engine/cache/token_lists.h"
#include "tests/engine/test_backend.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;

class TestKvCache : public QObject {
  Q_OBJECT

 private slots:
  void nothingIsFoundInAnEmptyCache() {
    TestBackend backend(8);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(40));
    QCOMPARE(one.computed, 0);
    QCOMPARE(one.table.size(), std::size_t{3});
    check(cache, {&one});
  }

  void reuseIsExactToTheToken_data() {
    QTest::addColumn<int>("common");
    QTest::addColumn<int>("length");
    QTest::addColumn<int>("expected");
    QTest::newRow("nothing in common") << 0 << 50 << 0;
    QTest::newRow("one token") << 1 << 50 << 1;
    QTest::newRow("inside the first block") << 9 << 50 << 9;
    QTest::newRow("block edge") << 16 << 50 << 16;
    QTest::newRow("inside the second block") << 30 << 50 << 30;
    QTest::newRow("into the partly filled last block") << 37 << 50 << 37;
    QTest::newRow("all that was cached") << 40 << 50 << 40;
    QTest::newRow("the same prompt: all but its last token") << 40 << 40 << 39;
    QTest::newRow("a beginning of it") << 33 << 33 << 32;
    QTest::newRow("a beginning that ends at a block edge") << 32 << 32 << 31;
    QTest::newRow("one token alone") << 1 << 1 << 0;
  }
  void reuseIsExactToTheToken() {
    QFETCH(int, common);
    QFETCH(int, length);
    QFETCH(int, expected);
    for (const bool contiguous : {false, true}) {
      TestBackend backend(16);
      KvCache cache(backend);
      const auto cached = counted(40);
      Sequence first = begun(cache, cached, contiguous);
      compute(backend, cache, first);
      cache.end(first);

      auto prompt = counted(common);
      while (static_cast<int>(prompt.size()) < length) prompt.push_back(55);
      Sequence second = begun(cache, prompt, contiguous);
      QCOMPARE(second.computed, expected);
      check(cache, {&second});
      compute(backend, cache, second);
      QCOMPARE(lastLogits, TestBackend::logitsAfter(prompt));
      QCOMPARE(backend.brokenReads, 0);
      cache.end(second);
      check(cache, {});

      // What was cached first is still there, whatever was written since.
      Sequence third = begun(cache, joined(cached, {1, 2}), contiguous);
      QVERIFY2(third.computed == 40, "the first conversation's tail was lost");
      compute(backend, cache, third);
      QCOMPARE(lastLogits, TestBackend::logitsAfter(joined(cached, {1, 2})));
      cache.end(third);
      check(cache, {});
    }
  }

  void runningSequencesShareFullBlocks() {
    TestBackend backend(8);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(40));
    compute(backend, cache, one);
    Sequence two = begun(cache, joined(counted(32), {50, 51}));
    QCOMPARE(two.computed, 32);
    QCOMPARE(two.table[0], one.table[0]);
    QCOMPARE(cache.pool().references(one.table[1]), 2);
    QCOMPARE(cache.pool().usedCount(), 4);
    compute(backend, cache, two);
    check(cache, {&one, &two});
    QCOMPARE(backend.sharedWrites, 0);
  }

  void equalBlocksFilledTogetherBecomeOne() {
    TestBackend backend(8);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(20));
    Sequence two = begun(cache, counted(20));
    QVERIFY(one.table[0] != two.table[0]);
    compute(backend, cache, one);
    compute(backend, cache, two);
    QCOMPARE(one.table[0], two.table[0]);
    QCOMPARE(cache.pool().usedCount(), 3);
    check(cache, {&one, &two});
  }

  void evictsTailsBeforeHeads() {
    TestBackend backend(4);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(48));
    compute(backend, cache, one);
    cache.end(one);
    Sequence other = begun(cache, std::vector<TokenId>(30, 60));
    compute(backend, cache, other);
    QCOMPARE(cache.evictedBlocks(), std::uint64_t{1});
    Sequence again = sequenceOf(counted(48));
    QVERIFY(!cache.begin(again, 0).value());  // 2 used, 2 cached heads: one block short
    cache.end(other);
    again = sequenceOf(counted(48));
    QVERIFY(cache.begin(again, 0).value());
    QCOMPARE(again.computed, 32);
    check(cache, {&again});
  }

  void aSequenceThatDoesNotFitChangesNothing() {
    TestBackend backend(4);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(40));
    compute(backend, cache, one);
    Sequence two = sequenceOf(joined(counted(16), std::vector<TokenId>(30, 9)));
    QVERIFY(!cache.begin(two, 0).value());
    QVERIFY(two.table.empty());
    QCOMPARE(cache.pool().references(one.table[0]), 1);
    check(cache, {&one, &two});
    Sequence small = sequenceOf(std::vector<TokenId>(5, 9));
    QVERIFY(!cache.begin(small, 1).value());  // fits, but leaves no headroom
    QVERIFY(cache.begin(small, 0).value());
  }

  void withoutReuseNothingIsFoundButBlocksStayCached() {
    TestBackend backend(8);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(40));
    compute(backend, cache, one);
    cache.end(one);
    Sequence two = sequenceOf(counted(40));
    two.mode.reuse = false;
    QVERIFY(cache.begin(two, 0).value());
    QCOMPARE(two.computed, 0);
    compute(backend, cache, two);
    cache.end(two);
    check(cache, {});
    Sequence three = begun(cache, counted(40));
    QCOMPARE(three.computed, 39);
  }

  void withoutKeepingNothingStays() {
    TestBackend backend(8);
    KvCache cache(backend);
    Sequence one = sequenceOf(counted(40));
    one.mode.keep = false;
    QVERIFY(cache.begin(one, 0).value());
    compute(backend, cache, one);
    cache.rewind(one);
    QCOMPARE(one.computed, 0);
    compute(backend, cache, one);
    QCOMPARE(backend.computedTokens, 80);
    cache.end(one);
    QCOMPARE(cache.pool().freeCount(), 8);
    check(cache, {});
  }

  void contiguousBlocksLieSideBySideAndGoOnInPlace() {
    TestBackend backend(8);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(20), true);
    QCOMPARE(one.table.size(), std::size_t{4});  // reserved for 64 tokens
    for (std::size_t i = 1; i < 4; ++i) QCOMPARE(one.table[i], one.table[0] + static_cast<int>(i));
    compute(backend, cache, one);
    const auto before = one.table;
    cache.end(one);
    Sequence two = begun(cache, counted(30), true);
    QCOMPARE(two.computed, 20);
    QCOMPARE(two.table, before);
    QCOMPARE(backend.copies, 0);
    // A second one at the same time cannot lie there: it gets a copy.
    compute(backend, cache, two);
    Sequence three = begun(cache, joined(counted(16), {40, 41}), true);
    QCOMPARE(three.computed, 16);
    QCOMPARE(backend.copies, 1);
    check(cache, {&two, &three});
    compute(backend, cache, three);
    QCOMPARE(lastLogits, TestBackend::logitsAfter(joined(counted(16), {40, 41})));
  }

  void forgettingAConversationSparesWhatOthersBuildOn() {
    TestBackend backend(16);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(40), false, "a");
    compute(backend, cache, one);
    cache.end(one);
    Sequence two = begun(cache, joined(counted(32), std::vector<TokenId>(20, 50)), false, "b");
    compute(backend, cache, two);
    cache.end(two);
    cache.forget("a");
    check(cache, {});
    QCOMPARE(cache.pool().cachedCount(), 4);  // 2 shared, 1 full, 1 partly filled of "b"
    Sequence again = begun(cache, joined(counted(32), std::vector<TokenId>(20, 50)), false, "b");
    QCOMPARE(again.computed, 51);
    cache.end(again);
    cache.forget("b");
    QCOMPARE(cache.pool().freeCount(), 16);
    check(cache, {});
  }

  void clearFreesAllThatNobodyUses() {
    TestBackend backend(8);
    KvCache cache(backend);
    Sequence one = begun(cache, counted(40));
    compute(backend, cache, one);
    Sequence two = begun(cache, counted(20, 30));
    compute(backend, cache, two);
    cache.end(two);
    cache.clear();
    QCOMPARE(cache.pool().freeCount(), 5);
    check(cache, {&one});
    cache.end(one);
    QCOMPARE(cache.pool().cachedCount(), 3);
  }

 private:
  static Sequence sequenceOf(std::vector<TokenId> tokens) {
    Sequence sequence;
    sequence.tokens = std::move(tokens);
    return sequence;
  }

  static Sequence begun(KvCache& cache, std::vector<TokenId> tokens, bool contiguous = false,
                        const char* owner = "a") {
    Sequence sequence = sequenceOf(std::move(tokens));
    sequence.owner = cache.ownerFor(owner, "");
    sequence.mode.reserveTokens = contiguous ? 64 : 0;
    const auto result = cache.begin(sequence, 0);
    if (!result || !*result) qFatal("the sequence did not fit");
    return sequence;
  }

  void compute(TestBackend& backend, KvCache& cache, Sequence& sequence) {
    BatchSequence entry;
    entry.tokens = std::span(sequence.tokens).subspan(static_cast<std::size_t>(sequence.computed));
    entry.firstPosition = sequence.computed;
    entry.blockTable = sequence.table;
    const auto logits = backend.forward(std::span(&entry, 1));
    const auto row = logits->row(0);
    lastLogits.assign(row.begin(), row.end());
    cache.advance(sequence, static_cast<int>(entry.tokens.size()));
  }

  static void check(const KvCache& cache, std::vector<const Sequence*> sequences) {
    QCOMPARE(cache.checkInvariants(sequences), std::string{});
  }

  std::vector<float> lastLogits;
};

QTEST_APPLESS_MAIN(TestKvCache)
#include "tst_kv_cache.moc"

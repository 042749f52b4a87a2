#include <QtTest>

#include <vector>

#include "engine/cache/kv_cache.h"
#include "tests/engine/cache/token_lists.h"
#include "tests/engine/test_backend.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;

namespace {

std::vector<TokenId> repeated(int count, TokenId token) {
  return std::vector<TokenId>(static_cast<std::size_t>(count), token);
}

}  // namespace

class TestCacheMap : public QObject {
  Q_OBJECT

 private slots:
  void init() {
    m_backend = std::make_unique<TestBackend>(12);
    m_cache = std::make_unique<KvCache>(*m_backend);
  }

  void aFinishedTurnLeavesItsWholeHistory() {
    const Sequence ended = turn(counted(40), "a", "main");
    const EngineSnapshot seen = look();
    const CacheOwner& owner = ownerIn(seen, "a", "main");
    QCOMPARE(owner.chain.size(), std::size_t{3});
    QCOMPARE(owner.tokens, 40);
    QCOMPARE(owner.sharedBlocks, 0);
    for (std::size_t i = 0; i < owner.chain.size(); ++i) {
      const BlockCell& cell = seen.blocks[static_cast<std::size_t>(owner.chain[i])];
      QCOMPARE(cell.state, BlockState::kCached);
      QCOMPARE(cell.position, static_cast<int>(i) * 16);
      QCOMPARE(static_cast<int>(cell.sharers), 1);
    }
  }

  void branchesShareTheirCommonBeginning() {
    turn(counted(40), "a", "main");
    turn(joined(counted(32), repeated(20, 50)), "a", "7");
    turn(joined(counted(16), repeated(4, 60)), "b", "main");
    const EngineSnapshot seen = look();
    const CacheOwner& main = ownerIn(seen, "a", "main");
    const CacheOwner& edited = ownerIn(seen, "a", "7");
    const CacheOwner& other = ownerIn(seen, "b", "main");
    QCOMPARE(main.chain.size(), std::size_t{3});
    QCOMPARE(edited.chain.size(), std::size_t{4});
    QCOMPARE(other.chain.size(), std::size_t{2});
    QCOMPARE(edited.chain[0], main.chain[0]);
    QCOMPARE(edited.chain[1], main.chain[1]);
    QVERIFY(edited.chain[2] != main.chain[2]);
    QCOMPARE(other.chain[0], main.chain[0]);
    QCOMPARE(main.sharedBlocks, 2);
    QCOMPARE(edited.sharedBlocks, 2);
    QCOMPARE(other.sharedBlocks, 1);
    QCOMPARE(sharersOf(seen, main.chain[0]), 3);
    QCOMPARE(sharersOf(seen, main.chain[1]), 2);
    QCOMPARE(sharersOf(seen, main.chain[2]), 1);
    // Blocks are labelled once, so labels add up to what is there.
    int labelled = 0;
    for (const CacheOwner& owner : seen.owners) labelled += owner.blocks;
    QCOMPARE(labelled, m_cache->pool().cachedCount());
  }

  void aBranchThatGoesOnKeepsOneChain() {
    turn(counted(20), "a", "main");
    turn(counted(50), "a", "main");
    const EngineSnapshot seen = look();
    QCOMPARE(seen.owners.size(), std::size_t{1});
    QCOMPARE(seen.owners[0].chain.size(), std::size_t{4});
    QCOMPARE(m_cache->pool().cachedCount(), 4);
  }

  void aRunningTurnIsShownByItsOwnBlocks() {
    turn(counted(40), "a", "main");
    Sequence running = begun(joined(counted(32), repeated(30, 50)), "b", "main");
    EngineSnapshot seen = look({&running});
    QCOMPARE(ownerIn(seen, "b", "main").chain.size(), std::size_t{2});
    QCOMPARE(sharersOf(seen, running.table[0]), 2);
    // Reserved and not yet written: a place, but no part of the history.
    const BlockCell& ahead = seen.blocks[static_cast<std::size_t>(running.table[3])];
    QCOMPARE(ahead.state, BlockState::kUsed);
    QCOMPARE(ahead.position, 48);
    QCOMPARE(static_cast<int>(ahead.sharers), 0);
    compute(running);
    seen = look({&running});
    QCOMPARE(ownerIn(seen, "b", "main").chain, running.table);
    m_cache->end(running);
  }

  void aChainIsCutWhereABlockWasEvicted() {
    turn(counted(64), "a", "main");    // 4 blocks
    turn(repeated(160, 9), "b", "1");  // 10 of 12: two blocks of a's tail had to go
    const EngineSnapshot seen = look();
    const CacheOwner& owner = ownerIn(seen, "a", "main");
    QCOMPARE(owner.chain.size(), std::size_t{2});
    QCOMPARE(owner.blocks, 2);
    for (const BlockId block : owner.chain) {
      const auto& theirs = ownerIn(seen, "b", "1").chain;
      QVERIFY(std::find(theirs.begin(), theirs.end(), block) == theirs.end());
    }
    // What is gone of the first block onwards is no owner any more.
    turn(repeated(190, 8), "c", "1");
    const EngineSnapshot later = look();
    for (const CacheOwner& one : later.owners) QVERIFY(one.conversation != "a");
  }

  void equalBlocksAreFollowedToTheOneThatStays_data() {
    QTest::addColumn<int>("way");
    QTest::newRow("filled at the same time") << 0;
    QTest::newRow("computed again without reuse") << 1;
    QTest::newRow("copied for the contiguous layout") << 2;
  }
  void equalBlocksAreFollowedToTheOneThatStays() {
    QFETCH(int, way);
    if (way == 0) {
      Sequence one = begun(counted(40), "a", "main");
      Sequence two = begun(counted(40), "b", "main");
      compute(one);
      compute(two);
      m_cache->end(one);
      m_cache->end(two);
    } else {
      turn(counted(40), "a", "main");
      Sequence two = sequenceOf(counted(40), "b", "main");
      two.mode.reuse = way != 1;
      two.mode.reserveTokens = way == 2 ? 48 : 0;
      Sequence blocker = begun(counted(40), "c", "main");  // so that it is copied, not gone on with
      QVERIFY(m_cache->begin(two, 0).value());
      compute(two);
      m_cache->end(two);
      compute(blocker);
      m_cache->end(blocker);
    }
    const EngineSnapshot seen = look();
    const auto& first = ownerIn(seen, "a", "main").chain;
    const auto& second = ownerIn(seen, "b", "main").chain;
    QCOMPARE(second.size(), std::size_t{3});
    QCOMPARE(first.size(), std::size_t{3});
    for (std::size_t i = 0; i < 2; ++i) QCOMPARE(second[i], first[i]);
    for (const BlockId block : second) {
      QCOMPARE(seen.blocks[static_cast<std::size_t>(block)].state, BlockState::kCached);
    }
    // And the chain is what a next turn really starts from.
    Sequence again = begun(joined(counted(40), {1, 2}), "b", "main");
    QCOMPARE(again.computed, 40);
    m_cache->end(again);
  }

  void aTailThatIsCutShortEndsTheOtherChain() {
    // A pool without room for a copy: the tail of "a" is taken over at half its length.
    m_backend = std::make_unique<TestBackend>(3);
    m_cache = std::make_unique<KvCache>(*m_backend);
    turn(counted(40), "a", "main");
    turn(joined(counted(36), repeated(8, 50)), "b", "main");
    const EngineSnapshot seen = look();
    QCOMPARE(ownerIn(seen, "b", "main").chain.size(), std::size_t{3});
    QCOMPARE(ownerIn(seen, "a", "main").chain.size(), std::size_t{2});
  }

  void forgettingAConversationEndsItsChains() {
    turn(counted(40), "a", "main");
    turn(joined(counted(32), repeated(20, 50)), "b", "main");
    m_cache->forget("a");
    EngineSnapshot seen = look();
    QCOMPARE(seen.owners.size(), std::size_t{1});
    QCOMPARE(seen.owners[0].conversation, std::string("b"));
    QCOMPARE(seen.owners[0].chain.size(), std::size_t{4});
    QCOMPARE(seen.owners[0].sharedBlocks, 0);
    m_cache->clear();
    seen = look();
    QVERIFY(seen.owners.empty());
  }

  void aBlockTellsWhatItHoldsAndForWhom() {
    turn(counted(40), "a", "main");
    turn(joined(counted(32), repeated(20, 50)), "a", "7");
    const BlockId shared = ownerIn(look(), "a", "main").chain[1];
    const auto content = m_cache->inspect(shared, {});
    QVERIFY(content.has_value());
    QCOMPARE(content->block, shared);
    QCOMPARE(content->firstPosition, 16);
    QCOMPARE(content->tokens, counted(16, 17));
    QCOMPARE(content->references, 0);
    QCOMPARE(content->holders.size(), std::size_t{2});
    QCOMPARE(content->holders[0].branch, std::string("main"));
    QCOMPARE(content->holders[1].branch, std::string("7"));
    Sequence running = begun(counted(33), "b", "main");
    const Sequence* sequences[] = {&running};
    const auto inUse = m_cache->inspect(shared, sequences);
    QCOMPARE(inUse->references, 1);
    QCOMPARE(inUse->holders.size(), std::size_t{3});
    m_cache->end(running);
  }

  void aBlockThatHoldsNothingIsRefusedInWords() {
    turn(counted(20), "a", "main");
    for (const BlockId block : {-1, 12, 1000}) {
      const auto content = m_cache->inspect(block, {});
      QVERIFY(!content);
      QCOMPARE(content.error().code, ErrorCode::kNotFound);
      QVERIFY(content.error().message.find("0 to 11") != std::string::npos);
    }
    const auto content = m_cache->inspect(11, {});
    QVERIFY(!content);
    QCOMPARE(content.error().message, std::string("block 11 is free"));
  }

  void aHugePoolIsDescribedInLittleTime() {
    m_backend = std::make_unique<TestBackend>(8192);
    m_cache = std::make_unique<KvCache>(*m_backend);
    for (int i = 0; i < 32; ++i) {
      turn(joined(repeated(2048, 3), repeated(2048, 4 + i)), "c" + std::to_string(i), "main");
    }
    QElapsedTimer clock;
    clock.start();
    for (int i = 0; i < 10; ++i) QCOMPARE(look().owners.size(), std::size_t{32});
    const double milliseconds = static_cast<double>(clock.nsecsElapsed()) / 1e7;
    qInfo("a look at 8192 blocks and 32 chains takes %.3f ms", milliseconds);
    QVERIFY(milliseconds < 20);  // about 0.2 in an optimized build on an idle machine
  }

 private:
  Sequence sequenceOf(std::vector<TokenId> tokens, const std::string& conversation,
                      const std::string& branch) {
    Sequence sequence;
    sequence.tokens = std::move(tokens);
    sequence.owner = m_cache->ownerFor(conversation, branch);
    return sequence;
  }

  Sequence begun(std::vector<TokenId> tokens, const std::string& conversation,
                 const std::string& branch) {
    Sequence sequence = sequenceOf(std::move(tokens), conversation, branch);
    const auto result = m_cache->begin(sequence, 0);
    if (!result || !*result) qFatal("the sequence did not fit");
    return sequence;
  }

  void compute(Sequence& sequence) {
    BatchSequence entry;
    entry.tokens = std::span(sequence.tokens).subspan(static_cast<std::size_t>(sequence.computed));
    entry.firstPosition = sequence.computed;
    entry.blockTable = sequence.table;
    QVERIFY(m_backend->forward(std::span(&entry, 1)).has_value());
    m_cache->advance(sequence, static_cast<int>(entry.tokens.size()));
  }

  Sequence turn(std::vector<TokenId> tokens, const std::string& conversation,
                const std::string& branch) {
    Sequence sequence = begun(std::move(tokens), conversation, branch);
    compute(sequence);
    m_cache->end(sequence);
    return sequence;
  }

  EngineSnapshot look(std::vector<const Sequence*> running = {}) const {
    EngineSnapshot snapshot;
    m_cache->describe(running, snapshot);
    return snapshot;
  }

  static const CacheOwner& ownerIn(const EngineSnapshot& snapshot, const std::string& conversation,
                                   const std::string& branch) {
    for (const CacheOwner& owner : snapshot.owners) {
      if (owner.conversation == conversation && owner.branch == branch) return owner;
    }
    qFatal("the owner is not shown");
    return snapshot.owners.front();
  }

  static int sharersOf(const EngineSnapshot& snapshot, BlockId block) {
    return snapshot.blocks[static_cast<std::size_t>(block)].sharers;
  }

  std::unique_ptr<TestBackend> m_backend;
  std::unique_ptr<KvCache> m_cache;
};

QTEST_APPLESS_MAIN(TestCacheMap)
#include "tst_cache_map.moc"

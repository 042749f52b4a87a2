#include <QtTest>

#include <set>
#include <vector>

#include "engine/cache/block_pool.h"

using namespace vitrine::engine;

class TestBlockPool : public QObject {
  Q_OBJECT

 private slots:
  void init() { evicted.clear(); }

  void givesOutEveryBlockOnce() {
    BlockPool pool(5, 16);
    std::set<BlockId> given;
    while (pool.canAllocate(1)) given.insert(pool.allocate(0));
    QCOMPARE(given.size(), std::size_t{5});
    QCOMPARE(pool.usedCount(), 5);
    QVERIFY(!pool.canAllocate(1));
    QCOMPARE(pool.checkInvariants(), std::string{});
  }

  void keptBlocksBecomeCachedAndOthersFree() {
    BlockPool pool(3, 16);
    const BlockId kept = filledBlock(pool, {1, 2});
    pool.setKept(kept, true);
    const BlockId dropped = filledBlock(pool, {3});
    pool.release(kept);
    pool.release(dropped);
    QCOMPARE(pool.cachedCount(), 1);
    QCOMPARE(pool.freeCount(), 2);
    QCOMPARE(pool.filled(kept), 2);
    QCOMPARE(pool.filled(dropped), 0);
    QCOMPARE(pool.checkInvariants(), std::string{});
  }

  void evictsTheLeastRecentlyUsedAfterTheFreeOnes() {
    BlockPool pool(3, 16, [this](BlockId block) { evicted.push_back(block); });
    const BlockId first = cachedBlock(pool, {1});
    const BlockId second = cachedBlock(pool, {2});
    pool.acquire(first);  // used again: now the most recent
    pool.release(first);
    QCOMPARE(pool.freeCount(), 1);
    (void)pool.allocate(0);
    QVERIFY(evicted.empty());
    QCOMPARE(pool.allocate(0), second);
    QCOMPARE(pool.allocate(0), first);
    QCOMPARE(evicted, (std::vector<BlockId>{second, first}));
    QCOMPARE(pool.checkInvariants(), std::string{});
  }

  void sharedBlocksStayUntilTheLastUserLeaves() {
    BlockPool pool(2, 16);
    const BlockId block = filledBlock(pool, {1});
    pool.setKept(block, true);
    pool.acquire(block);
    QCOMPARE(pool.references(block), 2);
    pool.release(block);
    QCOMPARE(pool.cachedCount(), 0);
    pool.release(block);
    QCOMPARE(pool.cachedCount(), 1);
    pool.drop(block);
    QCOMPARE(pool.freeCount(), 2);
    QCOMPARE(pool.checkInvariants(), std::string{});
  }

  void findsTheRunThatEvictsLeast() {
    BlockPool pool(8, 16, [this](BlockId block) { evicted.push_back(block); });
    std::vector<BlockId> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(filledBlock(pool, {i}));
    QCOMPARE(pool.findRun(1), -1);
    for (const BlockId block : {0, 1, 2})
      pool.setKept(blocks[static_cast<std::size_t>(block)], true);
    for (const BlockId block : {0, 1, 2, 4, 5, 6})
      pool.release(blocks[static_cast<std::size_t>(block)]);
    QCOMPARE(pool.findRun(3), 4);
    QCOMPARE(pool.findRun(4), -1);
    pool.release(3);
    QCOMPARE(pool.findRun(4), 3);
    QCOMPARE(pool.findRun(5), 2);
    pool.allocateAt(2, 0);
    QCOMPARE(evicted, (std::vector<BlockId>{2}));
    QCOMPARE(pool.checkInvariants(), std::string{});
  }

 private:
  static BlockId filledBlock(BlockPool& pool, std::vector<TokenId> tokens) {
    const BlockId block = pool.allocate(0);
    pool.append(block, tokens);
    return block;
  }
  static BlockId cachedBlock(BlockPool& pool, std::vector<TokenId> tokens) {
    const BlockId block = filledBlock(pool, std::move(tokens));
    pool.setKept(block, true);
    pool.release(block);
    return block;
  }

  std::vector<BlockId> evicted;
};

QTEST_APPLESS_MAIN(TestBlockPool)
#include "tst_block_pool.moc"

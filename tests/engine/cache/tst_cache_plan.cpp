#include <QtTest>

#include "engine/cache/cache_plan.h"

using namespace vitrine::engine;

class TestCachePlan : public QObject {
  Q_OBJECT

 private slots:
  void init() {
    model = ModelConfig{};
    model.nLayers = 30;
    model.nHeads = 9;
    model.nKvHeads = 3;
    model.headDim = 64;
    model.contextLength = 8192;
    config = EngineConfig{};
    blockBytes = std::uint64_t{2} * 30 * 16 * 3 * 64 * 2;  // K and V, FP16, 16 positions
  }

  void takesAQuarterOfWhatIsFree() {
    const auto plan = planCache(model, config, {4000 * blockBytes, {}}).value();
    QCOMPARE(plan.shape.nBlocks, 1000);
    QCOMPARE(plan.shape.nKvHeads, 3);
    QCOMPARE(plan.contextTokens, 8192);
  }

  void butNoMoreThanEightContexts() {
    QCOMPARE(planCache(model, config, {1'000'000 * blockBytes, {}}).value().shape.nBlocks, 8 * 512);
    config.contextTokens = 1000;  // 63 blocks
    QCOMPARE(planCache(model, config, {1'000'000 * blockBytes, {}}).value().shape.nBlocks, 8 * 63);
  }

  void andAWholeContextWherePossible() {
    QCOMPARE(planCache(model, config, {700 * blockBytes, {}}).value().shape.nBlocks, 512);
    const auto tight = planCache(model, config, {100 * blockBytes, {}}).value();
    QCOMPARE(tight.shape.nBlocks, 90);
    QCOMPARE(tight.contextTokens, 90 * 16);  // what the pool holds is what fits
  }

  void theBudgetIsKept() {
    config.cache.budgetBytes = 100 * blockBytes + 5;
    const auto plan = planCache(model, config, {4000 * blockBytes, {}}).value();
    QCOMPARE(plan.shape.nBlocks, 100);
    QCOMPARE(plan.contextTokens, 1600);
    config.cache.budgetBytes = blockBytes - 1;
    const auto refused = planCache(model, config, {4000 * blockBytes, {}});
    QCOMPARE(refused.error().code, ErrorCode::kInvalidArgument);
    QVERIFY(refused.error().message.find(std::to_string(blockBytes)) != std::string::npos);
    QVERIFY(refused.error().message.find(std::to_string(blockBytes - 1)) != std::string::npos);
  }

  void aDevicesPoolIsHalfAndTheHostComesOnTop() {
    const CacheRoom room{4000 * blockBytes, 8000 * blockBytes};
    const auto plan = planCache(model, config, room).value();
    QCOMPARE(plan.shape.hostBlocks, 1000);
    QCOMPARE(plan.shape.nBlocks, 2000 + 1000);
    QCOMPARE(plan.contextTokens, 8192);
    // What runs lies on the device alone.
    const auto tight = planCache(model, config, {100 * blockBytes, 8000 * blockBytes}).value();
    QCOMPARE(tight.shape.nBlocks - tight.shape.hostBlocks, 90);
    QCOMPARE(tight.contextTokens, 90 * 16);
    // No more than eight contexts in host memory either.
    const auto roomy = planCache(model, config, {4000 * blockBytes, 1'000'000 * blockBytes});
    QCOMPARE(roomy.value().shape.hostBlocks, 8 * 512);
    QCOMPARE(planCache(model, config, {0, 100 * blockBytes}).error().code, ErrorCode::kOutOfMemory);
  }

  void aDevicesBudgetsAreKeptWhereTheyFit() {
    config.cache.budgetBytes = 1000 * blockBytes;
    config.cache.hostBudgetBytes = 50 * blockBytes;
    auto plan = planCache(model, config, {4000 * blockBytes, 8000 * blockBytes}).value();
    QCOMPARE(plan.shape.hostBlocks, 50);
    QCOMPARE(plan.shape.nBlocks, 1000 + 50);
    plan = planCache(model, config, {500 * blockBytes, 8000 * blockBytes}).value();
    QCOMPARE(plan.shape.nBlocks - plan.shape.hostBlocks, 450);
    config.cache.hostBudgetBytes = blockBytes - 1;
    QCOMPARE(planCache(model, config, {4000 * blockBytes, 8000 * blockBytes})->shape.hostBlocks, 0);
  }

  void theContextIsTheUsersUpToTheModels() {
    config.contextTokens = 100;
    QCOMPARE(planCache(model, config, {0, {}}).value().contextTokens, 100);
    config.contextTokens = 100'000;
    QCOMPARE(planCache(model, config, {0, {}}).value().contextTokens, 8192);
    config.contextTokens = -1;
    QVERIFY(!planCache(model, config, {0, {}}));
  }

  void refusesBlockSizes_data() {
    QTest::addColumn<int>("blockSize");
    for (const int size : {-16, 0, 8, 17, 144}) QTest::addRow("%d", size) << size;
  }
  void refusesBlockSizes() {
    QFETCH(int, blockSize);
    config.cache.blockSize = blockSize;
    QCOMPARE(planCache(model, config, {0, {}}).error().code, ErrorCode::kInvalidArgument);
  }

 private:
  ModelConfig model;
  EngineConfig config;
  std::uint64_t blockBytes = 0;
};

QTEST_APPLESS_MAIN(TestCachePlan)
#include "tst_cache_plan.moc"

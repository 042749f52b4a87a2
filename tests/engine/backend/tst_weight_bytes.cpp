#include <QTemporaryDir>
#include <QtTest>

#include "engine/backend/backend.h"
#include "engine/backend/kv_regroup.h"
#include "engine/backend/weight_bytes.h"
#include "engine/model/inspect.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;

/// What is planned of a file's weights is what the backend then holds.
class TestWeightBytes : public QObject {
  Q_OBJECT

 private slots:
  void planEqualsWhatIsHeld_data() {
    QTest::addColumn<int>("mode");
    QTest::addColumn<int>("kvHeads");
    for (const int heads : {1, 2, 4}) {
      for (const WeightMode mode :
           {WeightMode::kNative, WeightMode::kFp16, WeightMode::kBf16, WeightMode::kInt8}) {
        QTest::addRow("%s, %d heads", nameOf(mode), heads) << static_cast<int>(mode) << heads;
      }
    }
  }
  void planEqualsWhatIsHeld() {
    QFETCH(int, mode);
    QFETCH(int, kvHeads);
    QTemporaryDir folder;
    const std::filesystem::path path = folder.filePath("model.gguf").toStdString();
    vitrine::test::randomModel().save(path);
    const auto inspected = inspectModel(path);
    QVERIFY(inspected && inspected->supported);

    const auto model = Model::load(path);
    QVERIFY(model.has_value());
    BackendOptions options;
    options.precision.weights = static_cast<WeightMode>(mode);
    options.kvHeads = kvHeads;
    options.threads = 2;
    const auto backend = makeCpuBackend(*model, options, {}, {});
    QVERIFY2(backend.has_value(), backend ? "" : backend.error().message.c_str());
    const BackendMemory memory = (*backend)->memory();
    QCOMPARE(inspected->weightBytes(static_cast<WeightMode>(mode), kvHeads), memory.weightBytes);
    QCOMPARE(inspected->mappedBytes, memory.mappedBytes);
    QCOMPARE(cpuWeightBytes((*model)->weights(), (*model)->config().nKvHeads, options.precision,
                            kvHeads),
             memory.weightBytes);
  }
};

QTEST_APPLESS_MAIN(TestWeightBytes)
#include "tst_weight_bytes.moc"

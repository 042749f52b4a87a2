#include <sys/stat.h>
#include <QDir>
#include <QFile>
#include <QListView>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTest>

#include "tests/ui/window_parts.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/models/memory_planner.h"
#include "ui/models/model_details.h"
#include "ui/models/model_list.h"
#include "ui/models/model_opener.h"
#include "ui/models/models_page.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using test::WindowParts;

namespace {

struct Scene : WindowParts {
  explicit Scene(const std::function<void(Scene&)>& fill = {}) : opener(engine, settings) {
    QDir().mkpath(folder.filePath("models"));
    if (fill) fill(*this);
    page = std::make_unique<ui::ModelsPage>(engine, settings, opener, folder.filePath("models"));
    page->resize(900, 700);
    page->show();
    (void)QTest::qWaitFor([this] { return !page->isReading(); }, 30'000);
  }
  int rowOf(const QString& part) const {
    for (int row = 0; row < page->models().rowCount(); ++row) {
      if (page->models().index(row).data().toString().contains(part)) return row;
    }
    return -1;
  }
  void choose(int row) {
    auto* view = page->findChild<QListView*>();
    view->setCurrentIndex(view->model()->index(row, 0));
  }

  ui::ModelOpener opener;
  std::unique_ptr<ui::ModelsPage> page;
};

void put(const QString& path, const QByteArray& bytes) {
  QFile file(path);
  QVERIFY(file.open(QIODevice::WriteOnly));
  file.write(bytes);
}

}  // namespace

class TestModelsPage : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void withoutModelsItSaysWhatToDo() {
    Scene scene;
    QCOMPARE(scene.page->models().rowCount(), 0);
    auto* open = scene.page->findChild<QPushButton*>("openFirstFile");
    QVERIFY(open && open->isVisible());
    // A file put into the folder appears by itself.
    scene.writeParrot("models/parrot.gguf", "fine");
    QTRY_COMPARE_WITH_TIMEOUT(scene.page->models().rowCount(), 1, 10'000);
    QVERIFY(!open->isVisible());
  }

  void brokenAndOddFilesAreListedWithTheirReason() {
    Scene scene([](Scene& s) {
      s.writeParrot("models/good.gguf", "fine");
      s.writeParrot("models/<b>bold & 田中　モデル.gguf", "fine");
      put(s.folder.filePath("models/empty.gguf"), {});
      put(s.folder.filePath("models/text.gguf"), "this is no model");
      QFile::copy(s.folder.filePath("models/good.gguf"), s.folder.filePath("models/cut.gguf"));
      QFile::resize(s.folder.filePath("models/cut.gguf"), 100'000);
      QFile::link(s.folder.filePath("nowhere"), s.folder.filePath("models/broken link.gguf"));
      ::mkfifo(qPrintable(s.folder.filePath("models/fifo.gguf")), 0600);
      put(s.folder.filePath("models/readme.txt"), "not a model");
    });
    const ui::ModelList& models = scene.page->models();
    for (const char* name : {"good", "<b>bold & 田中"}) {
      const int row = scene.rowOf(QString::fromUtf8(name));
      QVERIFY2(row >= 0, name);
      QCOMPARE(models.entryAt(row)->problem, QString());
      QVERIFY(models.entryAt(row)->config.nLayers > 0);
    }
    for (const char* name : {"empty", "text", "cut"}) {
      const int row = scene.rowOf(name);
      QVERIFY2(row >= 0, name);
      QVERIFY2(!models.entryAt(row)->problem.isEmpty(), name);
      scene.choose(row);
      auto* problem = scene.page->findChild<ui::PlainLabel*>("modelProblem");
      QVERIFY(problem->isVisible());
      QCOMPARE(problem->text(), models.entryAt(row)->problem);
      QVERIFY(!scene.page->findChild<QPushButton*>("useModel")->isVisible());
    }
    QCOMPARE(scene.rowOf("readme"), -1);
    QVERIFY(!scene.page->grab().isNull());
  }

  void detailsComeFromTheFile() {
    Scene scene([](Scene& s) { s.writeModel("models/tiny.gguf"); });
    scene.choose(0);
    const auto* details = scene.page->findChild<ui::ModelDetails*>();
    QCOMPARE(details->figure("Attention"), QString("GQA 4:2"));
    QCOMPARE(details->figure("Layers × width"), QString("2 × 64"));
    // 2 layers × 2 heads × 16 × 2 × 2 bytes
    QCOMPARE(details->figure("KV FP16 per token"), QString("256 B"));
    const app::ModelEntry& entry = *scene.page->models().entryAt(0);
    QCOMPARE(ui::contextThatFits(entry, engine::KvType::kFp16, entry.bytes + 256 * 100), 100);
    QCOMPARE(ui::contextThatFits(entry, engine::KvType::kFp16, entry.bytes - 1), 0);
    QCOMPARE(ui::contextThatFits(entry, engine::KvType::kFp16, 1ULL << 40), 512);
  }

  void plannerTellsWhatLoadingWillTake() {
    Scene scene([](Scene& s) { s.writeModel("models/tiny.gguf"); });
    scene.choose(0);
    auto* planner = scene.page->findChild<ui::MemoryPlanner*>();
    QVERIFY(planner->isVisibleTo(scene.page.get()));
    QCOMPARE(planner->warning(), QString());
    const QString path = QString::fromStdString(scene.page->models().entryAt(0)->path.string());
    const auto click = [&](const char* name, int index) {
      auto* field = planner->findChild<ui::SegmentedSwitch*>(QString::fromLatin1(name));
      QTest::mouseClick(field, Qt::LeftButton, {}, field->choiceRect(index).center());
    };
    // What it says before a load is what the engine holds after it, to the byte.
    std::uint64_t weightsBefore = 0;
    for (const int mode : {0, 1, 3}) {
      click("planWeights", mode);
      QVERIFY(planner->plan().weightBytes != weightsBefore);
      weightsBefore = planner->plan().weightBytes;
      engine::EngineConfig config = scene.settings.engineConfig();
      config.backend = engine::BackendKind::kCpu;
      config.precision.weights =
          std::array{engine::WeightMode::kNative, engine::WeightMode::kFp16,
                     engine::WeightMode::kBf16, engine::WeightMode::kInt8}[std::size_t(mode)];
      scene.engine.load(app::toPath(path), config);
      QVERIFY(scene.waitUntilSettled() && scene.engine.info());
      QCOMPARE(planner->plan().weightBytes, scene.engine.info()->memory.weightBytes);
      QCOMPARE(planner->plan().mappedBytes, scene.engine.info()->memory.mappedBytes);
      QCOMPARE(planner->plan().kvBytesPerToken * 16, scene.engine.info()->memory.kvBytesPerBlock);
      scene.engine.unload();
      QTRY_VERIFY(!scene.engine.info());
      scene.choose(0);
    }
    // 2 layers × 2 heads × 16 × 2 × 2 bytes; one head: half of it; INT8: half and scales.
    QCOMPARE(planner->plan().kvBytesPerToken, std::uint64_t(256));
    click("planHeads", 0);
    QCOMPARE(planner->plan().kvBytesPerToken, std::uint64_t(128));
    click("planKv", 1);
    QVERIFY(planner->plan().kvBytesPerToken < 128);
    click("planKv", 0);
    click("planHeads", 1);

    // Memory and context follow one another.
    auto* memory = planner->findChild<QSpinBox*>("planMemory");
    auto* context = planner->findChild<QSpinBox*>("planContext");
    QCOMPARE(context->value(), 512);
    context->setValue(100);
    QCOMPARE(std::uint64_t(memory->value()),
             (planner->plan().memoryFor(100) + (1 << 20) - 1) >> 20);
    memory->setValue(2);
    QCOMPARE(context->value(), 512);
    QVERIFY(planner->figure("Chats of that length at a time").toInt() > 1);
    // It warns where it will not fit.
    scene.choose(0);
    planner->showModel(*scene.page->models().entryAt(0), 1000);
    QVERIFY2(planner->warning().contains("will not fit"), qPrintable(planner->warning()));
  }

  void aClickLoadsAndIsRemembered() {
    Scene scene([](Scene& s) { s.writeParrot("models/田中 モデル.gguf", "fine"); });
    scene.choose(0);
    QSignalSpy closed(scene.page.get(), &ui::ModelsPage::closeWanted);
    QTest::mouseClick(scene.page->findChild<QPushButton*>("useModel"), Qt::LeftButton);
    QVERIFY(scene.waitUntilSettled());
    QVERIFY(scene.engine.info());
    QCOMPARE(closed.count(), 1);
    QCOMPARE(int(scene.settings.recentModels().size()), 1);
    QVERIFY(scene.page->models().index(0).data(ui::ModelList::kLoadedRole).toBool());
  }

  void aFileThatDoesNotOpenSaysWhyAndKeepsTheModel() {
    Scene scene([](Scene& s) {
      s.writeParrot("models/good.gguf", "fine");
      put(s.folder.filePath("<u>bad.gguf"), "GGUF but not really");
    });
    scene.opener.open(app::toPath(scene.folder.filePath("models/good.gguf")));
    QVERIFY(scene.waitUntilSettled());
    QSignalSpy failed(&scene.opener, &ui::ModelOpener::failed);
    scene.opener.open(app::toPath(scene.folder.filePath("<u>bad.gguf")));
    QVERIFY(scene.waitUntilSettled());
    QCOMPARE(failed.count(), 1);
    QVERIFY(failed.first().at(2).toBool());  // the model before is still there
    QVERIFY(scene.engine.info());
    auto* fault = scene.page->findChild<ui::PlainLabel*>("loadFailure");
    QVERIFY(fault->isVisible());
    QCOMPARE(fault->textFormat(), Qt::PlainText);
    QVERIFY2(fault->text().contains("<u>bad.gguf"), qPrintable(fault->text()));
    QCOMPARE(int(scene.settings.recentModels().size()), 1);
  }
};

QTEST_MAIN(TestModelsPage)
#include "tst_models_page.moc"

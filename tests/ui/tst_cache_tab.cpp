#include <QHelpEvent>
#include <QPushButton>
#include <QSignalSpy>
#include <QTest>
#include <QToolTip>

#include "engine/model/model.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/tiny_models.h"
#include "tests/ui/settle.h"
#include "tests/ui/window_fixture.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/transcript.h"
#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/inspector/cache/block_map.h"
#include "ui/inspector/cache/block_map_dialog.h"
#include "ui/inspector/cache/block_section.h"
#include "ui/inspector/cache/branch_list.h"
#include "ui/inspector/cache/formula_view.h"
#include "ui/inspector/cache/layout_view.h"
#include "ui/inspector/cache/ledger_view.h"
#include "ui/inspector/inspector_panel.h"

using namespace vitrine;

namespace {

constexpr const char* kSystem =
    "You answer in short sentences and never say more than what was asked for, please.";

// The whole window with a tiny real model that always gives the same answer.
struct Scene : ui::WindowFixture {
  Scene() {
    test::ParrotOptions options;
    options.contextLength = 512;
    const QString path = folder.filePath("parrot.gguf");
    test::parrotModel("blue, green and grey", options).save(path.toStdString());
    settings.setSamplingDefaults({{"temperature", 0}});
    show();
    window->inspector()->showTab("cache");
    engine.load(path.toStdString(), settings.engineConfig());
    loaded = QTest::qWaitFor([this] { return !engine.isLoading() && engine.info(); }, 60'000);
  }

  app::ChatSession* open(const char* systemPrompt = nullptr) {
    app::ChatSession* session = pool.createConversation();
    if (systemPrompt) (void)session->setSystemPrompt(systemPrompt);
    window->openConversation(session->conversation().id);
    return window->chat()->session();
  }
  bool ask(app::ChatSession* session, const QString& text) {
    return session->send(text).has_value() && ended(session);
  }
  static bool ended(app::ChatSession* session) {
    return QTest::qWaitFor([session] { return !session->isRunning(); }, 60'000);
  }

  template <typename Widget>
  Widget* find(const char* name = "") {
    const QString objectName = QString::fromLatin1(name);
    return objectName.isEmpty() ? window->inspector()->findChild<Widget*>()
                                : window->inspector()->findChild<Widget*>(objectName);
  }
  const engine::CacheOwner* owner(const QString& branch) {
    snapshot = engine.snapshot();
    for (const engine::CacheOwner& one : snapshot->owners) {
      if (one.conversation == window->chat()->session()->conversation().uuid.toStdString() &&
          one.branch == branch.toStdString()) {
        return &one;
      }
    }
    return nullptr;
  }
  static QString tipAt(ui::BlockMap* map, int block) {
    const QPoint at = map->cellRect(block).center().toPoint();
    QHelpEvent help(QEvent::ToolTip, at, map->mapToGlobal(at));
    QApplication::sendEvent(map, &help);
    return QToolTip::text();
  }

  std::shared_ptr<const engine::EngineSnapshot> snapshot;
  bool loaded = false;
};

}  // namespace

/// Block map, branches and layouts of the inspector's cache tab, in the window.
class TestCacheTab : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void hoverShowsWhatABlockHolds() {
    Scene scene;
    QVERIFY(scene.loaded);
    app::ChatSession* session = scene.open();
    QVERIFY(scene.ask(session, "Name three colours of the morning sky, please."));
    test::settle();
    auto* map = scene.find<ui::BlockMap>();
    const engine::CacheOwner* main = scene.owner("main");
    QVERIFY(main && main->chain.size() > 2);
    const int block = main->chain[1];
    QString tip = Scene::tipAt(map, block);
    QVERIFY2(tip.contains("FP16") && tip.contains("tokens 16 to 31"), qPrintable(tip));
    QVERIFY2(tip.contains("this chat"), qPrintable(tip));
    QVERIFY2(tip.contains("kept for reuse"), qPrintable(tip));
    // The text comes from the engine a moment later.
    std::string bytes;
    connect(&scene.engine, &app::EngineClient::blockInspected, this,
            [&](quint64, const engine::BlockContent& content) {
              bytes = scene.engine.model()->tokenizer().decode(content.tokens);
            });
    scene.engine.inspectBlock(block);
    QTRY_VERIFY(!bytes.empty());
    const QString expected = QString::fromStdString(bytes).left(8).toHtmlEscaped();
    QTRY_VERIFY2(Scene::tipAt(map, block).contains(expected), qPrintable(QToolTip::text()));
    // A free block has no text and is told as free.
    const int free = int(scene.engine.snapshot()->blocks.size()) > 60 ? 60 : 40;
    QVERIFY(Scene::tipAt(map, free).contains("free"));
  }

  void theMemoryOfAGpuIsShownWhereThereIsOne() {
    ui::LedgerView view;
    engine::MemoryLedger ledger;
    ledger.known = true;
    ledger.rss = ledger.heapUsed = 100 << 20;
    view.showLedger(ledger);
    auto* box = view.findChild<QWidget*>("deviceLedger");
    QVERIFY(box && box->isHidden());
    engine::DeviceMemory device;
    device.total = std::uint64_t{24} << 30;
    device.free = std::uint64_t{10} << 30;
    device.weights = std::uint64_t{13} << 30;
    device.context = std::uint64_t{1} << 30;
    ledger.device = device;
    view.showLedger(ledger);
    QVERIFY(!box->isHidden());
    auto* legend = box->findChild<ui::Legend*>();
    QVERIFY(legend);
    QCOMPARE(legend->entries().size(), 2);  // what is nothing has no entry
    QCOMPARE(legend->entries()[1].text, QString("context"));
    ledger.device.reset();
    view.showLedger(ledger);
    QVERIFY(box->isHidden());
  }

  void keysReachEveryBlock() {
    Scene scene;
    app::ChatSession* session = scene.open();
    QVERIFY(scene.ask(session, "Name three colours."));
    test::settle();
    auto* map = scene.find<ui::BlockMap>();
    QVERIFY(map->focusPolicy() & Qt::TabFocus);
    QVERIFY(map->accessibleDescription().contains("kept for later"));
    map->setFocus();
    QTest::keyClick(map, Qt::Key_Home);
    QCOMPARE(map->pointedAt(), 0);
    QTRY_VERIFY2(map->accessibleDescription().contains(QChar(0x201C)),
                 qPrintable(map->accessibleDescription()));
    QTest::keyClick(map, Qt::Key_Right);
    QCOMPARE(map->pointedAt(), 1);
    QTest::keyClick(map, Qt::Key_Down);
    QVERIFY(map->pointedAt() > 20);
    QTest::keyClick(map, Qt::Key_Left);
    QTest::keyClick(map, Qt::Key_Up);
    QCOMPARE(map->pointedAt(), 0);
  }

  void clickGoesToTheMessage() {
    Scene scene;
    app::ChatSession* session = scene.open();
    for (int i = 0; i < 8; ++i) {
      QVERIFY(scene.ask(session, QString("Question number %1, about colours.").arg(i)));
    }
    const app::ConversationId id = session->conversation().id;
    test::settle();
    const engine::CacheOwner* main = scene.owner("main");
    QVERIFY(main && main->chain.size() > 10);
    const int first = main->chain[0];
    const int last = main->chain[main->chain.size() - 2];
    scene.window->newChat();  // the chat is not even open
    test::settle();
    auto* map = scene.find<ui::BlockMap>();
    QTest::mouseClick(map, Qt::LeftButton, {}, map->cellRect(first).center().toPoint());
    QTRY_VERIFY(scene.window->chat()->session());
    QCOMPARE(scene.window->chat()->session()->conversation().id, id);
    auto* transcript = scene.window->chat()->transcript();
    const auto isVisible = [&](int row) {
      auto* item = reinterpret_cast<QWidget*>(transcript->itemOf(row));
      const QRect seen = transcript->viewport()->rect();
      const QPoint top = item->mapTo(transcript->viewport(), QPoint(0, 0));
      return item->isVisible() && seen.intersects(QRect(top, item->size()));
    };
    QTRY_VERIFY(isVisible(0));
    QVERIFY(!isVisible(15));
    test::settle();
    QTest::mouseClick(map, Qt::LeftButton, {}, map->cellRect(last).center().toPoint());
    QTRY_VERIFY(isVisible(15) || isVisible(14));
    QVERIFY(!isVisible(0));
  }

  void branchesShowWhatTheyShare() {
    Scene scene;
    app::ChatSession* session = scene.open(kSystem);
    QVERIFY(scene.ask(session, "Name three colours of the morning sky, please."));
    QVERIFY(scene.ask(session, "And three of the evening sky, in the same order."));
    test::settle();
    auto* list = scene.find<ui::BranchList>();
    QCOMPARE(list->rowCount(), 1);
    QVERIFY(!list->rowText(0).contains("shared"));
    const auto note = [&] { return scene.find<ui::PlainLabel>("branchNote")->text(); };
    QVERIFY2(note().contains("in one branch"), qPrintable(note()));

    QVERIFY(session->edit(session->rows()[2].message.id, "And three of the sea, rather."));
    QVERIFY(Scene::ended(session));
    const QString branch = session->branchName();
    test::settle();
    QCOMPARE(list->rowCount(), 2);
    const engine::CacheOwner* main = scene.owner("main");
    const engine::CacheOwner* edited = scene.owner(branch);
    QVERIFY(main && edited);
    QVERIFY(main->sharedBlocks > 1);
    for (int row = 0; row < 2; ++row) {
      QVERIFY2(list->rowText(row).contains(
                   QString("%1 shared with other branches").arg(main->sharedBlocks)),
               qPrintable(list->rowText(row)));
    }
    QVERIFY2(note().contains("apart they would hold"), qPrintable(note()));
    // A shared block names both in its tip.
    auto* map = scene.find<ui::BlockMap>();
    const QString tip = Scene::tipAt(map, main->chain[0]);
    QVERIFY2(tip.contains("shared by 2") && tip.contains("branch 2"), qPrintable(tip));

    // Another chat with the same system prompt shares its beginning.
    app::ChatSession* other = scene.open(kSystem);
    QVERIFY(scene.ask(other, "Something else altogether."));
    test::settle();
    QCOMPARE(list->rowCount(), 1);
    QVERIFY2(list->rowText(0).contains("shared with other chats"), qPrintable(list->rowText(0)));
    QVERIFY2(note().contains("other chats"), qPrintable(note()));

    // A click on the first branch brings it back on screen.
    scene.window->openConversation(session->conversation().id);
    session = scene.window->chat()->session();
    QCOMPARE(session->branchName(), branch);
    test::settle();
    QTest::mouseClick(list, Qt::LeftButton, {}, list->rowRect(0).center());
    QTRY_COMPARE(session->branchName(), QString("main"));
    QCOMPARE(session->rows()[2].branchIndex, 0);
  }

  void layoutsCompareReservedAndUsed() {
    Scene scene;
    app::ChatSession* session = scene.open();
    QVERIFY(scene.ask(session, "Name three colours of the morning sky, please."));
    QVERIFY(scene.ask(scene.open(), "Name three colours of the sea."));
    test::settle();
    auto* view = scene.find<ui::LayoutView>();
    using enum engine::KvLayout;
    const auto snapshot = scene.engine.snapshot();
    QCOMPARE(snapshot->owners.size(), std::size_t(2));
    const std::uint64_t contiguous = 2ULL * 512 / 16 * snapshot->bytesPerBlock;
    QCOMPARE(snapshot->contiguousBytes, contiguous);
    QCOMPARE(view->figure("reserved", kContiguous), ui::bytesText(contiguous));
    QVERIFY(view->figure("reserved", kPaged) != view->figure("reserved", kContiguous));
    QVERIFY(view->figure("fit", kPaged) != view->figure("fit", kContiguous));
    // The person's own chats, by their last turns.
    auto* source = scene.find<ui::SegmentedSwitch>("layoutSource");
    QTest::mouseClick(source, Qt::LeftButton, {}, source->choiceRect(1).center());
    QCOMPARE(source->current(), 1);
    QCOMPARE(scene.store->chatLengths().size(), std::size_t(2));
    const int first = session->rows().back().metrics.contextUsed();
    const auto lengths = scene.store->chatLengths();
    QVERIFY(std::find(lengths.begin(), lengths.end(), first) != lengths.end());

    // The switch of the layout changes what a turn really reserves.
    const auto measured = [&] { return scene.find<ui::PlainLabel>("layoutMeasured")->text(); };
    const QString before = measured();
    engine::EngineConfig config = scene.settings.engineConfig();
    config.cache.layout = kContiguous;
    scene.engine.reconfigure(config);
    QTRY_VERIFY(!scene.engine.isLoading());
    session = scene.window->chat()->session();
    QVERIFY(scene.ask(session, "And three more."));
    test::settle();
    QCOMPARE(session->rows().back().metrics.report.kv.blocksUsed, 512 / 16);
    QVERIFY2(measured().contains("32 blocks") && measured() != before, qPrintable(measured()));
  }

  void everyBlockOfTheWholePoolHasACell() {
    Scene scene;
    app::ChatSession* session = scene.open();
    QVERIFY(scene.ask(session, "Name three colours."));
    test::settle();
    auto* section = scene.find<ui::BlockSection>();
    QTest::mouseClick(scene.find<QPushButton>("wholePool"), Qt::LeftButton);
    QVERIFY(section->dialog());
    test::settle();
    ui::BlockMap* map = section->dialog()->map();
    const auto blocks = int(scene.engine.snapshot()->blocks.size());
    QCOMPARE(map->hiddenFreeBlocks(), 0);
    QCOMPARE(map->blockAt(map->cellRect(blocks - 1).center().toPoint()), blocks - 1);
    const QPointF at = map->cellRect(0).center();
    QMouseEvent move(QEvent::MouseMove, at, map->mapToGlobal(at), Qt::NoButton, {}, {});
    QApplication::sendEvent(map, &move);
    auto* text = section->dialog()->findChild<ui::PlainLabel*>("blockText");
    QTRY_VERIFY(text->text().contains(QChar(0x201C)));
    // Live also while another tab is on screen.
    scene.window->inspector()->showTab("latency");
    QVERIFY(scene.ask(session, "And three more, which fill further blocks of the pool."));
    test::settle();
    auto* counts = section->dialog()->findChild<ui::PlainLabel*>("poolCounts");
    QVERIFY2(counts->text().contains(QString("%1 kept").arg(scene.engine.snapshot()->blocksCached)),
             qPrintable(counts->text()));
    section->dialog()->close();
  }
};

QTEST_MAIN(TestCacheTab)
#include "tst_cache_tab.moc"

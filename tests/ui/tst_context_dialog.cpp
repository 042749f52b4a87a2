#include <QListWidget>
#include <QPushButton>
#include <QTest>

#include "tests/ui/window_parts.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/message_item.h"
#include "ui/chat/transcript.h"
#include "ui/common/figure_grid.h"
#include "ui/common/plain_label.h"
#include "ui/composer/composer.h"
#include "ui/composer/input_box.h"
#include "ui/context/context_dialog.h"
#include "ui/theme/theme.h"
#include "ui/topbar/chips.h"
#include "ui/topbar/top_bar.h"

using namespace vitrine;
using engine::ContextPolicy;
using test::WindowParts;

namespace {

// A chat in a context of 256 tokens.
struct Scene : WindowParts {
  Scene() : chat({settings, *store, engine, pool, paths}) {
    test::ParrotOptions options;
    options.contextLength = 256;
    const QString path = folder.filePath("parrot.gguf");
    test::parrotModel("still here and fine", options).save(app::toPath(path));
    loaded = load(path);
    session = pool.createConversation();
    chat.resize(760, 900);
    chat.setSession(session);
    chat.show();
  }
  // Fills the chat until the next turn is too long.
  bool fill() {
    for (int turn = 0; turn < 20 && !session->failure(); ++turn) {
      if (!ask(session, QString("turn %1 says hello").arg(turn))) return false;
      if (session->rows().back().metrics.report.droppedMessages > 0) return true;
    }
    return bool(session->failure());
  }
  QPushButton* pinOf(int row) {
    return chat.transcript()->itemOf(row)->findChild<QPushButton*>("pinMessage");
  }

  ui::ChatView chat;
  app::ChatSession* session = nullptr;
  bool loaded = false;
};

template <typename Widget>
Widget* in(ui::ContextDialog& dialog, ContextPolicy policy, const char* name) {
  return dialog.findChild<QFrame*>(QString("policy-%1").arg(engine::nameOf(policy)))
      ->findChild<Widget*>(name);
}

bool ready(const ui::ContextDialog& dialog) {
  return QTest::qWaitFor([&] { return dialog.outlook().options.size() == 3; }, 20'000);
}

}  // namespace

/// What leaves when the context is full: the dialog, pins, and how the chat shows it.
class TestContextDialog : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void withoutAChatItSaysSo() {
    WindowParts parts;
    ui::ContextDialog dialog(nullptr, {}, parts.engine, parts.settings, nullptr);
    dialog.show();
    QVERIFY(dialog.findChild<ui::PlainLabel*>("contextHeadline")->text().contains("Once a chat"));
    QVERIFY(!in<QPushButton>(dialog, ContextPolicy::kStop, "usePolicy")->isEnabled());
  }

  void aShortChatIsToldWhatWouldLeaveLater() {
    Scene scene;
    QVERIFY(scene.loaded);
    for (int turn = 0; turn < 3; ++turn) QVERIFY(scene.ask(scene.session, "hello"));
    ui::ContextDialog dialog(scene.session, {}, scene.engine, scene.settings, nullptr);
    dialog.show();
    QVERIFY(ready(dialog));
    const app::ContextOutlook& outlook = dialog.outlook();
    QVERIFY(outlook.ahead);
    QVERIFY(outlook.tokensUntilThen > 0);
    QVERIFY(dialog.findChild<ui::PlainLabel*>("contextHeadline")->text().contains("It fits"));
    QVERIFY(outlook.option(ContextPolicy::kStop)->rows.empty());
    QVERIFY(!outlook.option(ContextPolicy::kDropOldest)->rows.empty());
    QCOMPARE(outlook.option(ContextPolicy::kDropOldest)->rows.front(), 0);
    // The engine is asked what the rest costs.
    QTRY_VERIFY(outlook.option(ContextPolicy::kDropOldest)->forecast.has_value());
    const auto& whole = *outlook.option(ContextPolicy::kStop)->forecast;
    const auto& shorter = *outlook.option(ContextPolicy::kDropOldest)->forecast;
    QCOMPARE(whole.promptTokens, outlook.wholeTokens);
    QCOMPARE(shorter.promptTokens, outlook.option(ContextPolicy::kDropOldest)->promptTokens);
    QVERIFY(shorter.reusedTokens < whole.reusedTokens);  // the cached prefix is lost
  }

  void whatIsTellsIsWhatHappens() {
    Scene scene;
    scene.session->setContextPolicy(ContextPolicy::kDropOldest);
    QVERIFY(scene.ask(scene.session, "my name is Ada"));
    QVERIFY(scene.session->setPinned(scene.session->rows()[0].message.id, true));
    const QString next = QString("a long question ").repeated(3);
    // Up to the turn before messages have to leave.
    while (true) {
      ui::ContextDialog dialog(scene.session, next, scene.engine, scene.settings, nullptr);
      QVERIFY(ready(dialog));
      if (!dialog.outlook().ahead) break;
      QVERIFY(scene.ask(scene.session, "short"));
    }
    ui::ContextDialog dialog(scene.session, next, scene.engine, scene.settings, nullptr);
    dialog.show();
    QVERIFY(ready(dialog));
    const std::vector<int> oldest = dialog.outlook().option(ContextPolicy::kDropOldest)->rows;
    const std::vector<int> pinned = dialog.outlook().option(ContextPolicy::kKeepPinned)->rows;
    QVERIFY(!oldest.empty() && !pinned.empty());
    QCOMPARE(oldest.front(), 0);
    QVERIFY(pinned.front() != 0);
    const int tokens = dialog.outlook().option(ContextPolicy::kKeepPinned)->promptTokens;
    auto* list = in<QListWidget>(dialog, ContextPolicy::kKeepPinned, "policyMessages");
    QCOMPARE(list->count(), int(pinned.size()));
    QVERIFY(in<QListWidget>(dialog, ContextPolicy::kDropOldest, "policyMessages")
                ->item(0)
                ->text()
                .contains("my name is Ada"));

    // One click chooses.
    QTest::mouseClick(in<QPushButton>(dialog, ContextPolicy::kKeepPinned, "usePolicy"),
                      Qt::LeftButton);
    QVERIFY(scene.session->contextPolicy() == ContextPolicy::kKeepPinned);
    QCOMPARE(in<ui::PlainLabel>(dialog, ContextPolicy::kKeepPinned, "policyState")->text(),
             QString("in force"));
    QVERIFY(!in<QPushButton>(dialog, ContextPolicy::kKeepPinned, "usePolicy")->isEnabled());

    QVERIFY(scene.ask(scene.session, next));
    std::vector<int> grey;
    for (int row = 0; row < int(scene.session->rows().size()); ++row) {
      if (!scene.session->rows()[std::size_t(row)].inContext) grey.push_back(row);
    }
    QCOMPARE(grey, pinned);
    QCOMPARE(scene.session->rows().back().metrics.report.promptTokens, tokens);

    auto* back = dialog.findChild<QPushButton*>("policyAsSettings");
    QVERIFY(back->isVisible());
    QTest::mouseClick(back, Qt::LeftButton);
    QVERIFY(scene.session->contextPolicy() == ContextPolicy::kStop);
  }

  void greyMessagesEndInALineThatSaysWhy() {
    Scene scene;
    scene.session->setContextPolicy(ContextPolicy::kDropOldest);
    QVERIFY(scene.fill());
    QVERIFY(!scene.session->failure());
    int last = -1;
    for (int row = 0; row < int(scene.session->rows().size()); ++row) {
      if (!scene.session->rows()[std::size_t(row)].inContext) last = row;
    }
    QVERIFY(last > 0);
    auto* transcript = scene.chat.transcript();
    for (int row = 0; row <= last + 1; ++row) {
      QCOMPARE(transcript->itemOf(row)->endsLeftOut(), row == last);
    }
    auto* line = transcript->itemOf(last)->findChild<QWidget*>("leftOutLine");
    QCOMPARE(line->accessibleName(), QString("left out of the prompt: context full"));
    transcript->showRow(last);
    QTRY_VERIFY(line->isVisible());
    QVERIFY(transcript->itemOf(0)->accessibleDescription().contains("left out"));
    QVERIFY(transcript->itemOf(last + 1)->accessibleDescription().isEmpty());
  }

  void aMessageIsPinnedByButtonMenuAndKey() {
    Scene scene;
    QVERIFY(scene.ask(scene.session, "hello"));
    QPushButton* pin = scene.pinOf(0);
    QVERIFY(!pin->isChecked());
    pin->setFocus();
    QTest::keyClick(pin, Qt::Key_Space);
    QVERIFY(scene.session->rows()[0].message.pinned);
    QVERIFY(scene.pinOf(0)->isChecked());
    QCOMPARE(scene.pinOf(0)->text(), QString("Pinned"));
    QVERIFY(scene.store->messages(scene.session->conversation().id)[0].pinned);
    QTest::mouseClick(scene.pinOf(0), Qt::LeftButton);
    QVERIFY(!scene.session->rows()[0].message.pinned);
    QCOMPARE(scene.pinOf(0)->text(), QString("Pin"));
    // The key pins what has the focus, else the last message.
    scene.chat.composer()->focusInput();
    scene.chat.transcript()->togglePin();
    QVERIFY(scene.session->rows()[1].message.pinned);
    scene.pinOf(0)->setFocus();
    scene.chat.transcript()->togglePin();
    QVERIFY(scene.session->rows()[0].message.pinned);
  }

  void theContextChipAsks() {
    WindowParts parts;
    ui::TopBar bar(parts.engine, parts.settings);
    bar.resize(1400, 52);
    bar.show();
    int asked = 0;
    connect(&bar, &ui::TopBar::contextWanted, this, [&] { ++asked; });
    auto* chip = bar.findChild<ui::ContextBar*>("contextChip");
    QTest::mouseClick(chip, Qt::LeftButton);
    chip->setFocus();
    QTest::keyClick(chip, Qt::Key_Space);
    QCOMPARE(asked, 2);
  }

  void theComposerOffersThePreviewAtTheLimit() {
    Scene scene;
    QVERIFY(scene.fill());
    int asked = 0;
    connect(&scene.chat, &ui::ChatView::contextWanted, this, [&] { ++asked; });
    scene.chat.composer()->setDraft(QString("long words ").repeated(8));
    auto* offer = scene.chat.composer()->findChild<QPushButton*>("noticeContext");
    QTRY_VERIFY(offer->isVisible());
    QTest::mouseClick(offer, Qt::LeftButton);
    QCOMPARE(asked, 1);
  }
};

QTEST_MAIN(TestContextDialog)
#include "tst_context_dialog.moc"

#include <QClipboard>
#include <QDragEnterEvent>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QLineEdit>
#include <QListView>
#include <QMimeData>
#include <QPushButton>
#include <QScrollBar>
#include <QSqlDatabase>
#include <QSqlQuery>
#include <QToolTip>

#include "tests/ui/processor_clock.h"
#include "tests/ui/window_fixture.h"
#include "ui/chat/answer_item.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/transcript.h"
#include "ui/chat/user_item.h"
#include "ui/common/toast.h"
#include "ui/composer/composer.h"
#include "ui/composer/input_box.h"
#include "ui/markdown/text_view.h"
#include "ui/sidebar/side_bar.h"

using namespace vitrine;
using namespace vitrine::ui;

namespace {

QByteArray chatOf(const QList<std::pair<QString, QString>>& messages, const QString& title = {}) {
  QJsonArray array;
  for (const auto& [role, content] : messages) {
    array.append(QJsonObject{{"role", role}, {"content", content}});
  }
  QJsonObject chat{{"messages", array}};
  if (!title.isEmpty()) chat["title"] = title;
  return QJsonDocument(chat).toJson();
}

QByteArray longChat(int turns) {
  QList<std::pair<QString, QString>> messages;
  for (int i = 0; i < turns; ++i) {
    messages << std::pair<QString, QString>{
        "user", QString("Question %1 about a word %2").arg(i).arg(i % 7 == 3 ? "needle" : "hay")};
    messages << std::pair<QString, QString>{
        "assistant", QString("Answer %1.\n\n- one\n- two\n\n```python\nx = %1\n```\n").arg(i) +
                         QString("A longer line of text. ").repeated(i % 13)};
  }
  return chatOf(messages);
}

}  // namespace

class TestChatView final : public QObject {
  Q_OBJECT
 private slots:
  void emptyStart();
  void showsMarkdownChat();
  void heightsFollowTheWidth();
  void longChatKeepsFewWidgets();
  void placeIsKeptWhileHeightsAreLearned();
  void typingInALongChatIsFast();
  void findsText();
  void copiesExactText();
  void titlesAreShownAsWritten();
  void deleteCanBeUndone();
  void oldDeletedChatsGoAtTheNextStart();
  void renamesInPlace();
  void draftsStayWithTheirChat();
  void hugePasteBecomesAnAttachment();
  void enterBelongsToTheInputMethod();
  void withoutAModelTheTextStays();
  void narrowWindowsHidePanels();
  void dropsAreAccepted();
  void everythingHasANameAndCanBeReached();
};

void TestChatView::emptyStart() {
  WindowFixture f;
  f.show();
  QCOMPARE(f.window->windowTitle(), QString("Vitrine"));
  WindowFixture::grab(f.window.get(), "empty");
}

void TestChatView::showsMarkdownChat() {
  WindowFixture f;
  const QString file = qEnvironmentVariable("VITRINE_GRAB_CHAT");
  QByteArray json = longChat(3);
  if (!file.isEmpty()) {
    QFile source(file);
    QVERIFY(source.open(QIODevice::ReadOnly));
    json = source.readAll();
  }
  const app::ConversationId id = f.import(json);
  QVERIFY(id != 0);
  f.import(longChat(2));
  f.show();
  for (const bool dark : {true, false}) {
    f.settings.setTheme(dark ? app::Theme::kDark : app::Theme::kLight);
    f.window->openConversation(id);
    QCoreApplication::processEvents();
    Transcript* transcript = f.window->chat()->transcript();
    QVERIFY(transcript->isAtEnd() || !dark);
    transcript->scrollToEnd();
    const QString name = dark ? "chat-dark" : "chat-light";
    WindowFixture::grab(f.window.get(), name + "-end");
    transcript->verticalScrollBar()->setValue(0);
    WindowFixture::grab(f.window.get(), name + "-top");
    transcript->verticalScrollBar()->setValue(500);
    WindowFixture::grab(f.window.get(), name + "-middle");
    f.window->resize(1280, 800);
    WindowFixture::grab(f.window.get(), name + "-1280");
    f.window->resize(760, 700);
    WindowFixture::grab(f.window.get(), name + "-760");
    f.window->resize(1440, 900);
  }
}

void TestChatView::heightsFollowTheWidth() {
  WindowFixture f;
  const app::ConversationId id = f.import(longChat(3));
  f.window->openConversation(id);  // before it is on screen, as when the program starts
  f.settings.setTheme(app::Theme::kLight);
  f.settings.setTheme(app::Theme::kDark);
  f.show();
  Transcript* transcript = f.window->chat()->transcript();
  const auto check = [&] {
    QTest::qWait(50);
    for (int row = 0; row < 6; ++row) {
      MessageItem* item = transcript->itemOf(row);
      if (!item->isVisible()) continue;
      TextView* text = item->textView();
      // The text's own layout, made afresh at the width that it has.
      std::unique_ptr<QTextDocument> copy(text->document()->clone());
      copy->setTextWidth(text->width());
      QVERIFY2(std::abs(text->height() - text->heightAt(text->width())) <= 1,
               qPrintable(QString("row %1").arg(row)));
      QVERIFY2(text->height() <= copy->size().height() + 25,
               qPrintable(QString("row %1: %2 for %3")
                              .arg(row)
                              .arg(text->height())
                              .arg(copy->size().height())));
      QVERIFY(text->height() + 1 >= copy->size().height());
    }
  };
  check();
  // The first chat of a window that is on screen: its page comes into being only now.
  WindowFixture g;
  const app::ConversationId other = g.import(longChat(3));
  g.show();
  QTest::qWait(100);
  g.window->openConversation(other);
  transcript = g.window->chat()->transcript();
  check();
  transcript = f.window->chat()->transcript();
  f.window->resize(700, 800);
  check();
  f.window->resize(1440, 900);
  check();
}

void TestChatView::longChatKeepsFewWidgets() {
  WindowFixture f;
  const app::ConversationId id = f.import(longChat(500));
  f.show();
  const test::ProcessorClock timer;
  f.window->openConversation(id);
  QCoreApplication::processEvents();
  QVERIFY2(timer.milliseconds() < 1500, qPrintable(QString::number(timer.milliseconds())));
  Transcript* transcript = f.window->chat()->transcript();
  QCOMPARE(f.window->chat()->session()->rows().size(), std::size_t(1000));
  QVERIFY(transcript->isAtEnd());
  QVERIFY2(transcript->liveItemCount() < 60,
           qPrintable(QString::number(transcript->liveItemCount())));
  // A walk through all of it leaves no more widgets behind.
  QScrollBar* bar = transcript->verticalScrollBar();
  for (int i = 0; i <= 40; ++i) {
    bar->setValue(bar->maximum() * i / 40);
    QCoreApplication::processEvents();
  }
  QVERIFY2(transcript->liveItemCount() < 60,
           qPrintable(QString::number(transcript->liveItemCount())));
}

void TestChatView::placeIsKeptWhileHeightsAreLearned() {
  WindowFixture f;
  const app::ConversationId id = f.import(longChat(200));
  f.show();
  f.window->openConversation(id);
  Transcript* transcript = f.window->chat()->transcript();
  QCoreApplication::processEvents();
  // Upwards in small steps, as with the wheel: a message moves by the step, whatever was learned.
  QScrollBar* bar = transcript->verticalScrollBar();
  for (int i = 0; i < 30; ++i) {
    MessageItem* seen = nullptr;
    for (auto* item : transcript->findChildren<MessageItem*>()) {
      if (item->isVisible() && item->y() >= 0 && item->y() < transcript->height() / 2) seen = item;
    }
    if (!seen) continue;
    const app::MessageId message = seen->messageId();
    const int before = seen->y();
    bar->setValue(bar->value() - 120);
    QCOMPARE(seen->messageId(), message);
    QCOMPARE(seen->y(), before + 120);
  }
  QVERIFY(!transcript->isAtEnd());
}

void TestChatView::typingInALongChatIsFast() {
  WindowFixture f;
  const app::ConversationId id = f.import(longChat(500));
  f.show();
  f.window->openConversation(id);
  InputBox* input = f.window->chat()->composer()->input();
  QTest::keyClick(input, 'a');
  QCoreApplication::processEvents();
  double worst = 0;
  for (int i = 0; i < 20; ++i) {
    const test::ProcessorClock timer;
    QTest::keyClick(input, Qt::Key('A' + i));
    QCoreApplication::processEvents();
    worst = std::max(worst, timer.milliseconds());
  }
  QVERIFY2(worst < 100, qPrintable(QString::number(worst)));
}

void TestChatView::findsText() {
  WindowFixture f;
  const app::ConversationId id = f.import(longChat(50));
  f.show();
  f.window->openConversation(id);
  QTest::keyClick(f.window.get(), Qt::Key_F, Qt::ControlModifier);
  auto* field = qobject_cast<QLineEdit*>(QApplication::focusWidget());
  QVERIFY(field);
  QTest::keyClicks(field, "NEEDLE");
  QCoreApplication::processEvents();
  // 7 of the 50 questions hold it; the last one is shown first.
  Transcript* transcript = f.window->chat()->transcript();
  const auto marked = [&] {
    int views = 0;
    for (int row = 0; row < 100; ++row) {
      if (!transcript->itemOf(row)->textView()->extraSelections().isEmpty()) ++views;
    }
    return views;
  };
  QCOMPARE(marked(), 7);
  WindowFixture::grab(f.window.get(), "find");
  QTest::keyClick(field, Qt::Key_Return);
  QTest::keyClick(field, Qt::Key_Escape);
  QCOMPARE(marked(), 0);
}

void TestChatView::copiesExactText() {
  const QString answer = "<b>x</b>  \n\n\n* a\n\ttab &amp; ![p](http://127.0.0.1:9/x.png)\n\n";
  WindowFixture f;
  const app::ConversationId id = f.import(chatOf({{"user", "q"}, {"assistant", answer}}));
  f.show();
  f.window->openConversation(id);
  QTest::keyClick(f.window.get(), Qt::Key_C, Qt::ControlModifier | Qt::ShiftModifier);
  QCOMPARE(QGuiApplication::clipboard()->text(), answer);
}

void TestChatView::titlesAreShownAsWritten() {
  const QString title = "<h1>AAA</h1> <img src=\"http://127.0.0.1:9/t.png\"> & &lt; %1";
  WindowFixture f;
  const app::ConversationId id = f.import(chatOf({{"user", "q"}, {"assistant", "a"}}, title));
  QVERIFY(f.store->rename(id, title));
  f.show();
  f.window->openConversation(id);
  QVERIFY(f.window->windowTitle().startsWith(title));
  const QModelIndex index = f.window->sideBar()->list()->model()->index(0, 0);
  QCOMPARE(index.data().toString(), title);
  const QRect row = f.window->sideBar()->list()->visualRect(index);
  QHelpEvent help(QEvent::ToolTip, row.center(),
                  f.window->sideBar()->list()->viewport()->mapToGlobal(row.center()));
  QCoreApplication::sendEvent(f.window->sideBar()->list()->viewport(), &help);
  // Escaped for a widget that would take it for markup.
  QVERIFY2(QToolTip::text().contains("&lt;h1&gt;AAA"), qPrintable(QToolTip::text()));
  QToolTip::hideText();
}

void TestChatView::deleteCanBeUndone() {
  WindowFixture f;
  const app::ConversationId id = f.import(longChat(2));
  f.show();
  f.window->openConversation(id);
  QListView* list = f.window->sideBar()->list();
  QCOMPARE(list->model()->rowCount(), 1);
  list->setFocus();
  QTest::keyClick(list, Qt::Key_Delete);
  QCOMPARE(list->model()->rowCount(), 0);
  QVERIFY(!f.window->chat()->session());
  WindowFixture::grab(f.window.get(), "deleted");
  QPushButton* undo = nullptr;
  for (auto* button : Toast::of(f.window.get())->findChildren<QPushButton*>()) undo = button;
  QVERIFY(undo && undo->isVisible());
  QTest::mouseClick(undo, Qt::LeftButton);
  QCOMPARE(list->model()->rowCount(), 1);
  QVERIFY(f.window->chat()->session());
  QCOMPARE(f.window->chat()->session()->rows().size(), std::size_t(4));
}

void TestChatView::oldDeletedChatsGoAtTheNextStart() {
  WindowFixture f;
  const app::ConversationId fresh = f.import(chatOf({{"user", "yesterday"}}));
  const app::ConversationId old = f.import(chatOf({{"user", "last month"}}));
  QVERIFY(f.store->moveToTrash(fresh) && f.store->moveToTrash(old));
  const auto start = [&f] {
    f.window.reset();
    f.window =
        std::make_unique<MainWindow>(Services{f.settings, *f.store, f.engine, f.pool, f.paths});
  };
  start();
  QCOMPARE(f.store->trash().size(), std::size_t(2));
  {
    QSqlDatabase db = QSqlDatabase::addDatabase("QSQLITE", "clock");
    db.setDatabaseName(f.paths.database);
    QVERIFY(db.open());
    QSqlQuery query(db);
    query.prepare("UPDATE conversations SET trashed = ? WHERE id = ?");
    query.addBindValue(QDateTime::currentDateTime().addDays(-31).toMSecsSinceEpoch());
    query.addBindValue(old);
    QVERIFY(query.exec());
  }
  QSqlDatabase::removeDatabase("clock");
  start();
  QCOMPARE(f.store->trash().size(), std::size_t(1));
  QCOMPARE(f.store->trash().front().id, fresh);
  QVERIFY(f.store->messages(old).empty());
}

void TestChatView::renamesInPlace() {
  WindowFixture f;
  const app::ConversationId id = f.import(longChat(1));
  f.show();
  f.window->openConversation(id);
  QTest::keyClick(f.window.get(), Qt::Key_F2);
  auto* editor = f.window->sideBar()->list()->findChild<QLineEdit*>();
  QVERIFY(editor);
  editor->selectAll();
  QTest::keyClicks(editor, "Caches & seas");
  QTest::keyClick(editor, Qt::Key_Return);
  QTRY_COMPARE(f.store->conversation(id)->title, QString("Caches & seas"));
  QVERIFY(f.window->windowTitle().startsWith("Caches & seas"));
}

void TestChatView::draftsStayWithTheirChat() {
  WindowFixture f;
  const app::ConversationId one = f.import(longChat(1));
  const app::ConversationId two = f.import(longChat(1));
  f.show();
  Composer* composer = f.window->chat()->composer();
  f.window->openConversation(one);
  QTest::keyClicks(composer->input(), "for one");
  f.window->openConversation(two);
  QCOMPARE(composer->draft(), QString());
  QTest::keyClicks(composer->input(), "for two");
  f.window->openConversation(one);
  QCOMPARE(composer->draft(), QString("for one"));
  f.window->openConversation(two);
  QCOMPARE(composer->draft(), QString("for two"));
}

void TestChatView::hugePasteBecomesAnAttachment() {
  WindowFixture f;
  f.show();
  Composer* composer = f.window->chat()->composer();
  const QString huge = QString("a").repeated(500000);
  QGuiApplication::clipboard()->setText(huge);
  const test::ProcessorClock timer;
  composer->input()->setFocus();
  composer->input()->paste();
  QCoreApplication::processEvents();
  QVERIFY2(timer.milliseconds() < 100, qPrintable(QString::number(timer.milliseconds())));
  QCOMPARE(composer->draft(), huge);
  QTest::keyClicks(composer->input(), "What is this?");
  QCOMPARE(composer->draft(), huge + "\n\nWhat is this?");
  WindowFixture::grab(f.window.get(), "attachment");
}

void TestChatView::enterBelongsToTheInputMethod() {
  WindowFixture f;
  f.show();
  InputBox* input = f.window->chat()->composer()->input();
  int sent = 0;
  QObject::connect(input, &InputBox::sendRequested, input, [&] { ++sent; });
  QInputMethodEvent composing("に", {});
  QCoreApplication::sendEvent(input, &composing);
  QTest::keyClick(input, Qt::Key_Return);
  QCOMPARE(sent, 0);
  QInputMethodEvent done;
  done.setCommitString("日");
  QCoreApplication::sendEvent(input, &done);
  QTest::keyClick(input, Qt::Key_Return, Qt::ShiftModifier);
  QCOMPARE(sent, 0);
  QVERIFY(input->toPlainText().contains("日"));
  QTest::keyClick(input, Qt::Key_Return);
  QCOMPARE(sent, 1);
}

void TestChatView::withoutAModelTheTextStays() {
  WindowFixture f;
  f.show();
  Composer* composer = f.window->chat()->composer();
  QTest::keyClicks(composer->input(), "hello");
  QTest::keyClick(composer->input(), Qt::Key_Return);
  QCOMPARE(composer->draft(), QString("hello"));
  QVERIFY(!composer->notice().isEmpty());
  QVERIFY(f.window->isModelsPageShown());
  WindowFixture::grab(f.window.get(), "no-model");
}

void TestChatView::narrowWindowsHidePanels() {
  WindowFixture f;
  f.show();
  QVERIFY(f.window->isSideBarShown() && f.window->isInspectorShown());
  f.window->resize(900, 700);
  QVERIFY(f.window->isSideBarShown());
  QVERIFY(!f.window->isInspectorShown());
  f.window->resize(600, 700);
  QVERIFY(!f.window->isSideBarShown());
  f.window->resize(1440, 900);
  QVERIFY(f.window->isSideBarShown() && f.window->isInspectorShown());
  QTest::keyClick(f.window.get(), Qt::Key_I, Qt::ControlModifier);
  QVERIFY(!f.window->isInspectorShown());
  f.window->resize(1500, 900);
  QVERIFY(!f.window->isInspectorShown());  // what the person hid stays hidden
  // Asked for where only one fits, it takes the side bar's place.
  f.window->resize(900, 700);
  QTest::keyClick(f.window.get(), Qt::Key_I, Qt::ControlModifier);
  QVERIFY(f.window->isInspectorShown());
  QVERIFY(!f.window->isSideBarShown());
}

void TestChatView::dropsAreAccepted() {
  WindowFixture f;
  f.show();
  const QString file = f.folder.path() + "/chat ü.json";
  QFile out(file);
  QVERIFY(out.open(QIODevice::WriteOnly));
  out.write(longChat(1));
  out.close();
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(file)});
  QDragEnterEvent enter(QPoint(600, 400), Qt::CopyAction, &data, Qt::LeftButton, {});
  QCoreApplication::sendEvent(f.window.get(), &enter);
  QVERIFY(enter.isAccepted());
  QDropEvent drop(QPointF(600, 400), Qt::CopyAction, &data, Qt::LeftButton, {});
  QCoreApplication::sendEvent(f.window.get(), &drop);
  QTRY_VERIFY(f.window->chat()->session());
  QCOMPARE(f.window->chat()->session()->rows().size(), std::size_t(2));
  // A file over the input box goes on to the window; it is not text for the box.
  InputBox* input = f.window->chat()->composer()->input();
  QDragEnterEvent over(QPoint(5, 5), Qt::CopyAction, &data, Qt::LeftButton, {});
  QCoreApplication::sendEvent(input->viewport(), &over);
  QVERIFY(over.isAccepted());
  QDropEvent onto(QPointF(5, 5), Qt::CopyAction, &data, Qt::LeftButton, {});
  QCoreApplication::sendEvent(input->viewport(), &onto);
  QTRY_COMPARE(f.window->sideBar()->list()->model()->rowCount(), 2);
  QCOMPARE(input->toPlainText(), QString());
}

void TestChatView::everythingHasANameAndCanBeReached() {
  WindowFixture f;
  const app::ConversationId id = f.import(longChat(2));
  f.show();
  f.window->openConversation(id);
  QCoreApplication::processEvents();
  for (auto* button : f.window->findChildren<QAbstractButton*>()) {
    if (!button->isVisible()) continue;
    const QString name =
        button->accessibleName().isEmpty() ? button->text() : button->accessibleName();
    QVERIFY2(!name.isEmpty(), button->metaObject()->className());
    QVERIFY2(button->focusPolicy() & Qt::TabFocus, qPrintable(name));
  }
  // Tab goes round the whole window and comes back.
  f.window->chat()->composer()->focusInput();
  QWidget* start = QApplication::focusWidget();
  QSet<QWidget*> seen;
  for (int i = 0; i < 200; ++i) {
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_Tab);
    if (QApplication::focusWidget() == start) break;
    seen << QApplication::focusWidget();
  }
  QCOMPARE(QApplication::focusWidget(), start);
  QVERIFY(seen.contains(f.window->sideBar()->list()));
  int actions = 0;
  for (auto* widget : seen) {
    if (qobject_cast<AnswerItem*>(widget->parentWidget())) ++actions;
  }
  QVERIFY(actions >= 3);
}

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  Theme::instance().install(application);
  TestChatView test;
  return QTest::qExec(&test, argc, argv);
}

#include "tst_chat_view.moc"

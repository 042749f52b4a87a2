// What the window shows of chats: rows of one, the list of all, several that are open at once.
#include <QAbstractItemModelTester>

#include "app/chat/conversation_list_model.h"
#include "app/chat/message_list_model.h"
#include "app/chat/session_pool.h"
#include "tests/app/chat_helpers.h"

using namespace vitrine;
using namespace vitrine::app;
using vitrine::test::AppFixture;
using vitrine::test::endless;
using vitrine::test::lastRow;
using vitrine::test::texts;

class TestChatModels : public QObject {
  Q_OBJECT
 private slots:
  void oneRowChangesWhileStreaming();
  void theListFollowsTheStore();
  void anotherProgramsChangesAreSeen();
  void twoChatsAnswerAtOnce();
  void aChatCanBeDeletedWhileAModelLoads();
};

void TestChatModels::oneRowChangesWhileStreaming() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  auto session = app.newSession();
  MessageListModel model;
  QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::Fatal);
  model.setSession(session.get());
  QSignalSpy inserted(&model, &QAbstractItemModel::rowsInserted);
  QSignalSpy changed(&model, &QAbstractItemModel::dataChanged);
  QSignalSpy reset(&model, &QAbstractItemModel::modelReset);
  QVERIFY(session->send(QStringLiteral("go")));
  QCOMPARE(model.rowCount(), 2);
  QCOMPARE(inserted.count(), 2);
  QTRY_VERIFY(changed.count() >= 5);
  for (const auto& change : changed) {
    QCOMPARE(change[0].toModelIndex().row(), 1);
    QCOMPARE(change[1].toModelIndex().row(), 1);
  }
  QCOMPARE(reset.count(), 0);
  QVERIFY(!model.index(1).data(MessageListModel::kTextRole).toString().isEmpty());
  QCOMPARE(model.index(0).data(MessageListModel::kTextRole).toString(), QStringLiteral("go"));
  QCOMPARE(model.index(0).data(MessageListModel::kRoleRole).toInt(), int(Role::kUser));
  session->stop();
  QTRY_VERIFY(!session->isRunning());
  QVERIFY(model.index(1).data(MessageListModel::kMetricsRole).value<TurnMetrics>().known());
  session.reset();
  QCOMPARE(model.rowCount(), 0);
}

void TestChatModels::theListFollowsTheStore() {
  AppFixture app;
  ConversationListModel list(*app.store);
  QAbstractItemModelTester tester(&list, QAbstractItemModelTester::FailureReportingMode::Fatal);
  const auto made = [&](const char* title, int daysAgo) {
    Conversation draft;
    draft.title = QLatin1String(title);
    draft.created = draft.updated = QDateTime::currentDateTime().addDays(-daysAgo);
    return app.store->create(draft)->id;
  };
  const ConversationId old = made("old", 400);
  const ConversationId today = made("today", 0);
  const ConversationId yesterday = made("yesterday", 1);
  const auto order = [&] {
    QStringList titles;
    for (int row = 0; row < list.rowCount(); ++row) {
      titles << list.index(row).data(ConversationListModel::kTitleRole).toString();
    }
    return titles;
  };
  QCOMPARE(order(), (QStringList{"today", "yesterday", "old"}));
  QCOMPARE(list.index(2).data(ConversationListModel::kSectionRole).toInt(),
           int(ConversationListModel::kOlder));
  QVERIFY(list.index(1).data(ConversationListModel::kStartsSectionRole).toBool());
  Message message;
  message.conversation = old;
  message.text = QStringLiteral("words to find");
  QTest::qSleep(5);  // times are kept in milliseconds
  QVERIFY(app.store->append(message));
  QCOMPARE(order(), (QStringList{"old", "today", "yesterday"}));
  QVERIFY(!list.index(1).data(ConversationListModel::kStartsSectionRole).toBool());
  QVERIFY(app.store->setPinned(yesterday, true));
  QCOMPARE(order(), (QStringList{"yesterday", "old", "today"}));
  QVERIFY(app.store->rename(today, QStringLiteral("renamed")));
  QCOMPARE(order(), (QStringList{"yesterday", "old", "renamed"}));
  QVERIFY(app.store->moveToTrash(old));
  QCOMPARE(order(), (QStringList{"yesterday", "renamed"}));
  QVERIFY(app.store->restore(old));
  QCOMPARE(order(), (QStringList{"yesterday", "old", "renamed"}));
  list.setFilter(QStringLiteral("words TO"));
  QCOMPARE(order(), QStringList{"old"});
  list.setFilter({});
  QCOMPARE(list.rowCount(), 3);
}

void TestChatModels::anotherProgramsChangesAreSeen() {
  AppFixture app;
  SessionPool pool(*app.store, *app.engine, *app.settings);
  ChatSession* session = pool.createConversation();
  ConversationListModel list(*app.store);
  QCOMPARE(list.rowCount(), 1);
  auto other = ConversationStore::open(app.database());
  QVERIFY(other);
  Message message;
  message.conversation = session->conversation().id;
  message.text = QStringLiteral("written elsewhere");
  QVERIFY((*other)->append(message));
  QVERIFY((*other)->create());
  QVERIFY(app.store->checkForChanges());
  QCOMPARE(texts(*session), QStringList{QStringLiteral("written elsewhere")});
  QCOMPARE(list.rowCount(), 2);
  QVERIFY((*other)->purge(session->conversation().id));
  QVERIFY(app.store->checkForChanges());
  QVERIFY(session->rows().empty());
  QVERIFY(!session->send(QStringLiteral("to nowhere")));
}

void TestChatModels::twoChatsAnswerAtOnce() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  SessionPool pool(*app.store, *app.engine, *app.settings);
  ChatSession* one = pool.createConversation();
  QVERIFY(one->send(QStringLiteral("first chat")));
  ChatSession* two = pool.createConversation();
  QVERIFY(two->send(QStringLiteral("second chat")));
  QTRY_VERIFY(lastRow(*one).message.text.size() > 20 && lastRow(*two).message.text.size() > 20);
  QCOMPARE(pool.runningCount(), 2);
  QVERIFY(pool.current() == two);
  // Many others are opened; a chat that still answers is not closed for them.
  for (int i = 0; i < 20; ++i) pool.createConversation();
  QCOMPARE(pool.runningCount(), 2);
  QVERIFY(pool.open(one->conversation().id) == one);
  one->stop();
  two->stop();
  QTRY_COMPARE(pool.runningCount(), 0);
  pool.close(one->conversation().id);
  QVERIFY(pool.current() == nullptr);
  QVERIFY(pool.open(4711) == nullptr);
}

void TestChatModels::aChatCanBeDeletedWhileAModelLoads() {
  AppFixture app;
  const auto model = endless(app);
  QVERIFY(app.load(model));
  SessionPool pool(*app.store, *app.engine, *app.settings);
  ChatSession* doomed = pool.createConversation();
  const ConversationId id = doomed->conversation().id;
  QVERIFY(doomed->send(QStringLiteral("go")));
  app.engine->load(model, {});
  pool.close(id);
  QVERIFY(app.store->moveToTrash(id));
  QVERIFY(app.store->purge(id));
  ChatSession* other = pool.createConversation();
  QTRY_VERIFY(!app.engine->isLoading());
  QVERIFY(other->send(QStringLiteral("hello")));
  QTRY_VERIFY(!lastRow(*other).message.text.isEmpty());
}

QTEST_GUILESS_MAIN(TestChatModels)
#include "tst_chat_models.moc"

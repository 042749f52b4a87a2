// The branches of a chat: made by editing and regenerating, switched, found by name.
#include "app/chat/message_positions.h"
#include "tests/app/chat_helpers.h"

using namespace vitrine;
using namespace vitrine::app;
using vitrine::test::AppFixture;
using vitrine::test::endless;
using vitrine::test::lastRow;
using vitrine::test::parrot;
using vitrine::test::sendAndWait;
using vitrine::test::texts;

class TestChatBranches : public QObject {
  Q_OBJECT
 private slots:
  void editAndRegenerateMakeBranches();
  void aBranchKeepsItsNameAndIsFoundByIt();
  void branchesCanBeSwitchedWhileAnAnswerStreams();
};

void TestChatBranches::editAndRegenerateMakeBranches() {
  AppFixture app;
  QVERIFY(app.load(parrot(app, "the answer")));
  auto session = app.newSession();
  QVERIFY(sendAndWait(*session, QStringLiteral("q1")));
  QVERIFY(sendAndWait(*session, QStringLiteral("q2")));
  const MessageId q2 = session->rows()[2].message.id;
  const MessageId a2 = session->rows()[3].message.id;
  QVERIFY(session->edit(q2, QStringLiteral("q2 edited")));
  QTRY_VERIFY(!session->isRunning());
  QCOMPARE(texts(*session), (QStringList{"q1", "the answer", "q2 edited", "the answer"}));
  QCOMPARE(session->rows()[2].branchIndex, 1);
  QCOMPARE(session->rows()[2].branchCount, 2);
  QVERIFY(session->rows()[3].metrics.report.reusedTokens > 0);
  QVERIFY(session->selectBranch(session->rows()[2].message.id, -1));
  QCOMPARE(session->rows()[2].message.id, q2);
  QCOMPARE(session->rows()[3].message.id, a2);
  QVERIFY(session->regenerate(a2));
  QTRY_VERIFY(!session->isRunning());
  QCOMPARE(session->rows()[3].branchIndex, 1);
  QCOMPARE(session->rows()[3].branchCount, 2);
  QVERIFY(session->selectBranch(session->rows()[3].message.id, -5));  // clamped
  QCOMPARE(session->rows()[3].message.id, a2);
  // Editing the first question starts another root.
  QVERIFY(session->edit(session->rows()[0].message.id, QStringLiteral("q1 edited")));
  QTRY_VERIFY(!session->isRunning());
  QCOMPARE(texts(*session), (QStringList{"q1 edited", "the answer"}));
  QCOMPARE(session->rows()[0].branchCount, 2);
  QVERIFY(session->selectBranch(session->rows()[0].message.id, -1));
  QCOMPARE(session->rows().size(), std::size_t(4));
  auto again = app.openSession(session->conversation().id);
  QCOMPARE(texts(*again), texts(*session));
}

void TestChatBranches::aBranchKeepsItsNameAndIsFoundByIt() {
  AppFixture app;
  QVERIFY(app.load(parrot(app, "the answer")));
  auto session = app.newSession();
  QVERIFY(sendAndWait(*session, QStringLiteral("q1")));
  QVERIFY(sendAndWait(*session, QStringLiteral("q2")));
  QCOMPARE(session->branchName(), QStringLiteral("main"));
  QVERIFY(session->edit(session->rows()[2].message.id, QStringLiteral("q2 edited")));
  QTRY_VERIFY(!session->isRunning());
  const QString second = session->branchName();
  QCOMPARE(second, QString::number(session->rows()[2].message.id));
  QVERIFY(session->regenerate(session->rows()[3].message.id));
  QTRY_VERIFY(!session->isRunning());
  const QString third = session->branchName();
  QVERIFY(third != second);

  QVERIFY(session->showBranch(QStringLiteral("main")));
  QCOMPARE(session->branchName(), QStringLiteral("main"));
  QCOMPARE(session->rows()[2].message.text, QStringLiteral("q2"));
  QVERIFY(session->showBranch(second));
  QCOMPARE(session->branchName(), second);
  QCOMPARE(session->rows()[3].branchIndex, 0);
  QVERIFY(session->showBranch(third));
  QCOMPARE(session->branchName(), third);
  QVERIFY(!session->showBranch(QStringLiteral("999999")));
  QCOMPARE(session->branchName(), third);

  // Which message a position of the cache is of.
  const auto& rows = session->rows();
  const auto& first = rows[1].metrics;
  const auto& last = rows[3].metrics;
  QCOMPARE(rowAtPosition(rows, 0), 0);
  QCOMPARE(rowAtPosition(rows, first.report.promptTokens - 1), 0);
  QCOMPARE(rowAtPosition(rows, first.report.promptTokens), 1);
  QCOMPARE(rowAtPosition(rows, first.contextUsed()), 2);
  QCOMPARE(rowAtPosition(rows, last.report.promptTokens), 3);
  QCOMPARE(rowAtPosition(rows, last.contextUsed() + 100), 3);
  QCOMPARE(rowAtPosition(rows, -1), -1);
  QCOMPARE(rowAtPosition({}, 5), -1);
}

void TestChatBranches::branchesCanBeSwitchedWhileAnAnswerStreams() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  auto session = app.newSession();
  QVERIFY(session->send(QStringLiteral("q")));
  QTRY_VERIFY(!lastRow(*session).message.text.isEmpty());
  session->stop();
  QTRY_VERIFY(!session->isRunning());
  const MessageId first = lastRow(*session).message.id;
  const QString firstText = lastRow(*session).message.text;
  QVERIFY(session->regenerate(first));
  const MessageId second = lastRow(*session).message.id;
  QTRY_VERIFY(!lastRow(*session).message.text.isEmpty());
  QVERIFY(session->selectBranch(second, -1));
  QCOMPARE(session->streamingRow(), -1);
  QCOMPARE(lastRow(*session).message.text, firstText);
  QTest::qWait(60);
  QCOMPARE(lastRow(*session).message.text, firstText);
  QVERIFY(session->selectBranch(first, 1));
  QCOMPARE(session->streamingRow(), 1);
  const auto before = lastRow(*session).message.text.size();
  QTRY_VERIFY(lastRow(*session).message.text.size() > before);
  session->stop();
  QTRY_VERIFY(!session->isRunning());
  QCOMPARE(app.store->message(first)->text, firstText);
  QCOMPARE(app.store->message(second)->text, lastRow(*session).message.text);
}

QTEST_GUILESS_MAIN(TestChatBranches)
#include "tst_chat_branches.moc"

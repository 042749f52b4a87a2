#include "app/store/schema.h"
#include "app/store/sqlite.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/app/app_fixture.h"
#include "tests/tiny_models.h"

using namespace vitrine;
using namespace vitrine::app;
using engine::ContextPolicy;
using test::AppFixture;
using test::lastRow;
using test::sendAndWait;

namespace {

// Refuses two messages of the same role in a row.
const char* const kStrictTemplate =
    "{%- for m in messages -%}"
    "{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}"
    "{{ raise_exception('Roles must alternate user/assistant') }}{%- endif -%}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{%- endfor -%}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

// Fills the chat until the first messages have left the prompt.
void talkUntilMessagesLeave(ChatSession& session) {
  for (int turn = 0; turn < 30; ++turn) {
    if (!sendAndWait(session, QStringLiteral("turn %1 says hello").arg(turn))) return;
    if (session.failure() || lastRow(session).metrics.report.droppedMessages > 0) return;
  }
}

QList<int> greyRows(const ChatSession& session) {
  QList<int> rows;
  for (int i = 0; i < int(session.rows().size()); ++i) {
    if (!session.rows()[std::size_t(i)].inContext) rows << i;
  }
  return rows;
}

}  // namespace

/// What a full context does to a chat: policies, pins, and how they are stored.
class TestContextPolicy : public QObject {
  Q_OBJECT
 private slots:
  void aChatHasItsOwnPolicyOrTheSettings();
  void pinnedMessagesStayInThePrompt_data();
  void pinnedMessagesStayInThePrompt();
  void pinsAndPolicyAreStored();
  void aDatabaseOfTheFirstVersionOpens();
  void aDamagedOneOfTheFirstVersionIsSaved();
};

void TestContextPolicy::aChatHasItsOwnPolicyOrTheSettings() {
  AppFixture app;
  auto session = app.newSession();
  QVERIFY(session->contextPolicy() == ContextPolicy::kStop);
  app.settings->setContextPolicy(ContextPolicy::kKeepPinned);
  QVERIFY(session->contextPolicy() == ContextPolicy::kKeepPinned);
  QSignalSpy changed(session.get(), &ChatSession::conversationChanged);
  QVERIFY(session->setContextPolicy(ContextPolicy::kDropOldest));
  QCOMPARE(changed.count(), 1);
  QVERIFY(session->contextPolicy() == ContextPolicy::kDropOldest);
  QVERIFY(session->setContextPolicy(std::nullopt));
  QVERIFY(session->contextPolicy() == ContextPolicy::kKeepPinned);
}

void TestContextPolicy::pinnedMessagesStayInThePrompt_data() {
  QTest::addColumn<bool>("strict");
  QTest::newRow("any order") << false;
  QTest::newRow("turns must alternate") << true;
}

void TestContextPolicy::pinnedMessagesStayInThePrompt() {
  QFETCH(bool, strict);
  AppFixture app;
  test::ParrotOptions options;
  options.contextLength = 256;
  if (strict) options.chatTemplate = kStrictTemplate;
  QVERIFY(app.load(test::parrotModel("still here and fine", options).save(app.path("p.gguf"))));
  auto session = app.newSession();
  QVERIFY(session->setContextPolicy(ContextPolicy::kKeepPinned));
  QVERIFY(sendAndWait(*session, QStringLiteral("my name is Ada")));
  QSignalSpy changed(session.get(), &ChatSession::messageChanged);
  QVERIFY(session->setPinned(session->rows()[0].message.id, true));
  QCOMPARE(changed.count(), 1);
  QVERIFY(session->rows()[0].message.pinned);
  talkUntilMessagesLeave(*session);
  QVERIFY2(!session->failure(), session->failure()->error.message.c_str());

  QList<int> grey = greyRows(*session);
  QVERIFY(!grey.isEmpty());
  QVERIFY(!grey.contains(0));
  QCOMPARE(grey.contains(1), !strict);  // its answer, where nothing wants it
  QVERIFY(grey.contains(2) && grey.contains(3));
  QCOMPARE(int(grey.size()), lastRow(*session).metrics.report.droppedMessages);
  // The engine was given just these: the prompt is theirs to the token.
  std::vector<engine::ChatMessage> kept;
  const auto& rows = session->rows();
  for (int i = 0; i + 1 < int(rows.size()); ++i) {
    if (!grey.contains(i)) {
      kept.push_back({toUtf8(nameOf(rows[std::size_t(i)].message.role)),
                      toUtf8(rows[std::size_t(i)].message.text),
                      rows[std::size_t(i)].message.tokenIds});
    }
  }
  const auto model = app.engine->model();
  const auto pieces = model->chatTemplate().render(kept);
  QVERIFY(pieces);
  QCOMPARE(lastRow(*session).metrics.report.promptTokens,
           int(model->tokenizer().encode(*pieces, kept).size()));
  // Opened again, the same rows are grey.
  QCOMPARE(greyRows(*app.openSession(session->conversation().id)), grey);
  // Unpinned, it leaves with the others.
  QVERIFY(session->setPinned(rows[0].message.id, false));
  QVERIFY(sendAndWait(*session, QStringLiteral("and now?")));
  QVERIFY(greyRows(*session).contains(0));
}

void TestContextPolicy::pinsAndPolicyAreStored() {
  AppFixture app;
  QVERIFY(app.load(test::parrotModel("fine").save(app.path("p.gguf"))));
  ConversationId id = 0;
  {
    auto session = app.newSession();
    id = session->conversation().id;
    QVERIFY(sendAndWait(*session, QStringLiteral("one")));
    QVERIFY(session->setPinned(session->rows()[1].message.id, true));
    QVERIFY(session->setContextPolicy(ContextPolicy::kKeepPinned));
    QVERIFY(!session->setPinned(12345, true));  // no such message
    // A pin that comes while the answer streams is not lost when it ends.
    QVERIFY(session->send(QStringLiteral("two")));
    QVERIFY(session->setPinned(lastRow(*session).message.id, true));
    QTRY_VERIFY(!session->isRunning());
    QVERIFY(lastRow(*session).message.pinned);
  }
  app.store.reset();
  app.openStore();
  auto again = app.openSession(id);
  QVERIFY(again->contextPolicy() == ContextPolicy::kKeepPinned);
  QVERIFY(!again->rows()[0].message.pinned);
  QVERIFY(again->rows()[1].message.pinned);
  QVERIFY(again->rows()[3].message.pinned);
}

namespace {

// A file as the first version wrote it: `count` chats, the first of which leaves out old turns.
void writeFirstVersion(const QString& file, int count) {
  const QString name = QStringLiteral("first version");
  QVERIFY(sqlite::openConnection(name, file));
  QVERIFY(sqlite::migrate(name, conversationMigrations().first(1)));
  for (int i = 1; i <= count; ++i) {
    QVERIFY(
        sqlite::run(name,
                    QStringLiteral("INSERT INTO conversations (uuid, title, drop_oldest, "
                                   "created, updated) VALUES (?, ?, ?, 1, 2)"),
                    {QStringLiteral("uuid %1").arg(i), QStringLiteral("chat %1").arg(i), i == 1}));
    QVERIFY(sqlite::run(name,
                        QStringLiteral("INSERT INTO messages (conversation, role, text, created) "
                                       "VALUES (?, 'user', ?, 3)"),
                        {i, QStringLiteral("question ").repeated(200)}));
  }
  sqlite::closeConnection(name);
}

}  // namespace

void TestContextPolicy::aDatabaseOfTheFirstVersionOpens() {
  QTemporaryDir dir;
  const QString file = dir.filePath(QStringLiteral("old.sqlite"));
  writeFirstVersion(file, 2);
  auto store = ConversationStore::open(file);
  QVERIFY2(store, store ? "" : store.error().message.c_str());
  QVERIFY((*store)->notice().isEmpty());
  QCOMPARE((*store)->conversations().size(), std::size_t(2));
  const auto first = (*store)->conversation(1);
  QCOMPARE(first->title, QStringLiteral("chat 1"));
  QVERIFY(first->contextPolicy == ContextPolicy::kDropOldest);
  QVERIFY(!(*store)->conversation(2)->contextPolicy);
  const auto messages = (*store)->messages(2);
  QCOMPARE(messages.size(), std::size_t(1));
  QVERIFY(messages[0].text.startsWith(QLatin1String("question")));
  QVERIFY(!messages[0].pinned);
  QVERIFY((*store)->setMessagePinned(messages[0].id, true));
  QVERIFY((*store)->messages(2)[0].pinned);
}

void TestContextPolicy::aDamagedOneOfTheFirstVersionIsSaved() {
  QTemporaryDir dir;
  const QString file = dir.filePath(QStringLiteral("old.sqlite"));
  writeFirstVersion(file, 40);
  QFile out(file);
  QVERIFY(out.open(QIODevice::ReadWrite));
  QVERIFY(out.size() > 8 * 4096);
  out.seek(out.size() / 2 / 4096 * 4096);
  out.write(QByteArray(3 * 4096, char(0xA5)));
  out.close();
  auto store = ConversationStore::open(file);
  QVERIFY2(store, store ? "" : store.error().message.c_str());
  QVERIFY(!(*store)->notice().isEmpty());
  QVERIFY(!(*store)->conversations().empty());
  int messages = 0;
  for (const Conversation& c : (*store)->conversations()) {
    for (const Message& message : (*store)->messages(c.id)) {
      messages += message.text.startsWith(QLatin1String("question")) ? 1 : 0;
    }
  }
  QVERIFY2(messages >= 10, qPrintable(QStringLiteral("%1 messages saved").arg(messages)));
}

QTEST_GUILESS_MAIN(TestContextPolicy)
#include "tst_context_policy.moc"

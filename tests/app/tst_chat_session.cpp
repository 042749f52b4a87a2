// The turns of one chat: what is sent, kept and stored, and the ways out where one cannot go on.
#include "app/chat/prompt_messages.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/app/chat_helpers.h"
#include "tests/test_model.h"

using namespace vitrine;
using namespace vitrine::app;
using vitrine::test::AppFixture;
using vitrine::test::endless;
using vitrine::test::lastRow;
using vitrine::test::parrot;
using vitrine::test::sendAndWait;
using vitrine::test::texts;

namespace {

// Refuses system messages and two turns of the same role in a row, as Gemma's template does.
const char* const kStrictTemplate =
    "{%- if messages[0]['role'] == 'system' -%}"
    "{{ raise_exception('System role not supported: \"sorry\" <b>') }}{%- endif -%}"
    "{%- for m in messages -%}"
    "{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}"
    "{{ raise_exception('Roles must alternate user/assistant') }}{%- endif -%}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{%- endfor -%}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

bool offers(const ChatSession& session, WayOut way) {
  if (!session.failure()) return false;
  const auto& ways = session.failure()->waysOut;
  return std::find(ways.begin(), ways.end(), way) != ways.end();
}

}  // namespace

class TestChatSession : public QObject {
  Q_OBJECT
 private slots:
  void twoTurnsReuseWhatIsCached();
  void whatIsShownIsWhatIsStored();
  void aSendThatCannotStartChangesNothing();
  void stoppedTextIsKeptAndTheChatGoesOn();
  void stoppingBeforeAnyTextDoesNotSpoilTheChat();
  void questionsThatMeetAreSentAsOne();
  void aRefusedSystemPromptHasWaysOut_data();
  void aRefusedSystemPromptHasWaysOut();
  void aTemplateThatAlwaysRefusesKeepsTheText();
  void aFullContextLeavesAChoice();
  void anotherModelIsNotGivenForeignIds();
  void idsFromOutsideAreNotBelieved();
  void titlesComeFromTheFirstQuestion_data();
  void titlesComeFromTheFirstQuestion();
  void closingInMidAnswerKeepsTheText();
  void samplingIsLaidOver();
  void theRealModelAnswersTwoTurns();
};

void TestChatSession::twoTurnsReuseWhatIsCached() {
  AppFixture app;
  QVERIFY(app.load(parrot(app, "A first answer, of some length: 漢字 too.")));
  auto session = app.newSession();
  QVERIFY(
      sendAndWait(*session, QStringLiteral("One question of a person, long enough for a block")));
  QCOMPARE(lastRow(*session).message.text,
           QStringLiteral("A first answer, of some length: 漢字 too."));
  const auto first = lastRow(*session).metrics;
  QVERIFY(first.known());
  QVERIFY(lastRow(*session).message.state == MessageState::kComplete);
  QCOMPARE(session->contextUsed(), first.contextUsed());
  QCOMPARE(session->contextLimit(), 512);
  QVERIFY(sendAndWait(*session, QStringLiteral("Two")));
  const auto second = lastRow(*session).metrics.report;
  QCOMPARE(second.reusedTokens + second.prefilledTokens, second.promptTokens);
  // The answer's ids were kept: only the new turn (and at most one block) is computed.
  const int newTokens = second.promptTokens - first.contextUsed();
  QVERIFY2(second.prefilledTokens <= newTokens + 16,
           qPrintable(
               QStringLiteral("%1 prefilled, %2 new").arg(second.prefilledTokens).arg(newTokens)));
  QVERIFY(second.reusedTokens > 0);
  QVERIFY(second.ttftMs > 0);
}

void TestChatSession::whatIsShownIsWhatIsStored() {
  AppFixture app;
  QVERIFY(app.load(parrot(app, "Stored answer")));
  ConversationId id = 0;
  std::vector<engine::TokenId> ids;
  {
    auto session = app.newSession();
    id = session->conversation().id;
    // The question is in the file before the engine is asked.
    QVERIFY(session->send(QStringLiteral("  <b>q</b>\n ")));
    const auto stored = app.store->messages(id);
    QCOMPARE(stored.size(), std::size_t(2));
    QCOMPARE(stored[0].text, QStringLiteral("  <b>q</b>\n "));
    QVERIFY(stored[1].state == MessageState::kStreaming);
    QVERIFY(session->isRunning());
    QTRY_VERIFY(!session->isRunning());
    // A short answer is painted after its end.
    app.engine->reportFirstPaint(session->lastRequest());
    QVERIFY(lastRow(*session).metrics.firstPaintMs > 0);
    ids = lastRow(*session).message.tokenIds;
    QVERIFY(!ids.empty());
  }
  app.store.reset();
  app.openStore();
  auto again = app.openSession(id);
  QCOMPARE(texts(*again),
           (QStringList{QStringLiteral("  <b>q</b>\n "), QStringLiteral("Stored answer")}));
  QCOMPARE(lastRow(*again).message.tokenIds, ids);
  QVERIFY(lastRow(*again).metrics.known());
  QCOMPARE(lastRow(*again).metrics.model, QStringLiteral("tiny"));
  QVERIFY(lastRow(*again).metrics.firstPaintMs > lastRow(*again).metrics.beforeRequestMs);
  QVERIFY(lastRow(*again).metrics.beforeRequestMs > 0);
  QVERIFY(again->contextUsed() > 0);
}

void TestChatSession::aSendThatCannotStartChangesNothing() {
  AppFixture app;
  auto session = app.newSession();
  const auto noModel = session->send(QStringLiteral("hello"));
  QVERIFY(!noModel);
  QVERIFY(noModel.error().message.find("model") != std::string::npos);
  QVERIFY(app.store->messages(session->conversation().id).empty());
  QVERIFY(app.load(endless(app)));
  QVERIFY(!session->send(QStringLiteral(" \n\t ")));
  QVERIFY(session->send(QStringLiteral("go")));
  QVERIFY(!session->send(QStringLiteral("again")));  // one answer at a time
  QCOMPARE(session->rows().size(), std::size_t(2));
  QVERIFY(!session->edit(4711, QStringLiteral("x")));
  session->stop();
  QTRY_VERIFY(!session->isRunning());
  QVERIFY(!session->regenerate(4711));
  QVERIFY(!session->edit(lastRow(*session).message.id, QStringLiteral("an answer")));
}

void TestChatSession::stoppedTextIsKeptAndTheChatGoesOn() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  auto session = app.newSession();
  QVERIFY(session->send(QStringLiteral("go")));
  QTRY_VERIFY(lastRow(*session).message.text.size() > 20);
  const QString seen = lastRow(*session).message.text;
  session->stop();
  QTRY_VERIFY(!session->isRunning());
  QVERIFY(lastRow(*session).message.text.startsWith(seen));
  QVERIFY(lastRow(*session).message.state == MessageState::kStopped);
  const auto stopped = lastRow(*session).metrics;
  QVERIFY(session->send(QStringLiteral("more")));
  QTRY_VERIFY(lastRow(*session).message.text.size() > 20);
  session->stop();
  QTRY_VERIFY(!session->isRunning());
  QCOMPARE(session->rows().size(), std::size_t(4));
  QVERIFY(lastRow(*session).metrics.report.reusedTokens + 16 >= stopped.contextUsed() - 1);
}

void TestChatSession::stoppingBeforeAnyTextDoesNotSpoilTheChat() {
  AppFixture app;
  test::ParrotOptions options;
  options.chatTemplate = kStrictTemplate;
  QVERIFY(app.load(parrot(app, "fine", options)));
  auto session = app.newSession();
  QVERIFY(session->send(QStringLiteral("first")));
  session->stop();  // before the engine could say a word
  QTRY_VERIFY(!session->isRunning());
  // Whatever came of it, the next turn must work with a template that demands alternation.
  QVERIFY(sendAndWait(*session, QStringLiteral("second")));
  QVERIFY2(!session->failure(),
           session->failure() ? session->failure()->error.message.c_str() : "");
  QCOMPARE(lastRow(*session).message.text, QStringLiteral("fine"));
  QVERIFY(sendAndWait(*session, QStringLiteral("third")));
  QCOMPARE(lastRow(*session).message.text, QStringLiteral("fine"));
}

void TestChatSession::questionsThatMeetAreSentAsOne() {
  const auto message = [](MessageId id, Role role, const char* text) {
    Message m;
    m.id = id;
    m.role = role;
    m.text = QLatin1String(text);
    return m;
  };
  Conversation conversation;
  conversation.systemPrompt = QStringLiteral("SYS");
  const std::vector<Message> path{
      message(1, Role::kUser, "a"), message(2, Role::kAssistant, ""),
      message(3, Role::kUser, "b"), message(4, Role::kAssistant, " \n"),
      message(5, Role::kUser, "c"), message(6, Role::kAssistant, "answer"),
      message(7, Role::kUser, "d"), message(8, Role::kAssistant, "being written")};
  const auto never = [](const Message&) { return false; };
  auto prompt = promptMessages(conversation, path, never);
  QCOMPARE(prompt.messages.size(), std::size_t(4));
  QCOMPARE(prompt.messages[0].role, std::string("system"));
  QCOMPARE(prompt.messages[1].content, std::string("a\n\nb\n\nc"));
  QCOMPARE(prompt.messages[2].content, std::string("answer"));
  QCOMPARE(prompt.messages[3].content, std::string("d"));
  QCOMPARE(prompt.origins[1], (std::vector<int>{0, 2, 4}));
  conversation.systemPromptUse = SystemPromptUse::kMergeIntoFirstUser;
  prompt = promptMessages(conversation, path, never);
  QCOMPARE(prompt.messages.size(), std::size_t(3));
  QCOMPARE(prompt.messages[0].content, std::string("SYS\n\na\n\nb\n\nc"));
  conversation.systemPromptUse = SystemPromptUse::kDrop;
  prompt = promptMessages(conversation, path, never);
  QCOMPARE(prompt.messages[0].content, std::string("a\n\nb\n\nc"));
}

void TestChatSession::aRefusedSystemPromptHasWaysOut_data() {
  QTest::addColumn<int>("way");
  QTest::newRow("merge into the first question") << int(WayOut::kMergeSystemPrompt);
  QTest::newRow("leave out") << int(WayOut::kDropSystemPrompt);
}

void TestChatSession::aRefusedSystemPromptHasWaysOut() {
  QFETCH(int, way);
  AppFixture app;
  test::ParrotOptions options;
  options.chatTemplate = kStrictTemplate;
  QVERIFY(app.load(parrot(app, "fine", options)));
  Conversation draft;
  draft.systemPrompt = QStringLiteral("KEEP THIS");
  auto session = app.newSession(draft);
  QVERIFY(sendAndWait(*session, QStringLiteral("typed by a person")));
  QVERIFY(session->failure());
  // The template's own sentence, and the person's own text.
  QVERIFY(session->failure()->error.message.find("System role not supported: \"sorry\" <b>") !=
          std::string::npos);
  QCOMPARE(session->failure()->typedText, QStringLiteral("typed by a person"));
  QVERIFY(lastRow(*session).message.state == MessageState::kFailed);
  QVERIFY(lastRow(*session).message.error.contains(QLatin1String("System role not supported")));
  QVERIFY(offers(*session, WayOut(way)));
  QVERIFY(session->resolve(WayOut(way)));
  QTRY_VERIFY(!session->isRunning());
  QVERIFY(!session->failure());
  QCOMPARE(texts(*session),
           (QStringList{QStringLiteral("typed by a person"), QStringLiteral("fine")}));
  QCOMPARE(lastRow(*session).branchCount, 1);  // the failed try left no branch
  // It stays that way, also after reopening.
  auto again = app.openSession(session->conversation().id);
  QVERIFY(sendAndWait(*again, QStringLiteral("next")));
  QCOMPARE(lastRow(*again).message.text, QStringLiteral("fine"));
}

void TestChatSession::aTemplateThatAlwaysRefusesKeepsTheText() {
  AppFixture app;
  test::ParrotOptions options;
  options.chatTemplate = "{{ raise_exception('never {{ \"ever\" }} <i>') }}";
  QVERIFY(app.load(parrot(app, "fine", options)));
  auto session = app.newSession();
  QVERIFY(sendAndWait(*session, QStringLiteral("one")));
  QVERIFY(session->failure());
  QVERIFY(!session->failure()->waysOut.empty());
  QVERIFY(sendAndWait(*session, QStringLiteral("two")));
  QCOMPARE(texts(*session), (QStringList{"one", "", "two", ""}));
  // Another model, and the chat goes on.
  QVERIFY(app.load(test::parrotModel("now").save(app.path("other.gguf"))));
  QVERIFY(session->resolve(WayOut::kRetry));
  QTRY_VERIFY(!session->isRunning());
  QCOMPARE(lastRow(*session).message.text, QStringLiteral("now"));
}

void TestChatSession::aFullContextLeavesAChoice() {
  AppFixture app;
  test::ParrotOptions options;
  options.contextLength = 256;
  QVERIFY(app.load(parrot(app, "still here and fine", options)));
  Conversation draft;
  draft.systemPrompt = QStringLiteral("KEEP THIS");
  auto session = app.newSession(draft);
  for (int turn = 1; turn <= 40 && !session->failure(); ++turn) {
    QVERIFY(sendAndWait(*session, QStringLiteral("turn %1 says hello").arg(turn)));
    QVERIFY(session->contextUsed() <= 256 || session->failure());
  }
  QVERIFY(session->failure());
  QVERIFY(session->failure()->error.code == engine::ErrorCode::kContextFull);
  QVERIFY(session->failure()->error.message.find("256") != std::string::npos);
  QVERIFY(offers(*session, WayOut::kNewConversation));
  QVERIFY(offers(*session, WayOut::kDropOldestTurns));
  const std::size_t rows = session->rows().size();
  QVERIFY(session->resolve(WayOut::kDropOldestTurns));
  QTRY_VERIFY(!session->isRunning());
  QVERIFY(!session->failure());
  QCOMPARE(lastRow(*session).message.text, QStringLiteral("still here and fine"));
  // Left out visibly, and nothing is deleted.
  QCOMPARE(session->rows().size(), rows);
  const int dropped = lastRow(*session).metrics.report.droppedMessages;
  QVERIFY(dropped > 0);
  for (int row = 0; row < int(rows); ++row) {
    QCOMPARE(session->rows()[std::size_t(row)].inContext, row >= dropped);
  }
  auto again = app.openSession(session->conversation().id);
  QVERIFY(!again->rows()[0].inContext);
  QVERIFY(again->rows().back().inContext);
  // A short chat beside it works.
  auto other = app.newSession();
  QVERIFY(sendAndWait(*other, QStringLiteral("hi")));
  QCOMPARE(lastRow(*other).message.text, QStringLiteral("still here and fine"));
}

void TestChatSession::anotherModelIsNotGivenForeignIds() {
  AppFixture app;
  QVERIFY(app.load(parrot(app, "spoken by the first")));
  auto session = app.newSession();
  QVERIFY(sendAndWait(*session, QStringLiteral("q")));
  // Another vocabulary: the first one's ids are beyond it, or mean something else.
  QVERIFY(app.load(endless(app)));
  app.store->setSampling(session->conversation().id, {{QStringLiteral("max_tokens"), 8}});
  QVERIFY(sendAndWait(*session, QStringLiteral("q2")));
  QVERIFY2(!session->failure(),
           session->failure() ? session->failure()->error.message.c_str() : "");
  QVERIFY(lastRow(*session).metrics.report.stopReason == engine::StopReason::kLength);
}

void TestChatSession::idsFromOutsideAreNotBelieved() {
  AppFixture app;
  QVERIFY(app.load(parrot(app, "spoken")));
  auto session = app.newSession();
  QVERIFY(sendAndWait(*session, QStringLiteral("q")));
  const auto& tokenizer = app.engine->model()->tokenizer();
  const std::string fingerprint = app.engine->info()->fingerprint;
  Message message = lastRow(*session).message;
  QVERIFY(idsMatchText(message, tokenizer, fingerprint));
  QVERIFY(!idsMatchText(message, tokenizer, fingerprint + "x"));
  const Message good = message;
  message.tokenIds.push_back(1 << 30);
  QVERIFY(!idsMatchText(message, tokenizer, fingerprint));
  message = good;
  message.tokenIds.push_back(-1);
  QVERIFY(!idsMatchText(message, tokenizer, fingerprint));
  message = good;
  message.tokenIds.push_back(1);  // <|im_start|>
  QVERIFY(!idsMatchText(message, tokenizer, fingerprint));
  message = good;
  for (const auto id : tokenizer.encode("hidden")) message.tokenIds.push_back(id);
  QVERIFY(!idsMatchText(message, tokenizer, fingerprint));
  message = good;
  message.text = QStringLiteral("another text");
  QVERIFY(!idsMatchText(message, tokenizer, fingerprint));
}

void TestChatSession::titlesComeFromTheFirstQuestion_data() {
  QTest::addColumn<QString>("text");
  QTest::addColumn<QString>("title");
  QTest::newRow("short") << "What is a KV cache?"
                         << "What is a KV cache?";
  QTest::newRow("lines") << "\n\n## Plan \t for today\nmore"
                         << "Plan for today";
  QTest::newRow("marks only") << "```\n***"
                              << "``` ***";
  QTest::newRow("long") << QStringLiteral(
                               "Please write a very long story about a lighthouse keeper")
                        << QStringLiteral("Please write a very long story about a…");
  QTest::newRow("no spaces") << QStringLiteral("漢").repeated(100)
                             << QStringLiteral("漢").repeated(48) + QChar(0x2026);
}

void TestChatSession::titlesComeFromTheFirstQuestion() {
  QFETCH(QString, text);
  QFETCH(QString, title);
  const QString made = titleFromText(text);
  if (title.endsWith(QChar(0x2026))) {
    QVERIFY2(made.size() <= 49 && made.endsWith(QChar(0x2026)) && made.size() > 24,
             qPrintable(made));
    QVERIFY(text.startsWith(made.chopped(1)));
  } else {
    QCOMPARE(made, title);
  }
}

void TestChatSession::closingInMidAnswerKeepsTheText() {
  AppFixture app;
  QVERIFY(app.load(endless(app)));
  auto session = app.newSession();
  const ConversationId id = session->conversation().id;
  QVERIFY(session->send(QStringLiteral("go")));
  QTRY_VERIFY(lastRow(*session).message.text.size() > 10);
  const QString seen = lastRow(*session).message.text;
  session.reset();
  const auto stored = app.store->messages(id);
  QCOMPARE(stored[1].text, seen);
  QVERIFY(stored[1].state == MessageState::kStopped);
  QTRY_VERIFY(!app.engine->isBusy());  // the turn was cancelled
}

void TestChatSession::samplingIsLaidOver() {
  AppFixture app;
  auto session = app.newSession();
  QCOMPARE(session->sampling().temperature, 0.8F);
  app.settings->setSamplingDefaults(
      {{QStringLiteral("temperature"), 0.5}, {QStringLiteral("top_k"), 7}});
  QVERIFY(session->setSampling({{QStringLiteral("temperature"), 0},
                                {QStringLiteral("seed"), QStringLiteral("18446744073709551615")}}));
  QCOMPARE(session->sampling().temperature, 0.0F);
  QCOMPARE(session->sampling().topK, 7);
  QCOMPARE(*session->sampling().seed, 18446744073709551615ULL);
  // Values without meaning are left out one by one.
  QVERIFY(session->setSampling({{QStringLiteral("temperature"), -3},
                                {QStringLiteral("repeat_penalty"), 0},
                                {QStringLiteral("top_p"), 0.5},
                                {QStringLiteral("min_p"), QStringLiteral("much")}}));
  QCOMPARE(session->sampling().temperature, 0.5F);
  QCOMPARE(session->sampling().repeatPenalty, 1.0F);
  QCOMPARE(session->sampling().topP, 0.5F);
  QVERIFY(session->sampling().validate());
  const auto round = overlaySampling({}, toJson(session->sampling()));
  QCOMPARE(round.topP, 0.5F);
  QCOMPARE(round.minP, 0.05F);
}

void TestChatSession::theRealModelAnswersTwoTurns() {
  if (!test::haveTestModel()) QFAIL(test::missingModelMessage().c_str());
  AppFixture app;
  QVERIFY(app.load(test::testModelPath()));
  Conversation draft;
  draft.systemPrompt = QStringLiteral("You are a helpful assistant.");
  draft.sampling = {{QStringLiteral("temperature"), 0}, {QStringLiteral("max_tokens"), 24}};
  auto session = app.newSession(draft);
  QVERIFY(sendAndWait(*session, QStringLiteral("What is the capital of France?")));
  QVERIFY2(lastRow(*session).message.text.contains(QLatin1String("Paris")),
           qPrintable(lastRow(*session).message.text));
  const int used = session->contextUsed();
  QVERIFY(sendAndWait(*session, QStringLiteral("And of Italy?")));
  const auto report = lastRow(*session).metrics.report;
  QVERIFY(report.prefilledTokens <= report.promptTokens - used + 16 + 1);
  QVERIFY(report.reusedTokens > 0);
}

QTEST_GUILESS_MAIN(TestChatSession)
#include "tst_chat_session.moc"

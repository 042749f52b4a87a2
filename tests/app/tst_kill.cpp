// The program is killed (SIGKILL) at odd moments of real answers; nothing that was on screen for
// a second may be missing afterwards.
#include <QElapsedTimer>
#include <QProcess>
#include <QRandomGenerator>
#include <QTemporaryDir>
#include <QThread>
#include <QtTest>
#include <csignal>

#include "app/store/conversation_store.h"
#include "app/store/sqlite.h"
#include "tests/tiny_models.h"

using namespace vitrine::app;

class TestKill : public QObject {
  Q_OBJECT
 private slots:
  void nothingSeenForASecondIsLost();
};

namespace {

// What was on screen of one message, and when (the driver's clock).
struct Seen {
  qint64 atMs = 0;
  ConversationId conversation = 0;
  MessageId message = 0;
  qint64 length = 0;
};

std::vector<Seen> parse(const QByteArray& output) {
  std::vector<Seen> seen;
  for (const QByteArray& line : output.split('\n')) {
    const QList<QByteArray> words = line.split(' ');
    if (words.size() == 4) {
      seen.push_back({words[0].toLongLong(), words[1].toLongLong(), words[2].toLongLong(),
                      words[3].toLongLong()});
    }
  }
  return seen;
}

}  // namespace

void TestKill::nothingSeenForASecondIsLost() {
  QTemporaryDir dir;
  const QString database = dir.filePath(QStringLiteral("chats.sqlite"));
  // An answer of 400 numbered steps on a model wide enough to take some seconds over it.
  vitrine::test::ParrotOptions options;
  options.contextLength = 16384;
  options.dModel = 512;
  options.dFfn = 1024;
  options.nLayers = 4;
  options.nHeads = 8;
  options.nKvHeads = 8;
  for (int i = 1; i <= 400; ++i)
    options.pieces.push_back("step " + std::to_string(i) + " of 400. ");
  const auto model = vitrine::test::parrotModel(options).save(
      dir.filePath(QStringLiteral("slow.gguf")).toStdString());

  std::size_t turnsBefore = 0;
  int inMidAnswer = 0;
  QRandomGenerator random(30);
  for (int round = 0; round < 10; ++round) {
    QProcess driver;
    driver.setProcessChannelMode(QProcess::SeparateChannels);
    // The slow backend, so that an answer lasts for seconds however fast the other one becomes.
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert(QStringLiteral("VITRINE_BACKEND"), QStringLiteral("reference"));
    driver.setProcessEnvironment(environment);
    driver.start(QStringLiteral(CHAT_DRIVER),
                 {QStringLiteral("chat"), database, QString::fromStdString(model.string())});
    QVERIFY(driver.waitForStarted());
    // From the first row on screen, a random while.
    QElapsedTimer patience;
    patience.start();
    QByteArray output;
    while (!output.contains('\n') && patience.elapsed() < 60000) {
      driver.waitForReadyRead(100);
      output += driver.readAllStandardOutput();
    }
    QVERIFY2(!output.isEmpty(), driver.readAllStandardError().constData());
    const qint64 live = 100 + random.bounded(2500);
    QElapsedTimer alive;
    alive.start();
    while (alive.elapsed() < live) {
      driver.waitForReadyRead(20);
      output += driver.readAllStandardOutput();
    }
    const qint64 killedAfterMs = alive.elapsed();
    ::kill(static_cast<pid_t>(driver.processId()), SIGKILL);
    QVERIFY(driver.waitForFinished(10000));
    QCOMPARE(driver.exitStatus(), QProcess::CrashExit);
    output += driver.readAllStandardOutput();
    const std::vector<Seen> seen = parse(output);
    QVERIFY(!seen.empty());
    // The first line was printed when `alive` started, within the time of a poll.
    const qint64 killedAt = seen.front().atMs + killedAfterMs;

    auto opened = ConversationStore::open(database);
    QVERIFY2(opened, opened ? "" : opened.error().message.c_str());
    ConversationStore& store = **opened;
    QVERIFY2(store.notice().isEmpty(), qPrintable(store.notice()));
    for (const Seen& was : seen) {
      const auto message = store.message(was.message);
      // Questions (and the empty answer) are stored before they are shown: no second of grace.
      QVERIFY2(message, "a message that was on screen is not in the database");
      QCOMPARE(message->conversation, was.conversation);
      QVERIFY(message->state != MessageState::kStreaming);
      if (was.atMs + 1000 <= killedAt) {
        QVERIFY2(message->text.size() >= was.length,
                 qPrintable(QStringLiteral("%1 characters were on screen %2 ms before the end, %3 "
                                           "are stored")
                                .arg(was.length)
                                .arg(killedAt - was.atMs)
                                .arg(message->text.size())));
      }
    }
    // The stored part of the answer is what the model said, and ids stand beside the text.
    const auto last = store.message(seen.back().message);
    if (last->role == Role::kAssistant && !last->text.isEmpty()) {
      QVERIFY(last->text.startsWith(QLatin1String("step 1 of 400. ")));
      QVERIFY(!last->tokenIds.empty());
      if (last->state == MessageState::kStopped) ++inMidAnswer;
    }
    // Nothing of earlier rounds went away.
    std::size_t turns = 0;
    for (const Conversation& conversation : store.conversations()) {
      const auto messages = store.messages(conversation.id);
      turns += messages.size() / 2;
      if (!messages.empty()) QCOMPARE(messages[0].text, QStringLiteral("Count, please."));
    }
    QVERIFY(turns > turnsBefore);
    turnsBefore = turns;
  }
  qInfo("10 kills, %d of them in the middle of an answer, %zu turns kept", inMidAnswer,
        turnsBefore);
  QVERIFY2(inMidAnswer >= 3, "the kills missed the answers: the test shows nothing");
}

QTEST_GUILESS_MAIN(TestKill)
#include "tst_kill.moc"

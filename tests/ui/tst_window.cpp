#include <QClipboard>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QPushButton>
#include <QTimer>
#include <algorithm>
#include <ctime>

#include "app/text.h"
#include "tests/test_model.h"
#include "tests/ui/processor_clock.h"
#include "tests/ui/window_fixture.h"
#include "ui/chat/answer_item.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/transcript.h"
#include "ui/chat/turn_bar.h"
#include "ui/chat/user_item.h"
#include "ui/common/engine_switching.h"
#include "ui/composer/composer.h"
#include "ui/composer/input_box.h"
#include "ui/markdown/text_view.h"
#include "ui/sidebar/side_bar.h"

using namespace vitrine;
using namespace vitrine::ui;

namespace {

/// Ticks every few milliseconds and remembers the longest time between two ticks: how long the
/// event loop was blocked.
class Heartbeat final : public QObject {
 public:
  Heartbeat() {
    m_timer.setTimerType(Qt::PreciseTimer);
    m_timer.setInterval(5);
    connect(&m_timer, &QTimer::timeout, this, [this] {
      m_longest = std::max(m_longest, m_since.wallMilliseconds());
      m_blocked = std::max(m_blocked, m_since.milliseconds());
      m_since.restart();
      ++m_beats;
    });
    m_timer.start();
  }
  void reset() {
    m_blocked = m_longest = 0;
    m_beats = 0;
    m_since.restart();
  }
  double blocked() const { return m_blocked; }
  QByteArray words() const {
    return QString("the loop was away for %1 ms, %2 ms without waits for a processor")
        .arg(m_longest, 0, 'f', 1)
        .arg(m_blocked, 0, 'f', 1)
        .toUtf8();
  }
  int beats() const { return m_beats; }

 private:
  QTimer m_timer;
  test::ProcessorClock m_since;
  double m_blocked = 0, m_longest = 0;
  int m_beats = 0;
};

/// The loop may be away for at most this long while a model loads or an answer streams.
constexpr double kLongestBlockMs = 100;
constexpr int kTurnMs = 120000;

}  // namespace

/// The whole program in one walk, as a person goes: each slot goes on where the one before ended.
class TestWindow final : public QObject {
  Q_OBJECT
 private slots:
  void initTestCase();
  void loadsTheModel();
  void firstTurn();
  void secondTurnReusesTheFirst();
  void idleTakesNoProcessorTime();
  void stopInMidAnswer();
  void editMakesABranch();
  void branchesCanBeSwitched();
  void regenerateMakesAnAnswerBranch();
  void switchesToInt8();
  void switchesTheKvCache();
  void systemPromptIsUsed();
  void tooLongIsSaidBeforeSending();
  void exportsTheChat();
  void reopensWithEverything();
  void cleanupTestCase();

 private:
  void send(const QString& text, bool wait = true);
  void waitForTurn();
  app::ChatSession* session() const { return m_f->window->chat()->session(); }
  const app::MessageRow& lastRow() const { return session()->rows().back(); }
  AnswerItem* lastAnswer() const {
    return qobject_cast<AnswerItem*>(
        m_f->window->chat()->transcript()->itemOf(int(session()->rows().size()) - 1));
  }
  TurnBar* lastBar() const { return lastAnswer()->findChild<TurnBar*>(); }
  QPushButton* button(QWidget* in, const QString& text) const {
    for (auto* candidate : in->findChildren<QPushButton*>()) {
      if (candidate->text() == text && !candidate->isHidden()) return candidate;
    }
    return nullptr;
  }

  std::unique_ptr<WindowFixture> m_f;
  std::unique_ptr<Heartbeat> m_heart;
};

void TestWindow::initTestCase() {
  QVERIFY2(test::haveTestModel(), test::missingModelMessage().c_str());
  m_f = std::make_unique<WindowFixture>();
  m_f->settings.setTheme(app::Theme::kDark);
  // Few tokens an answer, and the same ones in each run.
  m_f->settings.setSamplingDefaults({{"temperature", 0.0}, {"max_tokens", 40}});
  m_f->show();
  QTest::qWait(200);  // fonts and style sheets are made once
  m_heart = std::make_unique<Heartbeat>();
}

void TestWindow::loadsTheModel() {
  m_heart->reset();
  m_f->window->openModel(test::testModelPath());
  QTRY_VERIFY_WITH_TIMEOUT(m_f->engine.info() != nullptr, kTurnMs);
  QTest::qWait(50);
  QVERIFY(m_heart->beats() > 5);
  QVERIFY2(m_heart->blocked() <= kLongestBlockMs, m_heart->words());
  WindowFixture::grab(m_f->window.get(), "e2e-loaded");
}

void TestWindow::send(const QString& text, bool wait) {
  InputBox* input = m_f->window->chat()->composer()->input();
  m_f->window->chat()->composer()->focusInput();
  QTest::keyClicks(input, text);
  m_heart->reset();
  QTest::keyClick(input, Qt::Key_Return);
  QVERIFY(session());
  QVERIFY(session()->isRunning());
  QCOMPARE(m_f->window->chat()->composer()->draft(), QString());
  if (wait) waitForTurn();
}

void TestWindow::waitForTurn() {
  QTRY_VERIFY_WITH_TIMEOUT(!session()->isRunning(), kTurnMs);
  QTest::qWait(30);
  QVERIFY2(m_heart->blocked() <= kLongestBlockMs, m_heart->words());
}

void TestWindow::firstTurn() {
  send("Tell me about the sea in two sentences.");
  QCOMPARE(session()->rows().size(), std::size_t(2));
  QVERIFY(!lastRow().message.text.isEmpty());
  QCOMPARE(lastAnswer()->textView()->sourceText(), lastRow().message.text);
  const TurnBar::Figures figures = lastBar()->figures();
  QCOMPARE(figures.reused, 0);
  QVERIFY(figures.prefilled > 10);
  QVERIFY(figures.generated > 5);
  QVERIFY(figures.ttftMs > 0 && figures.tpotMs > 0);
  // The first text was seen on screen, and when.
  QVERIFY(lastRow().metrics.firstPaintMs > 0);
  QVERIFY(m_f->window->windowTitle().startsWith("Tell me about the sea"));
}

void TestWindow::secondTurnReusesTheFirst() {
  const int context = session()->contextUsed();
  send("And what lives in it?");
  QCOMPARE(session()->rows().size(), std::size_t(4));
  const TurnBar::Figures figures = lastBar()->figures();
  // All but at most a block of what the first turn left in the cache.
  QVERIFY2(figures.reused >= context - 17,
           qPrintable(QString("%1 of %2 reused").arg(figures.reused).arg(context)));
  QVERIFY(figures.prefilled < context);
  WindowFixture::grab(m_f->window.get(), "e2e-two-turns");
}

// All threads of the process, for 10 s with a model loaded and nothing to do: under half a percent
// of one core.
void TestWindow::idleTakesNoProcessorTime() {
  m_heart.reset();  // it beats 200 times a second
  QEventLoop loop;
  QTimer::singleShot(500, &loop, &QEventLoop::quit);
  loop.exec();  // what the turn before left to paint
  QTimer::singleShot(10'000, &loop, &QEventLoop::quit);
  const std::clock_t before = std::clock();
  loop.exec();
  const double milliseconds = 1000.0 * double(std::clock() - before) / CLOCKS_PER_SEC;
  m_heart = std::make_unique<Heartbeat>();
  qInfo("10 s idle took %.1f ms of processor time", milliseconds);
  QVERIFY2(milliseconds < 50.0, qPrintable(QString::number(milliseconds) + " ms"));
}

void TestWindow::stopInMidAnswer() {
  m_f->settings.setSamplingDefaults({{"temperature", 0.0}, {"max_tokens", 2000}});
  send("Write a very long story about a lighthouse.", false);
  QTRY_VERIFY_WITH_TIMEOUT(lastRow().message.text.size() > 60, kTurnMs);
  WindowFixture::grab(m_f->window.get(), "e2e-streaming");
  if (!qEnvironmentVariableIsEmpty("VITRINE_GRABS")) m_heart->reset();
  QPushButton* stop = button(m_f->window->chat()->composer(), "Stop");
  QVERIFY(stop);
  QElapsedTimer timer;
  timer.start();
  QTest::keyClick(m_f->window->chat()->composer()->input(), Qt::Key_Escape);
  QTRY_VERIFY_WITH_TIMEOUT(!session()->isRunning(), 5000);
  QVERIFY2(timer.elapsed() < 2000, qPrintable(QString::number(timer.elapsed())));
  QVERIFY(lastRow().message.state == app::MessageState::kStopped);
  QVERIFY(lastRow().message.text.size() > 60);
  QCOMPARE(lastBar()->figures().note, QString("stopped"));
  QVERIFY2(m_heart->blocked() <= kLongestBlockMs, m_heart->words());
  m_f->settings.setSamplingDefaults({{"temperature", 0.0}, {"max_tokens", 40}});
}

void TestWindow::editMakesABranch() {
  // Ctrl+Shift+E opens the last question in place.
  QTest::keyClick(m_f->window.get(), Qt::Key_E, Qt::ControlModifier | Qt::ShiftModifier);
  auto* editor = qobject_cast<InputBox*>(QApplication::focusWidget());
  QVERIFY(editor && editor != m_f->window->chat()->composer()->input());
  QVERIFY(editor->toPlainText().contains("lighthouse"));
  WindowFixture::grab(m_f->window.get(), "e2e-editing");
  editor->selectAll();
  QTest::keyClicks(editor, "Name one fish.");
  m_heart->reset();
  QTest::keyClick(editor, Qt::Key_Return);
  QVERIFY(session()->isRunning());
  waitForTurn();
  const auto& rows = session()->rows();
  QCOMPARE(rows.size(), std::size_t(6));
  QCOMPARE(rows[4].message.text, QString("Name one fish."));
  QCOMPARE(rows[4].branchCount, 2);
  QCOMPARE(rows[4].branchIndex, 1);
  QVERIFY(lastBar()->figures().reused > 0);
}

void TestWindow::branchesCanBeSwitched() {
  Transcript* transcript = m_f->window->chat()->transcript();
  QPushButton* previous = button(transcript->itemOf(4), QStringLiteral("‹"));
  QVERIFY(previous && previous->isEnabled());
  QTest::mouseClick(previous, Qt::LeftButton);
  QVERIFY(session()->rows()[4].message.text.contains("lighthouse"));
  QPushButton* next = button(transcript->itemOf(4), QStringLiteral("›"));
  QVERIFY(next && next->isEnabled());
  QTest::mouseClick(next, Qt::LeftButton);
  QCOMPARE(session()->rows()[4].message.text, QString("Name one fish."));
}

void TestWindow::regenerateMakesAnAnswerBranch() {
  const QString before = lastRow().message.text;
  m_heart->reset();
  QTest::keyClick(m_f->window.get(), Qt::Key_R, Qt::ControlModifier);
  QVERIFY(session()->isRunning());
  waitForTurn();
  QCOMPARE(lastRow().branchCount, 2);
  QCOMPARE(lastRow().branchIndex, 1);
  // Greedy, from the same cache: the same text again.
  QCOMPARE(lastRow().message.text, before);
  QVERIFY(button(lastAnswer(), QStringLiteral("‹")));
  WindowFixture::grab(m_f->window.get(), "e2e-branch");
}

void TestWindow::switchesToInt8() {
  engine::EngineConfig config = m_f->engine.config();
  config.precision.weights = engine::WeightMode::kInt8;
  m_heart->reset();
  switchEngine(m_f->engine, m_f->settings, config);
  QTRY_VERIFY_WITH_TIMEOUT(
      !m_f->engine.isLoading() && m_f->engine.info() &&
          m_f->engine.info()->running.precision.weights == engine::WeightMode::kInt8,
      kTurnMs);
  QTest::qWait(50);
  QVERIFY2(m_heart->blocked() <= kLongestBlockMs, m_heart->words());
  send("Say hello.");
  QCOMPARE(QString::fromStdString(lastRow().metrics.report.weights), QString("int8"));
  QVERIFY(!lastRow().message.text.isEmpty());
}

void TestWindow::switchesTheKvCache() {
  engine::EngineConfig config = m_f->engine.config();
  config.cache.type = engine::KvType::kInt8;
  m_heart->reset();
  switchEngine(m_f->engine, m_f->settings, config);
  QTRY_VERIFY_WITH_TIMEOUT(
      !m_f->engine.isLoading() && m_f->engine.info()->running.cache.type == engine::KvType::kInt8,
      kTurnMs);
  send("And goodbye.");
  QCOMPARE(QString::fromStdString(lastRow().metrics.report.kvType), QString("int8"));
  WindowFixture::grab(m_f->window.get(), "e2e-int8");
}

void TestWindow::systemPromptIsUsed() {
  m_f->window->newChat();
  send("Hi.");
  QVERIFY(session()->setSystemPrompt("Always answer in one short sentence about the moon."));
  const int before = lastRow().metrics.report.promptTokens;
  send("Hi again.");
  QVERIFY(lastRow().metrics.report.promptTokens > before + 10);
}

void TestWindow::tooLongIsSaidBeforeSending() {
  Composer* composer = m_f->window->chat()->composer();
  QGuiApplication::clipboard()->setText(QString("many words of text ").repeated(26000));
  m_heart->reset();
  composer->focusInput();
  composer->input()->paste();
  QTRY_VERIFY_WITH_TIMEOUT(!composer->notice().isEmpty(), 30000);
  QVERIFY2(composer->notice().contains("8,192"), qPrintable(composer->notice()));
  QTest::keyClick(composer->input(), Qt::Key_Return);
  QTest::qWait(100);
  QVERIFY(!session()->isRunning());
  QCOMPARE(composer->draft(), QString("many words of text ").repeated(26000));
  QVERIFY2(m_heart->blocked() <= kLongestBlockMs, m_heart->words());
  WindowFixture::grab(m_f->window.get(), "e2e-too-long");
  composer->clearDraft();
}

void TestWindow::exportsTheChat() {
  const auto conversations = m_f->store->conversations();
  QVERIFY(conversations.size() >= 2);
  app::ConversationId id = 0;
  for (const auto& conversation : conversations) {
    if (conversation.title.startsWith("Tell me about")) id = conversation.id;
  }
  QVERIFY(id != 0);
  m_f->window->openConversation(id);
  const auto document = app::loadForExport(*m_f->store, id);
  QVERIFY(document.has_value());
  const QString file = m_f->folder.path() + "/chat.json";
  QVERIFY(app::exportToFile(*document, app::ExportFormat::kJson, file).has_value());
  QFile in(file);
  QVERIFY(in.open(QIODevice::ReadOnly));
  const QJsonArray messages = QJsonDocument::fromJson(in.readAll()).object()["messages"].toArray();
  QCOMPARE(messages.size(), qsizetype(session()->rows().size()));
  for (int i = 0; i < messages.size(); ++i) {
    QCOMPARE(messages[i].toObject()["content"].toString(), session()->rows()[i].message.text);
  }
}

void TestWindow::reopensWithEverything() {
  const QString title = m_f->window->windowTitle();
  const std::size_t rows = session()->rows().size();
  m_f->window->chat()->composer()->setDraft("not sent yet");
  m_f->window->close();
  m_f->window.reset();
  m_f->window = std::make_unique<MainWindow>(
      Services{m_f->settings, *m_f->store, m_f->engine, m_f->pool, m_f->paths});
  m_f->show();
  QCOMPARE(m_f->window->windowTitle(), title);
  QCOMPARE(session()->rows().size(), rows);
  QVERIFY(lastBar()->figures().generated > 0);
  QCOMPARE(m_f->window->chat()->composer()->draft(), QString("not sent yet"));
  m_f->window->chat()->composer()->clearDraft();
}

void TestWindow::cleanupTestCase() {
  if (!m_f || !m_f->engine.info()) return;
  // Closing in mid-answer, and while a model loads, ends soon and cleanly.
  m_f->settings.setSamplingDefaults({{"temperature", 0.0}, {"max_tokens", 4000}});
  InputBox* input = m_f->window->chat()->composer()->input();
  QTest::keyClicks(input, "Write a very long story.");
  QTest::keyClick(input, Qt::Key_Return);
  QTRY_VERIFY_WITH_TIMEOUT(session() && lastRow().message.text.size() > 10, kTurnMs);
  const app::MessageId answer = lastRow().message.id;
  const QString seen = lastRow().message.text;
  QElapsedTimer timer;
  timer.start();
  const QString database = m_f->store->file();
  m_f->window->close();
  m_heart.reset();
  // The members that the database outlives go; the file is looked at afresh.
  m_f->window.reset();
  m_f->engine.load(test::testModelPath(), m_f->settings.engineConfig());
  m_f.reset();
  QVERIFY2(timer.elapsed() < 5000, qPrintable(QString::number(timer.elapsed())));
  Q_UNUSED(answer);
  Q_UNUSED(seen);
}

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  Theme::instance().install(application);
  TestWindow test;
  return QTest::qExec(&test, argc, argv);
}

#include "tst_window.moc"

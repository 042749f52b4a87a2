#include <QPushButton>
#include <QSignalSpy>
#include <QTest>
#include <algorithm>

#include "tests/ui/processor_clock.h"
#include "tests/ui/settle.h"
#include "tests/ui/window_parts.h"
#include "ui/chat/answer_item.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/transcript.h"
#include "ui/chat/why_popover.h"
#include "ui/common/cache_words.h"
#include "ui/common/engine_switching.h"
#include "ui/common/figure_grid.h"
#include "ui/common/plain_label.h"
#include "ui/composer/composer.h"
#include "ui/composer/input_box.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/inspector/latency/cache_proof_view.h"
#include "ui/inspector/latency/cost_chart.h"
#include "ui/inspector/latency/cost_section.h"
#include "ui/inspector/latency/latency_tab.h"
#include "ui/inspector/latency/token_strip.h"
#include "ui/inspector/latency/turn_steps.h"
#include "ui/theme/theme.h"

using namespace vitrine;
using test::WindowParts;

namespace {

const char* const kLongText =
    "A question that is long enough to take several steps of the prefill, because it goes on and "
    "on about nothing in particular, as questions of people who have time sometimes do.";

// The Latency tab on screen, with a tiny real model and a chat.
struct Scene : WindowParts {
  explicit Scene(int prefillChunk = 256) : inspector(engine, settings) {
    inspector.resize(364, 1400);
    inspector.show();
    inspector.showTab("latency");
    engine::EngineConfig config = settings.engineConfig();
    config.prefillChunk = prefillChunk;
    settings.setEngineConfig(config);
    loaded = load(writeParrot("parrot.gguf", "blue, green and grey"));
    session = pool.createConversation();
    inspector.setSession(session);
  }
  bool loadEndless() {
    test::TinyModelOptions options;
    options.contextLength = test::kLongContext;
    // Large enough that a step of a prompt stands out of what a machine is late by itself.
    options.nLayers = 4;
    options.dModel = 256;
    options.dFfn = 1024;
    // Greedy: among random weights the end could be drawn, though it is never the best.
    settings.setSamplingDefaults({{"temperature", 0}});
    return load(writeModel("endless.gguf", options));
  }

  template <typename Widget>
  Widget* find(const char* name = "") {
    const QString objectName = QString::fromLatin1(name);
    return objectName.isEmpty() ? inspector.findChild<Widget*>()
                                : inspector.findChild<Widget*>(objectName);
  }
  QString label(const char* name) { return find<ui::PlainLabel>(name)->text(); }
  const engine::TurnReport& last() { return session->rows().back().metrics.report; }
  bool setCache(bool enabled) {
    engine::EngineConfig config = engine.config();
    config.cache.enabled = enabled;
    ui::switchEngine(engine, settings, config);
    return waitUntilSettled();
  }

  ui::InspectorPanel inspector;
  app::ChatSession* session = nullptr;
  bool loaded = false;
};

int firstNumber(const QString& text) {
  QString digits;
  for (const QChar c : text) {
    if (c.isDigit()) {
      digits += c;
    } else if (!digits.isEmpty() && c != u',') {
      break;
    }
  }
  return digits.toInt();
}

}  // namespace

class TestLatency : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void theWaterfallAddsUp() {
    Scene scene(16);
    QVERIFY(scene.loaded);
    QVERIFY(scene.ask(scene.session, kLongText));
    test::settle();
    const auto* waterfall = scene.find<ui::Waterfall>();
    QStringList names;
    int prefillSteps = 0;
    int prefilled = 0;
    for (const auto& step : waterfall->steps()) {
      names << step.name;
      if (!step.name.startsWith("prefill")) continue;
      ++prefillSteps;
      prefilled += firstNumber(step.name);
    }
    for (const char* part : {"template", "tokenize", "match", "queue", "sample", "detokenize"}) {
      QVERIFY2(names.contains(part), qPrintable(names.join(", ")));
    }
    QVERIFY2(prefillSteps >= 3, qPrintable(names.join(", ")));
    QCOMPARE(prefilled, scene.last().prefilledTokens);
    // All that passed until the first token, and the way to the screen where it was seen.
    const app::TurnMetrics& metrics = scene.session->rows().back().metrics;
    const double sum = ui::sumOf(ui::turnSteps(metrics)) - metrics.beforeRequestMs;
    const double fact = scene.last().ttftMs;
    QVERIFY2(std::abs(sum - fact) <= 0.02 * fact + 0.1,
             qPrintable(QString("%1 of %2").arg(sum).arg(fact)));
    QVERIFY(scene.label("waterfallSum").contains("TTFT"));
    // Few rows, however many steps there were; no token is lost.
    const auto few = ui::turnSteps(metrics, 2);
    int inFew = 0;
    for (const auto& step : few) {
      if (step.name.startsWith("prefill")) inFew += firstNumber(step.name);
    }
    QCOMPARE(inFew, scene.last().prefilledTokens);
    QVERIFY(few.size() < waterfall->steps().size());
  }

  void theFirstPaintOfShortAnswersIsKept() {
    Scene scene;
    ui::ChatView view({scene.settings, *scene.store, scene.engine, scene.pool, scene.paths});
    view.resize(800, 700);
    view.show();
    view.setSession(scene.session);
    for (int turn = 0; turn < 5; ++turn) {
      QVERIFY(scene.ask(scene.session, "Name a colour."));
      QTRY_VERIFY(scene.session->rows().back().metrics.firstPaintMs > 0);
      QVERIFY(scene.session->rows().back().metrics.firstPaintMs >= scene.last().ttftMs);
    }
    test::settle();
    QCOMPARE(scene.find<ui::Waterfall>()->steps().back().name, QString("first paint"));
  }

  void aLongStripKeepsItsLargestToken() {
    ui::TokenStrip strip;
    strip.resize(332, 84);
    std::vector<ui::TokenStrip::Token> tokens(2000, {9.0F, engine::StallCause::kNone});
    tokens[1234] = {310.5F, engine::StallCause::kPutBack};
    strip.setTokens(tokens);
    QVERIFY(strip.columnCount() <= 332 / 2);
    bool found = false;
    for (int x = 0; x < 332; ++x) {
      const QString words = strip.describeAt(x);
      found |= words.contains("token 1236") && words.contains("put back");
    }
    QVERIFY(found);
    QCOMPARE(strip.stalls(engine::StallCause::kPutBack), 1);
    QCOMPARE(strip.p50(), 9.0);
    QVERIFY(!strip.grab().isNull());
  }

  void theStripNamesWhatStalledAToken() {
    Scene scene(64);
    QVERIFY(scene.loadEndless());
    QVERIFY(scene.session->send("Begin, and go on for a while."));
    QSignalSpy tokens(scene.session, &app::ChatSession::tokensArrived);
    QTRY_VERIFY(tokens.count() > 3);
    const auto* strip = scene.find<ui::TokenStrip>();
    // Prompts that are new to the cache, until one shows: it may fall into a moment that the
    // machine is slow for another reason, which is then what the token is marked with.
    for (int i = 0; i < 20 && strip->stalls(engine::StallCause::kOthersPrefill) == 0; ++i) {
      app::ChatSession* other = scene.pool.createConversation();
      QVERIFY(other->send(QString::number(i) + QString(kLongText).repeated(2)));
      QSignalSpy otherTokens(other, &app::ChatSession::tokensArrived);
      QTRY_VERIFY(otherTokens.count() > 0 || !other->isRunning());
      other->stop();
      QTRY_VERIFY(!other->isRunning());
      test::settle();
    }
    scene.session->stop();
    QTRY_VERIFY(!scene.session->isRunning());
    test::settle();
    QVERIFY(strip->stalls(engine::StallCause::kOthersPrefill) > 0);
    bool named = false;
    for (const auto& entry : scene.find<ui::Legend>("stallLegend")->entries()) {
      named |= entry.text == "others' prefill";
    }
    QVERIFY(named);
    // A token is told with its text, by the model that wrote it.
    bool withText = false;
    for (int x = 0; x < strip->width(); ++x) withText |= strip->describeAt(x).contains(u'“');
    QVERIFY(withText);
  }

  void theForecastFollowsTheText() {
    Scene scene;
    ui::Composer composer(scene.engine, scene.settings);
    composer.resize(800, 140);
    composer.show();
    composer.setSession(scene.session);
    QVERIFY(scene.ask(scene.session, "Name three colours, please, and take your time."));
    composer.setDraft("And three more.");
    QTRY_VERIFY2(composer.forecastText().contains("first token"),
                 qPrintable(composer.forecastText()));
    const QString shorter = composer.forecastText();
    QVERIFY2(shorter.contains("reused"), qPrintable(shorter));
    composer.setDraft(QString("And three more. ") + kLongText);
    QTRY_VERIFY2(composer.forecastText() != shorter && composer.forecastText().contains("token ≈"),
                 qPrintable(composer.forecastText()));
    // What was told is what comes.
    QSignalSpy answers(scene.session, &app::ChatSession::forecastReady);
    QVERIFY(scene.session->forecast(composer.draft()));
    QTRY_COMPARE(answers.count(), 1);
    const auto told = answers.front().front().value<engine::Forecast>();
    QVERIFY(scene.ask(scene.session, composer.draft()));
    QCOMPARE(scene.last().promptTokens, told.promptTokens);
    QCOMPARE(scene.last().reusedTokens, told.reusedTokens);
    QCOMPARE(scene.last().prefilledTokens, told.newTokens);
    QVERIFY(scene.last().forecastTtftMs >= 0);
    // Forecast against fact, in figures and over the chat.
    test::settle();
    QVERIFY(scene.label("forecastError").contains("median error"));
    QVERIFY(!scene.find<ui::FigureGrid>("turnFigures")->figure("Forecast → TTFT").isEmpty());
    composer.setDraft({});
    QTRY_VERIFY(composer.forecastText().contains("context"));
  }

  void aForecastWithoutAChat() {
    Scene scene;
    ui::Composer composer(scene.engine, scene.settings);
    composer.show();
    composer.setDraft("Hello there");
    QTRY_VERIFY2(composer.forecastText().contains(" new → first token") ||
                     composer.forecastText().contains(" new · +"),
                 qPrintable(composer.forecastText()));
  }

  void whatDoesNotFitIsToldBeforeSending() {
    Scene scene;
    ui::Composer composer(scene.engine, scene.settings);
    composer.resize(800, 200);
    composer.show();
    composer.setSession(scene.session);
    QVERIFY(scene.ask(scene.session, QString(kLongText).repeated(2).left(300)));
    composer.setDraft(QString(kLongText).repeated(2).left(330));
    QTRY_VERIFY2(composer.forecastText().contains("does not fit"),
                 qPrintable(composer.forecastText()));
    QVERIFY(!composer.notice().isEmpty());
  }

  void typingStaysSmoothInALongText() {
    Scene scene;
    ui::Composer composer(scene.engine, scene.settings);
    composer.resize(800, 300);
    composer.show();
    composer.setSession(scene.session);
    composer.setDraft(QString("word and another ").repeated(30'000 / 17).left(29'000));
    std::vector<double> times;
    for (int i = 0; i < 41; ++i) {
      const test::ProcessorClock clock;
      QTest::keyClick(composer.input(), 'x');
      QCoreApplication::processEvents();
      times.push_back(clock.milliseconds());
      QTest::qWait(i % 10 == 9 ? 450 : 1);  // forecasts are asked and answered meanwhile
    }
    std::nth_element(times.begin(), times.begin() + 20, times.end());
    QVERIFY2(times[20] <= 50, qPrintable(QString("%1 ms a key").arg(times[20])));
  }

  void whyTokensWereComputed() {
    Scene scene;
    QVERIFY(scene.ask(scene.session, "Name three colours, please, and take your time."));
    QVERIFY(scene.ask(scene.session, "And three more."));
    QVERIFY(ui::reuseText(scene.last()).contains(QString::number(scene.last().prefilledTokens)));
    QVERIFY(scene.session->edit(scene.session->rows().front().message.id,
                                "Name three colours, please, but do it at once."));
    QTRY_VERIFY(!scene.session->isRunning());
    const engine::TurnReport report = scene.last();
    QVERIFY2(report.reuse.cause == engine::ReuseCause::kChanged,
             engine::nameOf(report.reuse.cause));
    QVERIFY(ui::isNews(report));
    QWidget anchor;
    anchor.show();
    auto* popover = new ui::WhyPopover(report, &anchor);
    popover->openBelow(&anchor);
    QVERIFY(popover->isVisible());
    const QString text = popover->text();
    QVERIFY2(text.contains(ui::reuseText(report)), qPrintable(text));
    QVERIFY2(text.contains("cached: ") && text.contains("now: "), qPrintable(text));
    QVERIFY2(text.contains("and take") && text.contains("but do"), qPrintable(text));
    popover->close();
  }

  void whatBothTextsEndWithIsCut() {
    const ui::Difference d = ui::differenceOf("old text. The rest", "new text. The rest");
    QCOMPARE(d.before, QString("old"));
    QCOMPARE(d.after, QString("new"));
    QCOMPARE(d.common, QString(" text. The rest"));
    const ui::Difference none = ui::differenceOf({}, "more");
    QCOMPARE(none.after, QString("more"));
    engine::RestoreReport restore{4096, 1 << 20, 60, 3100, true};
    QVERIFY(ui::restoreText(restore).contains("instead of"));
    restore.restored = false;
    QVERIFY(ui::restoreText(restore).contains("faster"));
    QVERIFY(ui::restoreText({}).isEmpty());
  }

  void prefillTellsHowLongItWillTake() {
    Scene scene(32);
    test::TinyModelOptions options;  // large enough that a prompt takes some seconds
    options.nLayers = 8;
    options.dModel = 256;
    options.nHeads = 8;
    options.nKvHeads = 4;
    options.dFfn = 768;
    options.contextLength = 8192;
    QVERIFY(scene.load(scene.writeModel("slow.gguf", options)));
    ui::Transcript transcript;
    transcript.resize(800, 600);
    transcript.show();
    transcript.setSession(scene.session);
    QVERIFY(scene.session->send("Something short first, so that the pace is known."));
    QTRY_VERIFY(scene.session->phase() == app::TurnPhase::kAnswering);
    scene.session->stop();
    QTRY_VERIFY(!scene.session->isRunning());
    QVERIFY(scene.session->send(QString(kLongText).repeated(32)));
    QStringList states;
    QTRY_VERIFY(scene.session->phase() == app::TurnPhase::kPrefilling);
    while (scene.session->phase() == app::TurnPhase::kPrefilling) {
      QTest::qWait(20);
      auto* item = qobject_cast<ui::AnswerItem*>(transcript.itemOf(scene.session->streamingRow()));
      if (item && (states.isEmpty() || states.last() != item->statusText())) {
        states << item->statusText();
      }
    }
    scene.session->stop();
    QTRY_VERIFY(!scene.session->isRunning());
    const QString all = states.join("\n");
    QVERIFY2(states.size() >= 3, qPrintable(all));  // it moves
    QVERIFY2(all.contains("Reading 5,") && all.contains(" tokens · "), qPrintable(all));
    QVERIFY2(all.contains("s left"), qPrintable(all));
  }

  void theCacheIsProved() {
    Scene scene;
    QVERIFY(scene.ask(scene.session, "Name three colours, please, and take your time."));
    QVERIFY(scene.ask(scene.session, "And three more."));
    test::settle();
    auto* button = scene.find<QPushButton>("proofButton");
    QTRY_VERIFY(button->isEnabled());
    QTest::mouseClick(button, Qt::LeftButton);
    QTRY_VERIFY2_WITH_TIMEOUT(
        scene.label("proofResult").contains("Cold") || scene.label("proofResult").contains("cold"),
        qPrintable(scene.label("proofResult")), 20000);
    const auto& proof = scene.session->cacheProof();
    QVERIFY(proof.result.has_value());
    // All but the last, unfilled block of the chat, the answers included.
    const int context = scene.session->contextUsed();
    QVERIFY2(proof.result->tokens >= context - 32 && proof.result->tokens <= context + 16,
             qPrintable(QString("%1 of %2").arg(proof.result->tokens).arg(context)));
    QVERIFY(proof.result->blocks > 0);
    QVERIFY2(ui::holds(*proof.result), qPrintable(ui::proofText(*proof.result)));
    // The chat goes on, from its cache.
    QVERIFY(scene.ask(scene.session, "More."));
    QVERIFY(scene.last().reusedTokens > 0);
  }

  void naiveStandsBesideCached() {
    Scene scene;
    QVERIFY(scene.ask(scene.session, "Name three colours, please, and take your time."));
    test::settle();
    auto* section = scene.find<ui::CostSection>();
    QVERIFY(!section->figure("With the cache").isEmpty());
    QVERIFY(section->figure("Without").isEmpty());
    QVERIFY2(section->hint().contains("switch the KV cache off"), qPrintable(section->hint()));
    QVERIFY(scene.setCache(false));
    test::settle();
    QVERIFY2(section->hint().contains("regenerate"), qPrintable(section->hint()));
    QVERIFY(scene.session->regenerate(scene.session->rows().back().message.id));
    QTRY_VERIFY(!scene.session->isRunning());
    test::settle();
    QVERIFY2(section->hint().isEmpty(), qPrintable(section->hint()));
    QVERIFY(!section->figure("Without").isEmpty());
    QVERIFY(!section->figure("With the cache").isEmpty());  // of the other branch

    std::vector<app::TurnMetrics> turns = scene.session->turnsOffPath();
    QCOMPARE(turns.size(), std::size_t(1));
    turns.push_back(scene.session->rows().back().metrics);
    const ui::CostCurves curves = ui::costCurves(turns);
    QCOMPARE(curves.cached.points.size(), curves.naive.points.size());
    QCOMPARE(curves.cached.computed, qint64(curves.cached.points.size()));
    for (const auto& point : curves.naive.points) QCOMPARE(point.computed, point.position);
  }
};

QTEST_MAIN(TestLatency)
#include "tst_latency.moc"

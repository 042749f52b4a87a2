// Takes the pictures of the window that the README shows: a real model, real chats, the figures
// as they are on this machine. packaging/screenshots.sh runs it.
//
//   vitrine-screenshots MODEL FOLDER          the pictures of the README
//   vitrine-screenshots MODEL FOLDER review   every panel over a chat of 30 turns and 3 branches,
//                                             whole tabs too, at the size of the window
//                                             (QT_SCALE_FACTOR=2 for twice the pixels)

#include <QAction>
#include <QApplication>
#include <QDir>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollArea>
#include <QTemporaryDir>
#include <QTest>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/session_pool.h"
#include "app/server/local_server.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/studio/bundled_texts.h"
#include "app/studio/studio_session.h"
#include "app/text.h"
#include "ui/chat/chat_view.h"
#include "ui/compare/compare_page.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/lab/lab_page.h"
#include "ui/main_window.h"
#include "ui/models/models_page.h"
#include "ui/replay/replay_page.h"
#include "ui/settings/settings_dialog.h"
#include "ui/sidebar/side_bar.h"
#include "ui/studio/loss_section.h"
#include "ui/studio/profile_section.h"
#include "ui/studio/sensitivity_section.h"
#include "ui/studio/studio_page.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/text_choice.h"
#include "ui/theme/theme.h"
#include "ui/topbar/top_bar.h"

using namespace vitrine;

namespace {

constexpr int kLongestWaitMs = 300'000;
constexpr quint64 kMegabyte = 1024 * 1024;

class Photographer {
 public:
  explicit Photographer(const QString& folder) : m_folder(folder) { m_folder.mkpath("."); }

  // Twice: dark and light.
  void take(QWidget* widget, const QString& name) {
    for (const bool dark : {true, false}) {
      ui::Theme::instance().setMode(dark ? ui::ThemeMode::kDark : ui::ThemeMode::kLight);
      QTest::qWait(500);  // panels draw at most ten times a second
      const QString file = m_folder.filePath(name + (dark ? "-dark.png" : "-light.png"));
      if (!widget->grab().save(file, "PNG", 0)) qFatal("cannot write %s", qPrintable(file));
    }
  }

 private:
  QDir m_folder;
};

void waitFor(const std::function<bool()>& done, const char* what) {
  if (!QTest::qWaitFor(done, kLongestWaitMs)) qFatal("%s took too long", what);
}

void ask(app::ChatSession* session, const QString& question) {
  if (const auto sent = session->send(question); !sent) {
    qFatal("%s", sent.error().message.c_str());
  }
  waitFor([&] { return !session->isRunning(); }, "an answer");
  qInfo("%s\n  %s", qPrintable(question), qPrintable(session->rows().back().message.text));
}

void waitForAnswer(app::ChatSession* session, const engine::Result<void>& started) {
  if (!started) qFatal("%s", started.error().message.c_str());
  waitFor([&] { return !session->isRunning(); }, "an answer");
}

/// A chat of 30 turns, of which one question was asked in two ways and one answer given twice.
app::ChatSession* longChat(ui::MainWindow& window, app::SessionPool& pool) {
  app::ChatSession* session = pool.createConversation();
  window.openConversation(session->conversation().id);
  const QStringList subjects = {"the sea",  "the moon",   "bread",   "rain",   "glass",
                                "a violin", "the desert", "a clock", "copper", "the wind"};
  const QStringList questions = {"Say one short sentence about %1.",
                                 "Name two words that go with %1.", "What colour fits %1?"};
  for (const QString& subject : subjects) {
    for (const QString& question : questions) ask(session, question.arg(subject));
  }
  const auto& rows = session->rows();
  waitForAnswer(session, session->regenerate(rows[rows.size() - 1].message.id));
  waitForAnswer(session, session->edit(session->rows()[40].message.id, "Why is rain wet?"));
  waitForAnswer(session, session->selectBranch(session->rows()[40].message.id, -1));
  return session;
}

/// The Studio: profiles of two texts, and every section with something measured in it.
void takeStudio(ui::MainWindow& window, Photographer& photographer) {
  ui::StudioPage& page = *window.studioPage();
  window.openPage(&page);
  const auto idle = [&] { return !page.isRunning(); };
  for (const ui::TextSource& source : ui::bundledSources()) {
    if (source.id != "code" && source.id != "english") continue;
    app::studio::CalibrationJob job;
    job.model = page.state().model();
    job.config = page.state().config();
    job.mostTokens = 2048;
    job.options.name = app::toUtf8(source.title);
    const auto text = ui::readSource(source, page.state().chats());
    if (!text) qFatal("%s", text.error().message.c_str());
    job.texts.push_back(*text);
    page.calibrate(std::move(job));
    waitFor(idle, "a calibration");
  }
  if (!page.state().profile()) qFatal("no profile came of calibrating");
  page.profiles()->compareWithAnother();
  page.loss()->start();
  waitFor(idle, "the loss table");
  page.sensitivity()->start();
  waitFor(idle, "the sensitivity");
  page.state().setSite(engine::siteIndex(page.state().nLayers() / 3, engine::LinearInput::kDown));
  using Page = ui::StudioPage;
  const std::pair<Page::Section, const char*> sections[] = {
      {Page::kProfiles, "profiles"}, {Page::kRanges, "ranges"},
      {Page::kOutliers, "outliers"}, {Page::kSensitivity, "sensitivity"},
      {Page::kLoss, "loss"},         {Page::kDemo, "outliers-demo"}};
  for (const auto& [section, name] : sections) {
    page.showSection(section);
    QTest::qWait(1500);  // smoothing is computed on a thread
    photographer.take(&window, QStringLiteral("studio-") + name);
  }
}

/// A comparison of two temperatures, a replay, the Studio, and the Lab with all its rows measured.
void takePages(ui::MainWindow& window, Photographer& photographer) {
  window.openPage(window.comparePage());
  window.comparePage()
      ->findChild<QPlainTextEdit*>("comparePrompt")
      ->setPlainText("Write one sentence about the sea.");
  window.comparePage()->findChild<QPushButton*>("startComparison")->click();
  waitFor([&] { return !window.comparePage()->run().isRunning(); }, "a comparison");
  photographer.take(&window, "compare");
  window.openPage(window.replayPage());
  window.replayPage()->start();
  waitFor([&] { return !window.replayPage()->isRunning(); }, "a replay");
  photographer.take(&window, "replay");
  takeStudio(window, photographer);
  window.openPage(window.labPage());
  window.labPage()->start(app::lab::Effort::kQuick);
  waitFor([&] { return !window.labPage()->isRunning(); }, "the lab");
  photographer.take(&window, "lab");
}

/// The Precision panel under static scales of code, on a chat in English: live ranges, and the
/// warning.
void takeStaticScales(ui::MainWindow& window, app::EngineClient& engine, app::ChatSession* session,
                      Photographer& photographer) {
  app::studio::StudioSession studio;
  engine::CalibrationPtr profile;
  QObject::connect(&studio, &app::studio::StudioSession::calibrated, &studio,
                   [&](const engine::CalibrationPtr& made) { profile = made; });
  app::studio::CalibrationJob job;
  job.model = engine.model();
  job.config = engine.info()->running;
  job.texts.push_back({"Code", app::studio::bundledText("code"), {}});
  job.mostTokens = 1024;
  job.options.name = "Code";
  studio.calibrate(std::move(job));
  waitFor([&] { return profile != nullptr; }, "a calibration");
  const engine::EngineConfig before = engine.config();
  engine::EngineConfig config = before;
  config.precision.weights = engine::WeightMode::kInt8;
  config.precision.activations = engine::ActivationMode::kInt8;
  config.precision.activationScales = engine::ActivationScales::kStatic;
  config.precision.calibration = profile;
  engine.reconfigure(config);
  waitFor([&] { return !engine.isLoading(); }, "static scales");
  ask(session, "Tell me about the sea and its tides in three sentences.");
  window.inspector()->showTab("precision");
  photographer.take(&window, "window-precision-static");
  for (auto* area : window.inspector()->findChildren<QScrollArea*>()) {
    if (area->isVisible() && area->widget()) {
      photographer.take(area->widget(), "tab-precision-static");
    }
  }
  engine.reconfigure(before);
  waitFor([&] { return !engine.isLoading(); }, "the precision of before");
}

void review(ui::MainWindow& window, app::EngineClient& engine, app::SessionPool& pool,
            Photographer& photographer) {
  app::ChatSession* session = longChat(window, pool);
  for (const char* name : {"cache", "latency", "precision", "attention", "batch"}) {
    const QString tab = QString::fromLatin1(name);
    window.inspector()->showTab(tab);
    if (window.inspector()->currentTab() != tab) qFatal("no tab %s", qPrintable(tab));
    photographer.take(&window, "window-" + tab);
    for (auto* area : window.inspector()->findChildren<QScrollArea*>()) {
      if (area->isVisible() && area->widget()) photographer.take(area->widget(), "tab-" + tab);
    }
  }
  takeStaticScales(window, engine, session, photographer);
  takePages(window, photographer);
}

}  // namespace

int main(int argc, char** argv) {
  const bool isReview = argc == 4 && QByteArray(argv[3]) == "review";
  if (argc != 3 && !isReview) qFatal("usage: vitrine-screenshots MODEL FOLDER [review]");
  QTemporaryDir home;
  qputenv("HOME", home.path().toLocal8Bit());  // the pictures show "~/…", and no one's chats
  for (const char* name : {"XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "VITRINE_HOME"}) {
    qunsetenv(name);
  }
  QApplication application(argc, argv);
  const app::Paths paths = app::Paths::standard();
  app::Settings settings(paths.settings);
  ui::Theme::instance().install(application);
  auto store = app::ConversationStore::open(paths.database);
  if (!store) qFatal("%s", store.error().message.c_str());
  app::EngineClient engine;
  app::SessionPool pool(**store, engine, settings);
  ui::MainWindow window({settings, **store, engine, pool, paths});
  window.resize(1440, 900);
  window.show();
  Photographer photographer(QString::fromLocal8Bit(argv[2]));

  window.openFirstModel({});
  waitFor([&] { return window.isModelsPageShown() && !window.modelsPage()->isReading(); },
          "reading the model folder");
  photographer.take(&window, "first-start");

  engine::EngineConfig config = settings.engineConfig();
  config.cache.budgetBytes = 256 * kMegabyte;
  settings.setEngineConfig(config);
  settings.setSamplingDefaults({{"temperature", 0.2}, {"seed", "11"}});
  window.openModel(app::toPath(QString::fromLocal8Bit(argv[1])));
  waitFor([&] { return engine.info() && !engine.isLoading(); }, "loading the model");

  if (isReview) {
    window.resize(1280, qApp->devicePixelRatio() > 1 ? 720 : 800);
    review(window, engine, pool, photographer);
    return 0;
  }

  app::ChatSession* earlier = pool.createConversation();
  ask(earlier, "What is a cache? Answer in one short sentence.");
  earlier = pool.createConversation();
  ask(earlier, "Name three colours.");

  window.newChat();
  app::ChatSession* session = pool.createConversation();
  window.openConversation(session->conversation().id);
  ask(session, "Tell me about the sea in two sentences.");
  ask(session, "And the mountains, in two sentences?");
  const auto again = session->regenerate(session->rows().back().message.id);
  if (!again) qFatal("%s", again.error().message.c_str());
  waitFor([&] { return !session->isRunning(); }, "a second answer");
  ask(session, "Write a one-line Python function that returns the mean of a list.");
  window.inspector()->showTab("cache");
  photographer.take(&window, "chat");
  window.inspector()->showTab("latency");
  photographer.take(&window, "latency");
  window.inspector()->showTab("precision");
  photographer.take(&window, "precision");
  window.inspector()->showTab("attention");
  photographer.take(&window, "attention");
  takePages(window, photographer);

  app::LocalServer server(engine, settings);
  ui::SettingsDialog dialog(engine, settings, server, paths.models, &window);
  dialog.show();
  dialog.showPage("engine");
  photographer.take(&dialog, "settings-engine");
  dialog.showPage("sampling");
  photographer.take(&dialog, "settings-sampling");
  dialog.close();
  return 0;
}

#pragma once

#include <QApplication>
#include <QDir>
#include <QTemporaryDir>
#include <QTest>
#include <memory>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/session_pool.h"
#include "app/export/exporter.h"
#include "app/paths.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "ui/main_window.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

/// All that the program's main makes, in a folder of its own.
class WindowFixture {
 public:
  WindowFixture()
      : paths(app::Paths::below(folder.path())),
        settings(paths.settings),
        store(std::move(app::ConversationStore::open(paths.database).value())),
        pool(*store, engine, settings) {
    window = std::make_unique<MainWindow>(Services{settings, *store, engine, pool, paths});
    window->resize(1440, 900);
  }
  ~WindowFixture() { window.reset(); }

  void show() {
    window->show();
    QVERIFY(QTest::qWaitForWindowExposed(window.get()));
  }

  app::ConversationId import(const QByteArray& json) {
    const auto result = app::importBytes(*store, json, "test.json");
    return result && !result->conversations.empty() ? result->conversations.front() : 0;
  }

  /// Writes what is on screen to the folder named by VITRINE_GRABS, for a person to look at.
  static void grab(QWidget* widget, const QString& name) {
    const QString folder = qEnvironmentVariable("VITRINE_GRABS");
    if (folder.isEmpty()) return;
    QDir().mkpath(folder);
    QCoreApplication::processEvents();
    widget->grab().save(folder + "/" + name + ".png");
  }

  QTemporaryDir folder;
  app::Paths paths;
  app::Settings settings;
  std::unique_ptr<app::ConversationStore> store;
  app::EngineClient engine;
  app::SessionPool pool;
  std::unique_ptr<MainWindow> window;
};

}  // namespace vitrine::ui

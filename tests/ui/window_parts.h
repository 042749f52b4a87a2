#pragma once

#include <QTemporaryDir>
#include <QTest>
#include <memory>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/session_pool.h"
#include "app/paths.h"
#include "app/server/local_server.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/text.h"
#include "tests/tiny_models.h"

namespace vitrine::test {

/// What the window works with, in a folder of its own, with a real engine and a tiny real model
/// whose answers have no end of their own (stop them, or fill the context).
struct WindowParts {
  WindowParts()
      : paths(app::Paths::below(folder.path())),
        settings(folder.filePath("settings.ini")),
        store(app::ConversationStore::open(folder.filePath("chats.sqlite")).value()),
        pool(*store, engine, settings),
        server(engine, settings) {}

  QString writeModel(const QString& name, const TinyModelOptions& options = {}) {
    const QString path = folder.filePath(name);
    randomModel(options).save(app::toPath(path));
    return path;
  }
  /// A model that always gives the same short answer.
  QString writeParrot(const QString& name, const std::string& text,
                      const std::string& modelName = "parrot") {
    ParrotOptions options;
    options.name = modelName;
    const QString path = folder.filePath(name);
    parrotModel(text, options).save(app::toPath(path));
    return path;
  }
  bool load(const QString& path) {
    engine.load(app::toPath(path), settings.engineConfig());
    return waitUntilSettled() && engine.info();
  }
  bool waitUntilSettled() {
    return QTest::qWaitFor([this] { return !engine.isLoading(); }, 60'000);
  }
  bool ask(app::ChatSession* session, const QString& text) {
    if (!session->send(text)) return false;
    return QTest::qWaitFor([session] { return !session->isRunning(); }, 60'000);
  }

  QTemporaryDir folder;
  app::Paths paths;
  app::Settings settings;
  std::unique_ptr<app::ConversationStore> store;
  app::EngineClient engine;
  app::SessionPool pool;
  app::LocalServer server;
};

}  // namespace vitrine::test

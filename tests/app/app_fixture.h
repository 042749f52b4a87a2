#pragma once

#include <QSignalSpy>
#include <QTemporaryDir>
#include <QtTest>
#include <filesystem>
#include <memory>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/text.h"

namespace vitrine::test {

/// Store, settings and engine in a folder of their own, with a model loaded on demand.
struct AppFixture {
  QTemporaryDir dir;
  std::unique_ptr<app::ConversationStore> store;
  std::unique_ptr<app::Settings> settings;
  std::unique_ptr<app::EngineClient> engine;

  AppFixture() {
    openStore();
    settings = std::make_unique<app::Settings>(dir.filePath(QStringLiteral("vitrine.ini")));
    engine = std::make_unique<app::EngineClient>();
  }

  void openStore() {
    auto opened = app::ConversationStore::open(database());
    if (!opened) qFatal("%s", opened.error().message.c_str());
    store = std::move(*opened);
  }
  QString database() const { return dir.filePath(QStringLiteral("chats.sqlite")); }
  std::filesystem::path path(const char* name) const {
    return dir.filePath(QLatin1String(name)).toStdString();
  }

  /// Loads and waits; false (with a warning) where loading fails.
  bool load(const std::filesystem::path& model, engine::EngineConfig config = {}) {
    bool loaded = false, failed = false;
    QObject context;
    QObject::connect(engine.get(), &app::EngineClient::modelLoaded, &context,
                     [&] { loaded = true; });
    QObject::connect(engine.get(), &app::EngineClient::loadFailed, &context,
                     [&](quint64, const engine::Error& error) {
                       qWarning("%s", error.message.c_str());
                       failed = true;
                     });
    engine->load(model, config);
    return QTest::qWaitFor([&] { return loaded || failed; }, 60000) && loaded;
  }

  std::unique_ptr<app::ChatSession> newSession(app::Conversation draft = {}) {
    return openSession(store->create(std::move(draft))->id);
  }
  std::unique_ptr<app::ChatSession> openSession(app::ConversationId id) {
    return std::make_unique<app::ChatSession>(*store, *engine, *settings, id);
  }
};

/// Sends and waits for the end of the turn, whichever it is.
inline bool sendAndWait(app::ChatSession& session, const QString& text) {
  if (auto sent = session.send(text); !sent) {
    qWarning("%s", sent.error().message.c_str());
    return false;
  }
  return QTest::qWaitFor([&] { return !session.isRunning(); }, 120000);
}

inline const app::MessageRow& lastRow(const app::ChatSession& session) {
  return session.rows().back();
}

}  // namespace vitrine::test

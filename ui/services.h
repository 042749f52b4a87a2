#pragma once

#include "app/paths.h"

namespace vitrine::app {
class ConversationStore;
class EngineClient;
class SessionPool;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

/// What the window works with; main (or a test) owns it and keeps it longer than the window.
struct Services {
  app::Settings& settings;
  app::ConversationStore& store;
  app::EngineClient& engine;
  app::SessionPool& pool;
  app::Paths paths;
};

}  // namespace vitrine::ui

#pragma once

#include <QWidget>

#include "engine/engine_types.h"

class QComboBox;
class QPushButton;
class QSpinBox;
class QVBoxLayout;

namespace vitrine::app {
class EngineClient;
class LocalServer;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

class PlainLabel;

/// A page of the settings: a title, and named fields under each other with a line of explanation.
class SettingsPage : public QWidget {
  Q_OBJECT
 public:
  explicit SettingsPage(const QString& title, QWidget* parent = nullptr);

 protected:
  /// `field` gets `name` as its accessible name where it has none.
  void addField(const QString& name, QWidget* field, const QString& explanation = {});
  void addWide(QWidget* widget);
  void endFields();

 private:
  QVBoxLayout* m_column;
};

/// Look, zoom, what happens at the start, the model folder.
class GeneralPage final : public SettingsPage {
  Q_OBJECT
 public:
  GeneralPage(app::Settings& settings, const QString& standardModelFolder,
              QWidget* parent = nullptr);
};

/// Threads, context, cache sizes. Applied together.
class EnginePage final : public SettingsPage {
  Q_OBJECT
 public:
  EnginePage(app::EngineClient& engine, app::Settings& settings, QWidget* parent = nullptr);

 private:
  void fill();
  void changed();
  void apply();
  engine::EngineConfig entered() const;

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  bool m_filling = false;
  QSpinBox* m_threads;
  QSpinBox* m_context;
  QSpinBox* m_budgetMegabytes;
  QComboBox* m_blockSize;
  QComboBox* m_prefillChunk;
  QComboBox* m_groupSize;
  PlainLabel* m_note;
  QPushButton* m_apply;
  QPushButton* m_reset;
};

/// What happens when the context is full; the system prompt of new chats.
class ChatsPage final : public SettingsPage {
  Q_OBJECT
 public:
  explicit ChatsPage(app::Settings& settings, QWidget* parent = nullptr);
};

/// Whether chats keep their KV cache on disk, how much of it, and what is there now.
class ArchivePage final : public SettingsPage {
  Q_OBJECT
 public:
  ArchivePage(app::EngineClient& engine, app::Settings& settings, QWidget* parent = nullptr);
};

/// Sampling settings of all chats that have none of their own.
class SamplingPage final : public SettingsPage {
  Q_OBJECT
 public:
  SamplingPage(app::EngineClient& engine, app::Settings& settings, QWidget* parent = nullptr);
};

/// The local API server: switch, port, key, and where it listens or why it does not.
class ServerPage final : public SettingsPage {
  Q_OBJECT
 public:
  ServerPage(app::LocalServer& server, app::Settings& settings, QWidget* parent = nullptr);
};

/// Every key of the window.
class KeysPage final : public SettingsPage {
  Q_OBJECT
 public:
  explicit KeysPage(QWidget* parent = nullptr);
};

}  // namespace vitrine::ui

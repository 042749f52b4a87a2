#pragma once

#include <QFrame>
#include <QPointer>
#include <QWidget>
#include <array>
#include <optional>

#include "app/chat/engine_client.h"
#include "app/store/conversation_types.h"
#include "app/studio/studio_session.h"

class QComboBox;
class QProgressBar;
class QPushButton;

namespace vitrine::app {
class ChatSession;
class ConversationStore;
namespace studio {
class ProfileList;
}
}  // namespace vitrine::app

namespace vitrine::ui {

class DivergenceStrip;
class FigureGrid;
class PlainLabel;
class PrecisionForm;
class ReplayText;

/// Precision A/B: a conversation is read again by two configurations on engines of their own, and
/// compared token by token. Nothing of the chats or the loaded engine changes.
class ReplayPage final : public QWidget {
  Q_OBJECT
 public:
  /// Requires: all outlive it.
  ReplayPage(app::EngineClient& engine, app::ConversationStore& store,
             app::studio::ProfileList& profiles, QWidget* parent = nullptr);
  ~ReplayPage() override;

  /// The open chat, which is chosen unless the person chose another; null: none.
  void setSession(app::ChatSession* session);
  void setConfig(int side, const engine::EngineConfig& config);
  const engine::EngineConfig& config(int side) const { return m_configs[std::size_t(side)]; }
  PrecisionForm* form(int side) const { return m_forms[std::size_t(side)]; }
  bool isRunning() const { return m_studio->isRunning(); }
  const std::optional<app::studio::ReplayResult>& result() const { return m_result; }
  QString markdown() const;
  /// Narrow windows cut what does not fit; the page never makes the window wider.
  QSize minimumSizeHint() const override { return {360, 300}; }

 public slots:
  void start();
  void stop();

 signals:
  void closeWanted();
  void compareWanted();  ///< two new answers instead
  void studioWanted();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* makeHead();
  QWidget* makeSides();
  QWidget* makeProgress();
  QWidget* makeResult();
  void takeModel();
  void fillConversations();
  void showForms();
  void showPlan();
  void showResult();
  void exportMarkdown();
  std::uint64_t memoryNeeded() const;
  QString tokenWords(int token) const;

  app::EngineClient& m_engine;
  app::ConversationStore& m_store;
  app::studio::ProfileList& m_profiles;
  QPointer<app::ChatSession> m_session;
  app::studio::StudioSession* m_studio;
  std::array<engine::EngineConfig, 2> m_configs;
  std::string m_fingerprint;  ///< of the model that the sides were made for
  bool m_chosen = false;      ///< the person chose a conversation
  QString m_title;            ///< of the conversation that runs or ran
  std::optional<app::studio::ReplayResult> m_result;
  std::shared_ptr<const engine::Model> m_model;  ///< of the result

  QComboBox* m_conversation;
  QPushButton *m_start, *m_stop, *m_copy, *m_export;
  PlainLabel *m_plan, *m_fault, *m_stage;
  QProgressBar* m_progress;
  QWidget *m_sidesBox, *m_progressBox, *m_resultBox;
  std::array<PrecisionForm*, 2> m_forms{};
  std::array<FigureGrid*, 2> m_figures{};
  PlainLabel *m_summary, *m_pointed;
  DivergenceStrip* m_strip;
  ReplayText* m_text;
};

}  // namespace vitrine::ui

#pragma once

#include <QPointer>
#include <QWidget>
#include <vector>

#include "app/chat/chat_session.h"
#include "ui/services.h"

class QStackedWidget;

namespace vitrine::ui {

class Composer;
class EmptyState;
class FindBar;
class Transcript;

/// The middle of the window: the transcript of the open chat, or what to do in an empty one, and
/// the composer below.
class ChatView final : public QWidget {
  Q_OBJECT
 public:
  /// Requires: what `services` refers to outlives it.
  explicit ChatView(Services services, QWidget* parent = nullptr);

  /// Null: a chat that is created with its first message. The draft of the chat that was shown is
  /// kept and comes back with it.
  void setSession(app::ChatSession* session);
  app::ChatSession* session() const { return m_session; }

  Transcript* transcript() const { return m_transcript; }
  Composer* composer() const { return m_composer; }

 public slots:
  void stop();
  void regenerateLast();
  void editLast();
  void copyLastAnswer();
  void openFind();

 signals:
  /// The first message made a conversation, or a failed turn goes on in a new one.
  void sessionStarted(vitrine::app::ChatSession* session);
  void modelWanted();
  /// A check of the chat's cache began: its panel can be shown.
  void cacheProofStarted();
  void contextWanted();  ///< what leaves the prompt when the context is full?

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void send(const QString& text);
  void resolve(app::WayOut way, app::MessageId message);
  void report(const engine::Result<void>& result);
  void showCacheProof();
  void updatePages();
  void updateComposer();
  void find(const QString& text);
  void stepFind(int step);
  void placeFindBar();

  struct Occurrence {
    int row = 0;
    int index = 0;  ///< within the row
  };

  app::ConversationStore& m_store;
  app::SessionPool& m_pool;
  app::EngineClient& m_engine;
  app::Settings& m_settings;
  QPointer<app::ChatSession> m_session;
  QStackedWidget* m_pages;
  Transcript* m_transcript;
  EmptyState* m_empty;
  FindBar* m_find;
  Composer* m_composer;
  bool m_tellProof = false;  ///< the check that runs was asked for here
  QString m_loadStage;
  double m_loadFraction = 0;
  std::vector<Occurrence> m_occurrences;
  int m_occurrence = -1;
};

}  // namespace vitrine::ui

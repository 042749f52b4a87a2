#pragma once

#include <QHash>
#include <QPointer>
#include <QStringList>
#include <QTimer>
#include <QWidget>
#include <optional>

#include "app/chat/chat_session.h"

class QFrame;
class QHBoxLayout;
class QPushButton;
class QToolButton;

namespace vitrine::app {
class EngineClient;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

class ForecastLine;
class InputBox;
class PlainLabel;
class TokenCounter;

/// Where a message is written: the input box, long pastes as attachments, the forecast under it,
/// Send or Stop, and the way to this chat's settings. Keeps a draft for each chat; a text leaves
/// it only when it was sent or removed by hand.
class Composer final : public QWidget {
  Q_OBJECT
 public:
  Composer(app::EngineClient& engine, app::Settings& settings, QWidget* parent = nullptr);
  ~Composer() override;

  void setSession(app::ChatSession* session);
  /// What is written belongs to this chat from now on: it was begun before the chat was made.
  void adoptDraftBy(app::ChatSession* session);

  QString draft() const;  ///< attachments and text, as they would be sent
  void setDraft(const QString& text);
  void clearDraft();
  /// All drafts, to be kept over the end of the program.
  QByteArray saveDrafts() const;
  void restoreDrafts(const QByteArray& saved);
  void focusInput();
  InputBox* input() const { return m_input; }
  QString forecastText() const;

  /// A sentence above the input; empty: none.
  void showNotice(const QString& text);
  QString notice() const;
  /// Looks at session, engine and settings again.
  void refresh();

 public slots:
  void openChatSettings();
  void submit();

 signals:
  void sendRequested(const QString& text);
  void stopRequested();
  void newChatWanted(const QString& text);
  /// What leaves the prompt when the context is full?
  void contextWanted();

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  struct Draft {
    QString text;
    QStringList attachments;
  };

  void applyTheme();
  void onTextChanged();
  void addAttachment(const QString& text);
  void rebuildChips();
  void countDraft();
  void askForecast();
  void dropForecast();
  void updateForecast();
  bool showForecast();
  void showContextNotice(bool tooLong, int used, int limit);
  void layoutInput();
  int draftSize() const;

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  QPointer<app::ChatSession> m_session;
  app::ConversationId m_conversation = 0;
  QHash<app::ConversationId, Draft> m_drafts;
  QStringList m_attachments;

  QFrame* m_card;
  QWidget* m_column;
  QFrame* m_noticeCard;
  PlainLabel* m_notice;
  QPushButton *m_noticeContext, *m_noticeNewChat;
  QWidget* m_chips;
  QHBoxLayout* m_chipsLayout;
  InputBox* m_input;
  ForecastLine* m_forecast;
  PlainLabel* m_hint;
  QToolButton* m_tune;
  QPushButton *m_send, *m_stop;
  TokenCounter* m_counter;
  int m_draftTokens = -1;  ///< −1: not counted
  bool m_sendWhenCounted = false;
  bool m_noticeIsForecast = false;
  QTimer m_forecastDelay;  ///< single shot, after the last key
  /// The engine's, of the text as it was a moment ago; none until it has answered.
  std::optional<engine::Forecast> m_answer;
  QString m_refusal;                        ///< why it could not answer: the template refuses, …
  engine::RequestId m_chatlessRequest = 0;  ///< of a chat that is made with its first message
};

}  // namespace vitrine::ui

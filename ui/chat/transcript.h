#pragma once

#include <QAbstractScrollArea>
#include <QElapsedTimer>
#include <QPointer>
#include <QTimer>
#include <vector>

#include "app/chat/chat_session.h"
#include "ui/chat/turn_bar.h"

class QPushButton;

namespace vitrine::ui {

class AnswerItem;
class MessageItem;
class UserItem;

/// The messages of a session in a column of 680 px. Only messages near the visible part have
/// widgets; the heights of the others are estimated until they come near, and the first visible
/// message keeps its place when an estimate proves wrong. While an answer streams, one message
/// changes, and the view follows the end only if the person is there.
class Transcript final : public QAbstractScrollArea {
  Q_OBJECT
 public:
  explicit Transcript(QWidget* parent = nullptr);
  ~Transcript() override;

  /// Null shows nothing.
  void setSession(app::ChatSession* session);
  app::ChatSession* session() const { return m_session; }

  bool isAtEnd() const;
  void scrollToEnd();
  /// Brings a message into view; true for one that is there.
  void showRow(int row);
  /// Marks a message for a moment, so that the eye finds it after a jump.
  void flashRow(int row);
  /// The widget of a row, made if need be; for keys and tests.
  MessageItem* itemOf(int row);
  int liveItemCount() const;
  void copyRow(int row);
  /// Opens the editor in the last question (Ctrl+Shift+E); false: there is none.
  bool editLastQuestion();
  /// Pins the message that has the focus, else the last one, or takes its pin away.
  void togglePin();

  /// Marks a text in all messages that have widgets, now and later; empty: none.
  void setHighlight(const QString& needle, int row, int occurrence);

 signals:
  void linkChosen(const QString& target);
  void wayOutChosen(vitrine::app::WayOut way, vitrine::app::MessageId message);
  void regenerateRequested(vitrine::app::MessageId message);
  void pinRequested(vitrine::app::MessageId message, bool pinned);
  void editAccepted(vitrine::app::MessageId question, const QString& text);
  void branchRequested(vitrine::app::MessageId message, int step);
  void cacheProofRequested();
  void firstTextPainted();
  void copied();

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  static constexpr int kLiveIntervalMs = 100;  ///< figures change at most this often

  struct Slot {
    app::MessageId id = 0;
    bool isUser = false;
    int height = 0;
    bool measured = false;
    int y = 0;
    MessageItem* item = nullptr;
  };

  void resetSlots();
  void applyTheme();
  void addSlot(int row);
  int estimate(const app::MessageRow& row) const;
  MessageItem* makeItem(int row);
  void fillItem(int row);
  void relayout();
  void place(int scroll);
  int columnWidth() const;
  int gapBefore(int row) const;
  void placeToEndButton();
  void moveFocus(int step);
  int focusedRow() const;

  void onMessageChanged(int row);
  void updateStreamingRow();
  void onFailure();
  void updateLive();

  QPointer<app::ChatSession> m_session;
  std::vector<Slot> m_slots;
  bool m_follow = true;
  bool m_layingOut = false;
  QPushButton* m_toEnd;
  int m_contentHeight = 0;

  TurnBar::Figures m_live;
  double m_tokenMsSum = 0;
  double m_remainingMs = -1;  ///< at the last step of the prefill
  QElapsedTimer m_sinceStep;
  QTimer m_liveTimer;    ///< single shot: figures change at most ten times a second
  QTimer m_streamTimer;  ///< single shot: a costly answer is drawn less often
  QElapsedTimer m_sinceDrawn;
  qint64 m_drawCostMs = 0;

  QString m_needle;
  int m_needleRow = -1, m_needleOccurrence = -1;
};

}  // namespace vitrine::ui

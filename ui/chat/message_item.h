#pragma once

#include <QWidget>

#include "app/chat/chat_session.h"

namespace vitrine::ui {

class ActionButton;
class TextView;

/// The widget of one message while it is near the visible part of the transcript. It shows a row
/// and says what the person wants; it knows no session.
class MessageItem : public QWidget {
  Q_OBJECT
 public:
  explicit MessageItem(QWidget* parent);

  /// What the row shows now. `running`: this row's answer is being written.
  virtual void setRow(const app::MessageRow& row, bool running) = 0;
  /// Height needed at this width; lays the children out for it.
  virtual int layoutFor(int width) = 0;
  /// The text that reading, finding and copying work on.
  virtual TextView* textView() const = 0;
  /// True while it must not be recycled: the person edits, selects or has the focus in it.
  virtual bool isBusy() const;
  app::MessageId messageId() const { return m_id; }
  /// Pins it, or takes the pin away; as a click on its action.
  void togglePin();
  /// The last of some messages that were left out of the prompt: a line below says so.
  void setEndsLeftOut(bool ends);
  bool endsLeftOut() const { return m_leftOutLine != nullptr; }

 signals:
  void copyRequested();
  void editRequested();  ///< of the question of this turn
  void editAccepted(const QString& text);
  void regenerateRequested();
  void cacheProofRequested();
  void pinRequested(bool pinned);
  void branchRequested(int step);  ///< −1, +1
  void wayOutChosen(vitrine::app::WayOut way);
  void linkChosen(const QString& target);
  void heightChanged();

 protected:
  void enterEvent(QEnterEvent* event) override;
  void leaveEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

  ActionButton* addAction(const QString& text, const QString& accessibleName);
  /// Shows the actions while the pointer or the focus is inside.
  void updateRevealed();
  /// The action that pins; shown at all times while the message is pinned.
  void addPinAction();
  void showPinned(bool pinned);
  /// Pales the text of a message that was left out of the prompt.
  void showInContext(bool inContext);
  /// Places the line about messages that were left out below `y`; the height with it.
  int placeLeftOutLine(int width, int y);
  void showMenu(const QPoint& globalPosition, const QString& link);
  virtual void fillMenu(class QMenu* menu) = 0;

  app::MessageId m_id = 0;
  QList<ActionButton*> m_actions;
  ActionButton* m_pin = nullptr;

 private:
  QWidget* m_leftOutLine = nullptr;
  bool m_isPale = false;
};

}  // namespace vitrine::ui

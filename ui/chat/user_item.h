#pragma once

#include "ui/chat/message_item.h"

class QFrame;
class QPushButton;

namespace vitrine::ui {

class InputBox;

/// What the person wrote: a bubble of exactly these characters, at the right of the column. Very
/// long messages show their beginning and can be opened. Editing happens in place.
class UserItem final : public MessageItem {
  Q_OBJECT
 public:
  explicit UserItem(QWidget* parent);

  void setRow(const app::MessageRow& row, bool running) override;
  int layoutFor(int width) override;
  TextView* textView() const override { return m_text; }
  bool isBusy() const override;
  /// Turns the bubble into an editor with the message's text.
  void beginEdit();
  bool isEditing() const { return m_editor != nullptr; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void fillMenu(QMenu* menu) override;

 private:
  void endEdit(bool accept);
  QString shownText() const;

  QString m_source;
  TextView* m_text;
  QPushButton* m_more;  ///< "Show all"; only for long messages
  ActionButton *m_copy, *m_edit, *m_previous, *m_next;
  InputBox* m_editor = nullptr;
  QPushButton *m_save = nullptr, *m_cancel = nullptr;
  QRect m_bubble;
  int m_branchIndex = 0, m_branchCount = 1;
  bool m_inContext = true;
};

}  // namespace vitrine::ui

#include "ui/chat/message_item.h"

#include <QApplication>
#include <QClipboard>
#include <QMenu>
#include <QTextEdit>

#include "ui/chat/action_button.h"
#include "ui/markdown/text_view.h"

namespace vitrine::ui {

MessageItem::MessageItem(QWidget* parent) : QWidget(parent) {}

bool MessageItem::isBusy() const {
  const QWidget* focus = QApplication::focusWidget();
  return (focus && isAncestorOf(focus)) || textView()->textCursor().hasSelection();
}

ActionButton* MessageItem::addAction(const QString& text, const QString& accessibleName) {
  auto* button = new ActionButton(text, this);
  button->setAccessibleName(accessibleName);
  button->setToolTip(accessibleName);
  button->installEventFilter(this);
  m_actions << button;
  return button;
}

void MessageItem::updateRevealed() {
  const QWidget* focus = QApplication::focusWidget();
  const bool revealed = underMouse() || (focus && isAncestorOf(focus));
  for (ActionButton* action : m_actions) action->setRevealed(revealed);
}

void MessageItem::enterEvent(QEnterEvent*) {
  updateRevealed();
}

void MessageItem::leaveEvent(QEvent*) {
  updateRevealed();
}

bool MessageItem::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::FocusIn || event->type() == QEvent::FocusOut) {
    // The new focus widget is known once the event is through.
    QMetaObject::invokeMethod(
        this, [this] { updateRevealed(); }, Qt::QueuedConnection);
  }
  return QWidget::eventFilter(watched, event);
}

void MessageItem::showMenu(const QPoint& globalPosition, const QString& link) {
  auto* menu = new QMenu(this);
  menu->setAttribute(Qt::WA_DeleteOnClose);
  TextView* view = textView();
  QAction* copy = menu->addAction(tr("Copy selection"), view, &QTextEdit::copy);
  copy->setEnabled(view->textCursor().hasSelection());
  menu->addAction(tr("Copy message"), this, &MessageItem::copyRequested);
  if (!link.isEmpty()) {
    menu->addAction(tr("Copy link address"), this,
                    [link] { QApplication::clipboard()->setText(link); });
  }
  menu->addAction(tr("Select all"), view, &QTextEdit::selectAll);
  menu->addSeparator();
  fillMenu(menu);
  menu->popup(globalPosition);
}

}  // namespace vitrine::ui

#include "ui/chat/message_item.h"

#include <QApplication>
#include <QClipboard>
#include <QGraphicsOpacityEffect>
#include <QMenu>
#include <QPainter>
#include <QTextEdit>

#include "ui/chat/action_button.h"
#include "ui/markdown/text_view.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

constexpr double kPale = 0.45;  // opacity of what the model no longer sees
constexpr int kLineHeight = 26;

/// "── left out of the prompt: context full ──"
class LeftOutLine final : public QWidget {
 public:
  explicit LeftOutLine(QWidget* parent) : QWidget(parent) {
    setAccessibleName(text());
    setToolTip(MessageItem::tr("The pale messages above are kept in the chat, but the model did not "
                               "see them in the last turn. The context chip shows what leaves and "
                               "why."));
  }
  static QString text() { return MessageItem::tr("left out of the prompt: context full"); }

 protected:
  void paintEvent(QPaintEvent*) override {
    const Theme& theme = Theme::instance();
    QPainter painter(this);
    painter.setFont(theme.textFont(12));
    painter.setPen(theme.ink(theme.tokens().prefilled));
    const int words = painter.fontMetrics().horizontalAdvance(text());
    const QRect centre((width() - words) / 2, 0, words + 2, height());
    painter.drawText(centre, Qt::AlignVCenter | Qt::TextSingleLine, text());
    painter.setPen(QPen(theme.tokens().prefilled, 1, Qt::DashLine));
    const int y = height() / 2;
    painter.drawLine(0, y, centre.left() - theme.px(10), y);
    painter.drawLine(centre.right() + theme.px(10), y, width(), y);
  }
};

}  // namespace

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

void MessageItem::addPinAction() {
  m_pin = addAction(tr("Pin"), {});
  m_pin->setObjectName("pinMessage");
  m_pin->setCheckable(true);
  connect(m_pin, &QPushButton::clicked, this, [this](bool pinned) {
    m_pin->setChecked(!pinned);  // until it is in the store
    emit pinRequested(pinned);
  });
  showPinned(false);
}

void MessageItem::togglePin() {
  if (m_pin) m_pin->click();
}

void MessageItem::showPinned(bool pinned) {
  m_pin->setChecked(pinned);
  m_pin->setAlwaysShown(pinned);
  m_pin->setText(pinned ? tr("Pinned") : tr("Pin"));
  m_pin->setAccessibleName(pinned ? tr("Pinned: take the pin away") : tr("Pin this message"));
  m_pin->setToolTip(pinned ? tr("Stays in the prompt when the context is full and pinned messages "
                                "are kept. Click to take the pin away (Ctrl+Shift+P).")
                           : tr("Keep this message in the prompt when the context is full "
                                "(Ctrl+Shift+P)"));
}

void MessageItem::showInContext(bool inContext) {
  if (inContext != m_isPale) return;
  m_isPale = !inContext;
  auto* effect = inContext ? nullptr : new QGraphicsOpacityEffect(this);
  if (effect) effect->setOpacity(kPale);
  textView()->setGraphicsEffect(effect);
  setAccessibleDescription(inContext ? QString() : LeftOutLine::text());
}

void MessageItem::setEndsLeftOut(bool ends) {
  if (ends == endsLeftOut()) return;
  if (ends) {
    m_leftOutLine = new LeftOutLine(this);
    m_leftOutLine->setObjectName("leftOutLine");
    m_leftOutLine->show();
  } else {
    m_leftOutLine->hide();
    m_leftOutLine->deleteLater();
    m_leftOutLine = nullptr;
  }
}

int MessageItem::placeLeftOutLine(int width, int y) {
  if (!m_leftOutLine) return y;
  const int height = Theme::instance().px(kLineHeight);
  m_leftOutLine->setGeometry(0, y, width, height);
  return y + height;
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
  if (m_pin) {
    menu->addAction(m_pin->isChecked() ? tr("Take the pin away") : tr("Pin"),
                    QKeySequence(Qt::CTRL | Qt::SHIFT | Qt::Key_P), this, &MessageItem::togglePin);
  }
  menu->addSeparator();
  fillMenu(menu);
  menu->popup(globalPosition);
}

}  // namespace vitrine::ui

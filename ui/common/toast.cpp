#include "ui/common/toast.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QPainter>
#include <QPushButton>
#include <QTimer>
#include <utility>

#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kAboveEdge = 24;

}  // namespace

Toast* Toast::of(QWidget* anyWidgetOfTheWindow) {
  QWidget* window = anyWidgetOfTheWindow->window();
  if (auto* present = window->findChild<Toast*>(QString(), Qt::FindDirectChildrenOnly))
    return present;
  return new Toast(window);
}

Toast::Toast(QWidget* window)
    : QFrame(window),
      m_label(new PlainLabel(LabelStyle::kBody, this)),
      m_action(new QPushButton(this)),
      m_timer(new QTimer(this)) {
  setAccessibleName(tr("Message"));
  m_action->setCursor(Qt::PointingHandCursor);
  m_action->setProperty("kind", "link");
  m_action->setFocusPolicy(Qt::TabFocus);  // a click leaves the focus where the person writes
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(16, 8, 12, 8);
  row->setSpacing(12);
  row->addWidget(m_label);
  row->addWidget(m_action);
  m_timer->setSingleShot(true);
  connect(m_timer, &QTimer::timeout, this, [this] {
    if (underMouse() || m_action->hasFocus()) {
      restartUnlessHeld();
    } else {
      dismiss();
    }
  });
  connect(m_action, &QPushButton::clicked, this, &Toast::runAction);
  window->installEventFilter(this);
  hide();
}

QString Toast::text() const {
  return m_label->text();
}

void Toast::showMessage(const QString& text, int milliseconds) {
  showMessage(text, {}, {}, milliseconds);
}

void Toast::showMessage(const QString& text, const QString& actionText,
                        std::function<void()> action, int milliseconds,
                        std::function<void()> expired) {
  dismiss();
  m_label->setText(text);
  m_label->setAccessibleName(text);
  m_action->setText(actionText);
  m_action->setVisible(!actionText.isEmpty());
  m_onAction = std::move(action);
  m_onExpired = std::move(expired);
  place();
  show();
  raise();
  m_timer->start(milliseconds);
}

void Toast::dismiss() {
  m_timer->stop();
  hide();
  m_onAction = {};
  if (auto expired = std::exchange(m_onExpired, {})) expired();
}

void Toast::runAction() {
  m_onExpired = {};
  auto action = std::exchange(m_onAction, {});
  dismiss();
  if (action) action();
}

void Toast::restartUnlessHeld() {
  m_timer->start(1500);
}

void Toast::place() {
  const QWidget* window = parentWidget();
  const int widest = std::max(200, window->width() - 48);
  m_label->setWordWrap(false);
  if (sizeHint().width() > widest) m_label->setWordWrap(true);
  const int width = std::min(sizeHint().width(), widest);
  const int height =
      layout()->hasHeightForWidth() ? layout()->heightForWidth(width) : sizeHint().height();
  setGeometry((window->width() - width) / 2, window->height() - height - kAboveEdge, width, height);
}

bool Toast::eventFilter(QObject* watched, QEvent* event) {
  if (watched == parentWidget() && event->type() == QEvent::Resize && isVisible()) place();
  return QFrame::eventFilter(watched, event);
}

void Toast::paintEvent(QPaintEvent*) {
  const Tokens& tokens = Theme::instance().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(tokens.raised);
  painter.setPen(QPen(tokens.line, 1));
  painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 7, 7);
}

}  // namespace vitrine::ui

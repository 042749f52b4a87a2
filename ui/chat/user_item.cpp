#include "ui/chat/user_item.h"

#include <QMenu>
#include <QPainter>
#include <QPushButton>

#include "ui/chat/action_button.h"
#include "ui/chat/text_dialog.h"
#include "ui/common/format.h"
#include "ui/composer/input_box.h"
#include "ui/markdown/text_view.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

constexpr int kIndent = 90;  // the bubble leaves this at the left
constexpr int kPadding = 14;
constexpr int kActionsRow = 24;
constexpr qsizetype kShown = 4000;  // characters of a long message that are laid out
constexpr int kShownLines = 40;

}  // namespace

UserItem::UserItem(QWidget* parent) : MessageItem(parent) {
  m_text = new TextView(this);
  m_text->setAccessibleName(tr("Your message"));
  m_text->installEventFilter(this);
  m_more = new QPushButton(this);
  m_more->setProperty("kind", "link");
  m_more->hide();
  m_copy = addAction(tr("Copy"), tr("Copy this message"));
  m_edit = addAction(tr("Edit"), tr("Edit this message; the answer is written anew as a branch"));
  addPinAction();
  m_previous = addAction(QStringLiteral("‹"), tr("Previous version of this message"));
  m_next = addAction(QStringLiteral("›"), tr("Next version of this message"));
  connect(m_more, &QPushButton::clicked, this,
          [this] { showTextDialog(window(), tr("Your message"), m_source); });
  connect(m_copy, &QPushButton::clicked, this, &MessageItem::copyRequested);
  connect(m_edit, &QPushButton::clicked, this, &UserItem::beginEdit);
  m_previous->setAlwaysShown();
  m_next->setAlwaysShown();
  connect(m_previous, &QPushButton::clicked, this, [this] { emit branchRequested(-1); });
  connect(m_next, &QPushButton::clicked, this, [this] { emit branchRequested(1); });
  connect(m_text, &TextView::menuRequested, this, &UserItem::showMenu);
}

bool UserItem::isBusy() const {
  return m_editor != nullptr || MessageItem::isBusy();
}

QString UserItem::shownText() const {
  qsizetype end = std::min(m_source.size(), kShown);
  int lines = 0;
  for (qsizetype i = 0; i < end; ++i) {
    if (m_source[i] == '\n' && ++lines >= kShownLines) end = i;
  }
  if (end < m_source.size() && end > 0 && m_source[end - 1].isHighSurrogate()) --end;
  return end < m_source.size() ? m_source.left(end) + QStringLiteral(" …") : m_source;
}

void UserItem::setRow(const app::MessageRow& row, bool running) {
  const bool newText = row.message.id != m_id || row.message.text != m_source;
  m_id = row.message.id;
  m_branchIndex = row.branchIndex;
  m_branchCount = row.branchCount;
  if (m_inContext != row.inContext) {
    m_inContext = row.inContext;
    update();
  }
  showInContext(m_inContext);
  showPinned(row.message.pinned);
  if (newText) {
    m_source = row.message.text;
    const QString shown = shownText();
    m_text->setLiteralText(shown);
    const bool cut = shown.size() < m_source.size();
    if (cut) m_more->setText(tr("Show all %1 characters").arg(countText(m_source.size())));
    m_more->setVisible(cut);
  }
  m_edit->setEnabled(!running);
  m_previous->setEnabled(m_branchIndex > 0 && !running);
  m_next->setEnabled(m_branchIndex + 1 < m_branchCount && !running);
  m_previous->setVisible(m_branchCount > 1);
  m_next->setVisible(m_branchCount > 1);
  updateRevealed();
  update();
}

int UserItem::layoutFor(int width) {
  const Theme& theme = Theme::instance();
  const int padding = theme.px(kPadding);
  const int left = std::min(theme.px(kIndent), width / 5);
  const int inner = width - left - 2 * padding;
  // A line's spare height is above its letters: less room at the top looks even.
  const int top = theme.px(8);
  int y = top;
  if (m_editor) {
    const int height = m_editor->heightAt(inner);
    y += theme.px(4);
    m_editor->setGeometry(left + padding, y, inner, height);
    y += height + theme.px(8);
    const QSize save = m_save->sizeHint();
    const QSize cancel = m_cancel->sizeHint();
    m_save->setGeometry(width - padding - save.width(), y, save.width(), save.height());
    m_cancel->setGeometry(m_save->x() - theme.px(8) - cancel.width(), y, cancel.width(),
                          cancel.height());
    y += save.height();
  } else {
    const int height = m_text->heightAt(inner);
    m_text->setGeometry(left + padding, y, inner, height);
    y += height;
    if (!m_more->isHidden()) {
      const QSize more = m_more->sizeHint();
      m_more->setGeometry(left + padding - theme.px(2), y + theme.px(2), more.width(),
                          more.height());
      y += more.height() + theme.px(2);
    }
  }
  y += theme.px(12);
  m_bubble = QRect(left, 0, width - left, y);
  // Actions stand in the free room at the left of the bubble, on its first line.
  int x = left - theme.px(4);
  for (ActionButton* action : {m_edit, m_copy}) {
    const QSize size = action->sizeHint();
    x -= size.width();
    action->setGeometry(x, theme.px(9), size.width(), size.height());
  }
  const QSize pin = m_pin->sizeHint();
  m_pin->setGeometry(left - theme.px(4) - pin.width(), theme.px(9) + pin.height(), pin.width(),
                     pin.height());
  int below = std::max(0, m_pin->geometry().bottom() + 1 - y);
  if (m_branchCount > 1) {
    below = std::max(below, theme.px(kActionsRow));
    const QFontMetrics metrics(theme.textFont(12));
    const QString place = tr("%1 / %2").arg(m_branchIndex + 1).arg(m_branchCount);
    const int next = m_next->sizeHint().width();
    const int placeWidth = metrics.horizontalAdvance(place);
    m_next->setGeometry(width - next, y + theme.px(2), next, theme.px(22));
    m_previous->setGeometry(width - 2 * next - placeWidth, y + theme.px(2), next, theme.px(22));
  }
  return placeLeftOutLine(width, y + below);
}

void UserItem::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::instance();
  const Tokens& t = theme.tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(m_inContext ? QPen(Qt::NoPen) : QPen(t.line, 1, Qt::DashLine));
  painter.setBrush(m_inContext ? t.bubble : QColor(Qt::transparent));
  painter.drawRoundedRect(QRectF(m_bubble).adjusted(0.5, 0.5, -0.5, -0.5), theme.px(10),
                          theme.px(10));
  if (m_branchCount > 1) {
    painter.setFont(theme.textFont(12));
    painter.setPen(t.muted);
    const QRect place(m_previous->geometry().right(), m_previous->y(),
                      m_next->x() - m_previous->geometry().right(), m_previous->height());
    painter.drawText(place, Qt::AlignCenter,
                     tr("%1 / %2").arg(m_branchIndex + 1).arg(m_branchCount));
  }
}

void UserItem::fillMenu(QMenu* menu) {
  QAction* edit = menu->addAction(tr("Edit"), this, &UserItem::beginEdit);
  edit->setEnabled(m_edit->isEnabled());
}

void UserItem::beginEdit() {
  if (m_editor || !m_edit->isEnabled()) return;
  m_editor = new InputBox(this);
  m_editor->setProperty("kind", "reading");
  m_editor->setAccessibleName(tr("Edit message"));
  m_editor->setPlainText(m_source);
  m_editor->moveCursor(QTextCursor::End);
  m_save = new QPushButton(tr("Send as branch"), this);
  m_save->setProperty("kind", "primary");
  m_cancel = new QPushButton(tr("Cancel"), this);
  connect(m_editor, &InputBox::sendRequested, this, [this] { endEdit(true); });
  connect(m_editor, &InputBox::cancelRequested, this, [this] { endEdit(false); });
  connect(m_editor, &InputBox::heightChanged, this, &MessageItem::heightChanged);
  connect(m_save, &QPushButton::clicked, this, [this] { endEdit(true); });
  connect(m_cancel, &QPushButton::clicked, this, [this] { endEdit(false); });
  m_text->hide();
  m_more->hide();
  m_copy->hide();
  m_edit->hide();
  m_pin->hide();
  m_editor->show();
  m_save->show();
  m_cancel->show();
  emit heightChanged();
  m_editor->setFocus();
}

void UserItem::endEdit(bool accept) {
  if (!m_editor) return;
  const QString text = m_editor->toPlainText();
  if (accept && text.trimmed().isEmpty()) return;
  m_editor->hide();
  m_save->hide();
  m_cancel->hide();
  m_editor->deleteLater();
  m_save->deleteLater();
  m_cancel->deleteLater();
  m_editor = nullptr;
  m_save = m_cancel = nullptr;
  m_text->show();
  m_copy->show();
  m_edit->show();
  m_pin->show();
  m_more->setVisible(shownText().size() < m_source.size());
  m_text->setFocus();
  emit heightChanged();
  if (accept && text != m_source) emit editAccepted(text);
}

}  // namespace vitrine::ui

#include "ui/sidebar/conversation_delegate.h"

#include <QAbstractItemView>
#include <QHelpEvent>
#include <QLineEdit>
#include <QPainter>
#include <QToolTip>

#include "app/chat/conversation_list_model.h"
#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

using Model = app::ConversationListModel;

constexpr int kRow = 33;
constexpr int kSection = 30;

QString titleOf(const QModelIndex& index) {
  const QString title = oneLine(index.data(Model::kTitleRole).toString(), 200);
  return title.isEmpty() ? ConversationDelegate::tr("New chat") : title;
}

}  // namespace

ConversationDelegate::ConversationDelegate(QObject* parent) : QStyledItemDelegate(parent) {}

QRect ConversationDelegate::rowRect(const QRect& all, const QModelIndex& index) const {
  const Theme& theme = Theme::instance();
  const bool starts = index.data(Model::kStartsSectionRole).toBool();
  return all.adjusted(0, starts ? theme.px(kSection) : 0, 0, 0);
}

QSize ConversationDelegate::sizeHint(const QStyleOptionViewItem&, const QModelIndex& index) const {
  const Theme& theme = Theme::instance();
  const bool starts = index.data(Model::kStartsSectionRole).toBool();
  return {theme.px(120), theme.px(kRow) + (starts ? theme.px(kSection) : 0)};
}

void ConversationDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                                 const QModelIndex& index) const {
  const Theme& theme = Theme::instance();
  const Tokens& t = theme.tokens();
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  const QRect row = rowRect(option.rect, index);
  if (row.top() > option.rect.top()) {
    painter->setFont(theme.textFont(11.5, QFont::DemiBold));
    painter->setPen(t.muted);
    painter->drawText(QRect(row.left() + theme.px(4), option.rect.top(), row.width(),
                            theme.px(kSection) - theme.px(5)),
                      Qt::AlignLeft | Qt::AlignBottom,
                      index.data(Model::kSectionNameRole).toString());
  }
  const bool selected = option.state & QStyle::State_Selected;
  const bool hovered = option.state & QStyle::State_MouseOver;
  if (selected || hovered) {
    painter->setPen(Qt::NoPen);
    painter->setBrush(selected ? t.raised : t.hover);
    painter->drawRoundedRect(row, theme.px(7), theme.px(7));
  }
  if (option.state & QStyle::State_HasFocus && selected) {
    painter->setPen(QPen(t.accent, 1));
    painter->setBrush(Qt::NoBrush);
    painter->drawRoundedRect(QRectF(row).adjusted(0.5, 0.5, -0.5, -0.5), theme.px(7), theme.px(7));
  }
  const qint64 id = index.data(Model::kIdRole).toLongLong();
  const quint64 held = m_held.value(id);
  // A filled square holds KV; a hollow one does not.
  const int side = theme.px(7);
  const QRectF square(row.left() + theme.px(10), row.center().y() - side / 2.0 + 0.5, side, side);
  const QColor own = theme.conversationColour(index.data(Model::kColourRole).toInt());
  if (held > 0) {
    painter->setPen(Qt::NoPen);
    painter->setBrush(own);
    painter->drawRoundedRect(square, theme.px(2), theme.px(2));
  } else {
    painter->setPen(QPen(mix(t.panel, own, 0.75), 1.2));
    painter->setBrush(Qt::NoBrush);
    painter->drawRoundedRect(square.adjusted(0.6, 0.6, -0.6, -0.6), theme.px(2), theme.px(2));
  }

  int right = row.right() - theme.px(10);
  QString note;
  if (m_running.value(id)) {
    note = tr("writing");
  } else if (held > 0) {
    note = bytesText(held);
  } else if (m_archived.contains(id)) {
    note = tr("disk");
  }
  if (!note.isEmpty()) {
    painter->setFont(theme.figureFont(11));
    painter->setPen(m_running.value(id) ? theme.ink(t.generated) : t.muted);
    const int width = painter->fontMetrics().horizontalAdvance(note);
    painter->drawText(QRect(right - width, row.top(), width, row.height()), Qt::AlignVCenter, note);
    right -= width + theme.px(8);
  }
  painter->setFont(theme.textFont(13));
  painter->setPen(t.text);
  const int left = int(square.right()) + theme.px(9);
  const QString title = titleOf(index);
  painter->drawText(QRect(left, row.top(), right - left, row.height()),
                    Qt::AlignVCenter | Qt::TextSingleLine,
                    painter->fontMetrics().elidedText(title, Qt::ElideRight, right - left));
  painter->restore();
}

QWidget* ConversationDelegate::createEditor(QWidget* parent, const QStyleOptionViewItem&,
                                            const QModelIndex&) const {
  auto* editor = new QLineEdit(parent);
  editor->setMaxLength(200);
  editor->setAccessibleName(tr("Title"));
  return editor;
}

void ConversationDelegate::setEditorData(QWidget* editor, const QModelIndex& index) const {
  auto* line = static_cast<QLineEdit*>(editor);
  line->setText(index.data(Model::kTitleRole).toString());
  line->selectAll();
}

void ConversationDelegate::setModelData(QWidget* editor, QAbstractItemModel*,
                                        const QModelIndex& index) const {
  const QString title = static_cast<QLineEdit*>(editor)->text().trimmed();
  if (title.isEmpty() || title == index.data(Model::kTitleRole).toString()) return;
  emit renamed(index.data(Model::kIdRole).toLongLong(), title);
}

void ConversationDelegate::updateEditorGeometry(QWidget* editor, const QStyleOptionViewItem& option,
                                                const QModelIndex& index) const {
  editor->setGeometry(rowRect(option.rect, index));
}

bool ConversationDelegate::helpEvent(QHelpEvent* event, QAbstractItemView* view,
                                     const QStyleOptionViewItem&, const QModelIndex& index) {
  if (event->type() != QEvent::ToolTip || !index.isValid()) return false;
  QString text = titleOf(index);
  const quint64 held = m_held.value(index.data(Model::kIdRole).toLongLong());
  if (held > 0) text += QLatin1Char('\n') + tr("%1 of KV cache in memory").arg(bytesText(held));
  const quint64 archived = m_archived.value(index.data(Model::kIdRole).toLongLong());
  if (archived > 0)
    text += QLatin1Char('\n') + tr("%1 of KV cache on disk").arg(bytesText(archived));
  QToolTip::showText(event->globalPos(), literalToolTip(text), view);
  return true;
}

}  // namespace vitrine::ui

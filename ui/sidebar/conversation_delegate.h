#pragma once

#include <QHash>
#include <QStyledItemDelegate>

namespace vitrine::ui {

/// A row of the conversation list: own colour, title, and at the right the memory that its KV
/// holds, or that its KV is on disk alone. A row that starts a section carries the section's name above it. Titles are drawn as
/// they are written.
class ConversationDelegate final : public QStyledItemDelegate {
  Q_OBJECT
 public:
  explicit ConversationDelegate(QObject* parent = nullptr);

  /// Bytes held, by conversation id; rows that are missing hold nothing.
  void setHeld(const QHash<qint64, quint64>& bytes) { m_held = bytes; }
  /// Bytes on disk, in the same way.
  void setArchived(const QHash<qint64, quint64>& bytes) { m_archived = bytes; }
  /// The conversations in which an answer is being written.
  void setRunning(const QHash<qint64, bool>& running) { m_running = running; }

  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QWidget* createEditor(QWidget* parent, const QStyleOptionViewItem& option,
                        const QModelIndex& index) const override;
  void setEditorData(QWidget* editor, const QModelIndex& index) const override;
  void setModelData(QWidget* editor, QAbstractItemModel* model,
                    const QModelIndex& index) const override;
  void updateEditorGeometry(QWidget* editor, const QStyleOptionViewItem& option,
                            const QModelIndex& index) const override;
  bool helpEvent(QHelpEvent* event, QAbstractItemView* view, const QStyleOptionViewItem& option,
                 const QModelIndex& index) override;

 signals:
  void renamed(qint64 id, const QString& title) const;

 private:
  QRect rowRect(const QRect& all, const QModelIndex& index) const;

  QHash<qint64, quint64> m_held, m_archived;
  QHash<qint64, bool> m_running;
};

}  // namespace vitrine::ui

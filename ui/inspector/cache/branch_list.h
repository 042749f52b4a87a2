#pragma once

#include <QVector>
#include <QWidget>

#include "ui/inspector/cache/block_owners.h"
#include "ui/inspector/cache/branch_shares.h"

namespace vitrine::ui {

/// The branches of a conversation in the pool, a row each: what it shares with the other branches,
/// what with other chats, what it has alone. A click or Enter chooses one; arrow keys move.
class BranchList final : public QWidget {
  Q_OBJECT
 public:
  explicit BranchList(QWidget* parent = nullptr);
  void setBranches(const BranchShares& shares, const QVector<BlockOwnerLook>& looks);
  int rowCount() const { return int(m_rows.size()); }
  /// The row in words.
  QString rowText(int row) const;
  QRect rowRect(int row) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  /// An index into the snapshot's owners.
  void chosen(int owner);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Row {
    BranchShares::Branch branch;
    QString name;
    QColor colour;
    int order = 0;
  };
  int rowAt(QPoint position) const;
  void focusRow(int row);

  QVector<Row> m_rows;
  int m_focused = 0;
  int m_hovered = -1;
};

}  // namespace vitrine::ui

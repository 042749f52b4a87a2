#pragma once

#include <QString>
#include <QVector>
#include <QWidget>
#include <memory>

#include "engine/engine_types.h"
#include "ui/inspector/cache/block_owners.h"

namespace vitrine::ui {

/// The pool of KV blocks, a cell each, in the pool's order: coloured by who holds it, as full as it
/// is written. A block that several branches or chats hold has the colours of two of them and a cut
/// corner; one that a turn uses now has an outline. Hover or arrow keys tell about a block, a click
/// or Enter chooses it.
class BlockMap final : public QWidget {
  Q_OBJECT
 public:
  enum class Extent {
    kHeld,   ///< what holds something and a few free blocks behind it; the rest is told in words
    kWhole,  ///< every block of the pool, cells of cellPixels()
  };
  explicit BlockMap(Extent extent, QWidget* parent = nullptr);

  /// `looks`: one for each of the snapshot's owners.
  void setBlocks(std::shared_ptr<const engine::EngineSnapshot> snapshot,
                 QVector<BlockOwnerLook> looks);
  /// What a block says, asked for by textWanted(): completes the tip that is on screen.
  void setText(int block, const QString& text);
  /// Design pixels from cell to cell; for Extent::kWhole.
  void setCellPixels(int pixels);

  /// Free blocks that are not drawn.
  int hiddenFreeBlocks() const;
  /// What is known of a block without its text.
  QString describe(int block) const;
  /// -1: none.
  int blockAt(QPoint position) const;
  QRectF cellRect(int block) const;
  /// The block that the keyboard or the pointer is on, or -1.
  int pointedAt() const { return m_pointed; }

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override;

 signals:
  /// The person looks at a block: its text is asked for. -1: at none.
  void textWanted(int block);
  void chosen(int block);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Layout {
    int columns = 1, rows = 0, cells = 0;
    double pitch = 10, side = 8;
  };
  Layout layOut(int width) const;
  int shownBlocks() const;
  void paintCell(QPainter& painter, int block) const;
  void point(int block);
  void showTip(QPoint globalPosition);
  QString tipText() const;

  Extent m_extent;
  int m_cellPixels = 14;
  std::shared_ptr<const engine::EngineSnapshot> m_snapshot;
  QVector<BlockOwnerLook> m_looks;
  std::vector<std::int16_t> m_others;  ///< [blocks] a second holder, or -1
  Layout m_layout;
  int m_pointed = -1;
  bool m_byKeyboard = false;
  QPoint m_tipPosition;
  int m_textOf = -1;  ///< the block that m_text is of
  QString m_text;
};

}  // namespace vitrine::ui

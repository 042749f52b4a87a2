#pragma once

#include <QColor>
#include <QString>
#include <QVector>
#include <QWidget>
#include <memory>

#include "engine/engine_types.h"
#include "ui/inspector/inspector_state.h"

namespace vitrine::ui {

/// The pool of KV blocks, a cell each, in the pool's order: coloured by who holds it, as full as
/// it is written, a corner where several share it, an outline where a turn uses it now. Cells
/// shrink with the size of the pool; free blocks behind the last used one are told in words.
/// Hover or arrow keys tell about a cell.
class BlockMap final : public QWidget {
  Q_OBJECT
 public:
  explicit BlockMap(QWidget* parent = nullptr);

  /// `colours`: one for each of the snapshot's owners; `names` likewise.
  void setBlocks(std::shared_ptr<const engine::EngineSnapshot> snapshot, QVector<QColor> colours,
                 QStringList names);
  /// Free blocks that are not drawn.
  int hiddenFreeBlocks() const;
  /// Blocks that share a cell (1 unless the pool is huge).
  int blocksPerCell() const { return m_layout.blocksPerCell; }
  QString describeCell(int cell) const;
  int cellAt(QPoint position) const;
  QRectF cellRect(int cell) const;

  QSize sizeHint() const override;
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Layout {
    int columns = 1, rows = 0, cells = 0, blocksPerCell = 1;
    double pitch = 10, side = 8;
  };
  Layout layOut(int width) const;
  int shownBlocks() const;

  std::shared_ptr<const engine::EngineSnapshot> m_snapshot;
  QVector<QColor> m_colours;
  QStringList m_names;
  Layout m_layout;
  int m_focused = -1;
};

}  // namespace vitrine::ui

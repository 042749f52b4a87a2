#pragma once

#include <QDialog>

#include "ui/inspector/cache/block_owners.h"
#include "ui/inspector/inspector_state.h"

class QSlider;

namespace vitrine::ui {

class BlockMap;
class Legend;
class PlainLabel;

/// Every block of the pool, large enough to read: cells of a size that the person chooses, and
/// below them what the block under the pointer or the keyboard holds.
class BlockMapDialog final : public QDialog {
  Q_OBJECT
 public:
  explicit BlockMapDialog(QWidget* parent = nullptr);
  void showState(const InspectorState& state, const QVector<BlockOwnerLook>& looks);
  void setText(int block, const QString& text);
  BlockMap* map() const { return m_map; }

 signals:
  void textWanted(int block);
  void chosen(int block);

 private:
  void showBlock(int block);

  PlainLabel* m_counts;
  BlockMap* m_map;
  QSlider* m_size;
  Legend* m_legend;
  PlainLabel* m_block;
  PlainLabel* m_text;
};

}  // namespace vitrine::ui

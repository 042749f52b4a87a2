#pragma once

#include <QPointer>
#include <QWidget>

#include "ui/common/legend.h"
#include "ui/inspector/cache/block_owners.h"
#include "ui/inspector/inspector_state.h"

class QPushButton;

namespace vitrine::ui {

class BlockMap;
class BlockMapDialog;
class PlainLabel;

/// The block map with its legend, and the way to the whole pool in a window of its own.
class BlockSection final : public QWidget {
  Q_OBJECT
 public:
  explicit BlockSection(QWidget* parent = nullptr);
  void showState(const InspectorState& state, const QVector<BlockOwnerLook>& looks);
  void setText(int block, const QString& text);

  /// The window of the whole pool, or null while it is closed.
  BlockMapDialog* dialog() const;
  void openDialog();

 signals:
  void textWanted(int block);
  void chosen(int block);
  /// The window of the whole pool was opened: it needs states from now on.
  void dialogOpened();

 private:
  BlockMap* m_map;
  Legend* m_legend;
  PlainLabel* m_note;
  QPushButton* m_whole;
  QPointer<BlockMapDialog> m_dialog;
};

/// What the colours and marks of a block map stand for; at most `mostNames` chats by name.
QVector<Legend::Entry> blockLegend(const engine::EngineSnapshot& snapshot,
                                   const QVector<BlockOwnerLook>& looks, int mostNames);

}  // namespace vitrine::ui

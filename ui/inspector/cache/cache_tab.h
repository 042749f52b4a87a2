#pragma once

#include "ui/inspector/inspector_tab.h"

namespace vitrine::ui {

class BlockMap;
class FormulaView;
class Legend;
class PlainLabel;
class StackedBar;
class TurnChart;

/// What the KV cache holds: of this chat by the formula and by the allocator, over its turns, the
/// pool's blocks by owner, and where the process's memory is.
class CacheTab final : public InspectorTab {
  Q_OBJECT
 public:
  explicit CacheTab(QWidget* parent = nullptr);
  void showState(const InspectorState& state) override;

 private:
  void showUse(const InspectorState& state);
  void showFormula(const InspectorState& state, int tokens);
  void showTurns(const InspectorState& state, std::uint64_t bytesNow);
  void showBlocks(const InspectorState& state);
  void showMemory(const InspectorState& state);

  PlainLabel* m_budget;
  PlainLabel* m_bytes;
  PlainLabel* m_details;
  FormulaView* m_formula;
  PlainLabel* m_held;
  PlainLabel* m_hint;
  TurnChart* m_chart;
  PlainLabel* m_blockCount;
  BlockMap* m_blocks;
  Legend* m_blockLegend;
  PlainLabel* m_blockNote;
  PlainLabel* m_memoryTotal;
  StackedBar* m_memoryBar;
  Legend* m_memoryLegend;
  PlainLabel* m_memoryNote;
};

/// The colour of this chat's branch in the block map: the teal of reuse, a shade a branch.
QColor branchColour(int branch);

}  // namespace vitrine::ui

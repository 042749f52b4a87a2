#pragma once

#include "ui/inspector/cache/block_owners.h"
#include "ui/inspector/inspector_tab.h"

namespace vitrine::ui {

class BlockSection;
class BranchList;
class FormulaView;
class LayoutView;
class LedgerView;
class Legend;
class PlainLabel;
class TurnChart;

/// What the KV cache holds: of this chat by the formula and by the allocator, over its turns,
/// the pool's blocks by owner, what branches share, what another layout would cost, and where the
/// process's memory is.
class CacheTab final : public InspectorTab {
  Q_OBJECT
 public:
  explicit CacheTab(QWidget* parent = nullptr);
  void showState(const InspectorState& state) override;
  void showBlockText(int block, const QString& text) override;
  bool wantsStates() const override;

 private:
  void showUse(const InspectorState& state);
  void showFormula(const InspectorState& state, int tokens);
  void showTurns(const InspectorState& state, std::uint64_t bytesNow);
  void showBlocks(const InspectorState& state);
  void showBranches(const InspectorState& state);
  void showMemory(const InspectorState& state);
  void chooseBlock(int block);
  void chooseBranch(int owner);

  std::shared_ptr<const engine::EngineSnapshot> m_snapshot;
  QVector<BlockOwnerLook> m_looks;
  QString m_branchOnScreen;
  PlainLabel* m_budget;
  PlainLabel* m_bytes;
  PlainLabel* m_details;
  FormulaView* m_formula;
  PlainLabel* m_held;
  PlainLabel* m_hint;
  TurnChart* m_chart;
  PlainLabel* m_blockCount;
  BlockSection* m_blocks;
  PlainLabel* m_saved;
  BranchList* m_branches;
  Legend* m_branchLegend;
  PlainLabel* m_branchNote;
  LayoutView* m_layouts;
  PlainLabel* m_memoryTotal;
  LedgerView* m_ledger;
};

}  // namespace vitrine::ui

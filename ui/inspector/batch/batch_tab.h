#pragma once

#include "ui/inspector/inspector_tab.h"

namespace vitrine::ui {

class FigureGrid;
class Legend;
class PlainLabel;
class SegmentedSwitch;
class StepLanes;

/// How several answers share the engine: its latest steps as lanes, who was in each, what a second
/// chat costs the first, and continuous against static batching.
class BatchTab final : public InspectorTab {
  Q_OBJECT
 public:
  explicit BatchTab(QWidget* parent = nullptr);
  void showState(const InspectorState& state) override;

 private:
  void showLanes();
  void showFigures();
  void showSwitch();
  int columnsWanted() const;

  InspectorState m_state;
  PlainLabel* m_lanesAside;
  StepLanes* m_lanes;
  PlainLabel* m_empty;
  Legend* m_legend;
  SegmentedSwitch* m_columns;
  PlainLabel* m_pointed;
  FigureGrid* m_now;
  PlainLabel* m_costAside;
  FigureGrid* m_cost;
  PlainLabel* m_costNote;
  SegmentedSwitch* m_batching;
  PlainLabel* m_batchingNote;
};

}  // namespace vitrine::ui

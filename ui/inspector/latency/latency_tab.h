#pragma once

#include "ui/inspector/inspector_tab.h"

class QScrollArea;

namespace vitrine::ui {

class FigureGrid;
class PlainLabel;
class TokenStrip;
class TurnChart;
class TurnTable;
class Waterfall;

/// How long the turns took: time to the first token and for each token, over the turns; where the
/// time to the first token went; each token's latency.
class LatencyTab final : public InspectorTab {
  Q_OBJECT
 public:
  explicit LatencyTab(QWidget* parent = nullptr);
  void showState(const InspectorState& state) override;
  /// From 1. The last turn is followed until another is selected.
  int selectedTurn() const { return m_selected; }

 private:
  void select(int turn);
  void showSelected();
  void showCharts();

  InspectorState m_state;
  int m_selected = 0;
  bool m_followLast = true;

  PlainLabel* m_ttftAside;
  TurnChart* m_ttft;
  PlainLabel* m_tpotAside;
  TurnChart* m_tpot;
  TurnTable* m_table;
  QScrollArea* m_tableScroll;
  PlainLabel* m_partsHeading;
  PlainLabel* m_partsTotal;
  Waterfall* m_parts;
  PlainLabel* m_reason;
  PlainLabel* m_stripAside;
  TokenStrip* m_strip;
  FigureGrid* m_figures;
};

}  // namespace vitrine::ui

#pragma once

#include "ui/inspector/inspector_tab.h"

class QScrollArea;

namespace vitrine::ui {

class CacheProofView;
class CostSection;
class FigureGrid;
class Legend;
class PlainLabel;
class TokenStrip;
class TurnChart;
class TurnTable;
class Waterfall;

/// How long the turns took: time to the first token (forecast and fact) and for each token, over
/// the turns; where the time to the first token went; each token's latency and what stalled it;
/// what the cache spares; whether the cache is right.
class LatencyTab final : public InspectorTab {
  Q_OBJECT
 public:
  explicit LatencyTab(QWidget* parent = nullptr);
  void showState(const InspectorState& state) override;
  /// From 1. The last turn is followed until another is selected.
  int selectedTurn() const { return m_selected; }

 private:
  void addParts();
  void addStrip();
  void select(int turn);
  void showSelected();
  void showParts(const app::TurnMetrics& turn, bool any);
  void showStrip(const app::TurnMetrics& turn, bool any);
  void showFigures(const app::TurnMetrics& turn, bool any);
  void showCharts();
  void showForecasts();
  void showCost();
  void showProof();
  QString tokenText(int token) const;

  InspectorState m_state;
  int m_selected = 0;
  bool m_followLast = true;
  int m_rowsShown = 0;
  int m_costVersion = -1;  ///< of the turns that the curves were made of
  bool m_costCacheOn = false;

  PlainLabel* m_ttftAside;
  TurnChart* m_ttft;
  PlainLabel* m_forecasts;
  PlainLabel* m_tpotAside;
  TurnChart* m_tpot;
  TurnTable* m_table;
  QScrollArea* m_tableScroll;
  PlainLabel* m_partsHeading;
  PlainLabel* m_partsTotal;
  Waterfall* m_parts;
  PlainLabel* m_sum;
  PlainLabel* m_reason;
  PlainLabel* m_stripAside;
  TokenStrip* m_strip;
  PlainLabel* m_pointed;
  Legend* m_stalls;
  FigureGrid* m_figures;
  CostSection* m_cost;
  CacheProofView* m_proof;
};

/// Median of |fact − forecast| / fact over the turns that were forecast; −1: none was.
/// `count`: how many there are.
double medianForecastError(const std::vector<app::TurnMetrics>& turns, int* count = nullptr);

}  // namespace vitrine::ui

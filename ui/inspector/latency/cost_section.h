#pragma once

#include <QWidget>

#include "app/chat/turn_metrics.h"

namespace vitrine::ui {

class CostChart;
class FigureGrid;
class Legend;
class PlainLabel;

/// Naive generation beside cached: the chart, its sums, and what to do for the curve that is
/// missing. Everything was measured in this chat; nothing is computed for it.
class CostSection final : public QWidget {
  Q_OBJECT
 public:
  explicit CostSection(QWidget* parent = nullptr);
  /// Of all branches. `cacheOn`: whether the next answer uses the cache.
  void setTurns(const std::vector<app::TurnMetrics>& turns, bool cacheOn);
  QString hint() const;
  QString figure(const QString& name) const;

 private:
  CostChart* m_chart;
  Legend* m_legend;
  FigureGrid* m_sums;
  PlainLabel* m_hint;
};

}  // namespace vitrine::ui

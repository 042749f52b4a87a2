#pragma once

#include <QString>
#include <QVector>
#include <QWidget>
#include <vector>

#include "app/chat/turn_metrics.h"

namespace vitrine::ui {

/// What each token of an answer cost: over the sequence's length, with the cache and without.
struct CostCurve {
  struct Point {
    int position = 0;  ///< of the token in its sequence
    float milliseconds = 0;
    int computed = 0;  ///< positions that were computed for it
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points;  ///< by position
  qint64 computed = 0;        ///< positions, all tokens together
  double milliseconds = 0;

  bool operator==(const CostCurve&) const = default;
};

/// The tokens after the first of each turn, apart by whether each of them computed its whole
/// sequence anew (the cache was off) or only itself. Turns that tell nothing are left out.
struct CostCurves {
  CostCurve cached, naive;
  bool operator==(const CostCurves&) const = default;
};
CostCurves costCurves(const std::vector<app::TurnMetrics>& turns);

/// Two plots under each other over the length of the sequence, measured tokens of turns with the
/// cache (line, teal) beside those without (crosses, amber): milliseconds a token, and positions
/// computed a token.
class CostChart final : public QWidget {
  Q_OBJECT
 public:
  explicit CostChart(QWidget* parent = nullptr);
  void setCurves(CostCurves curves);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QRectF plotArea(int plot) const;
  int lastPosition() const;

  CostCurves m_curves;
};

}  // namespace vitrine::ui

#pragma once

#include <QColor>
#include <QVector>
#include <QWidget>
#include <functional>

namespace vitrine::ui {

/// A value for each turn: as a line with its area (what grows) or as bars (what a turn took).
/// Hover tells the value; arrow keys move the mark. Scales to the largest value.
class TurnChart final : public QWidget {
  Q_OBJECT
 public:
  enum class Kind { kLine, kBars };
  struct Point {
    int turn = 0;  ///< from 1; 0: before the first
    double value = 0;
    QString toolTip;       ///< plain text
    bool live = false;     ///< still growing: drawn hollow
    double expected = -1;  ///< what was forecast, a line across the bar; −1: nothing was
    bool operator==(const Point&) const = default;
  };

  TurnChart(Kind kind, int designHeight, QWidget* parent = nullptr);
  void setColour(std::function<QColor()> colour);  ///< asked at each painting
  void setFormat(std::function<QString(double)> format);
  void setPoints(QVector<Point> points);
  void setEmptyText(const QString& text);
  void setSelectedTurn(int turn);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  void turnSelected(int turn);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QRectF plotArea() const;
  QPointF place(int index) const;
  int pointAt(QPoint position) const;
  double top() const;

  Kind m_kind;
  int m_designHeight;
  std::function<QColor()> m_colour;
  std::function<QString(double)> m_format;
  QVector<Point> m_points;
  QString m_emptyText;
  int m_hovered = -1;
  int m_selectedTurn = 0;
};

}  // namespace vitrine::ui

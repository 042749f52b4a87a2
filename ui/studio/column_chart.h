#pragma once

#include <QVector>
#include <QWidget>
#include <vector>

#include "ui/studio/log_axis.h"

namespace vitrine::ui {

/// Magnitudes of channels on a logarithmic axis: bars for the values now, a line for what they were
/// or would be, and a threshold with what lies above it marked. Channels are grouped (the largest
/// of a group) so that they fit the width.
class ColumnChart final : public QWidget {
  Q_OBJECT
 public:
  explicit ColumnChart(int designHeight, QWidget* parent = nullptr);

  /// Bars [channels]; `before` [channels] or empty: a line over them.
  void setValues(const QString& title, std::vector<float> values, std::vector<float> before = {});
  /// 0: none. Bars at or above it are marked, and `text` stands at its line.
  void setThreshold(float threshold, const QString& text);
  void clear(const QString& emptyText);

  const std::vector<float>& values() const { return m_values; }
  const std::vector<float>& before() const { return m_before; }
  float threshold() const { return m_threshold; }
  QString textAt(int x) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 signals:
  void pointed(const QString& text);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  QRectF plotArea() const;
  int channelsOfBar() const;
  int barCount() const;
  int barAt(int x) const;
  float largestOf(const std::vector<float>& values, int bar) const;
  void takeAxis();
  void describe();

  int m_designHeight;
  QString m_title, m_emptyText, m_thresholdText;
  std::vector<float> m_values, m_before;
  float m_threshold = 0;
  LogAxis m_axis;
  int m_hovered = -1;
};

}  // namespace vitrine::ui

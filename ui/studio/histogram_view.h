#pragma once

#include <QVector>
#include <QWidget>
#include <optional>

#include "engine/quant/magnitude_histogram.h"
#include "ui/studio/log_axis.h"

namespace vitrine::ui {

/// How often which magnitude occurred: both axes logarithmic. Marks show where a scale ends
/// (beyond: clipped, hatched) and its half step (below: becomes 0, dotted).
class HistogramView final : public QWidget {
  Q_OBJECT
 public:
  struct Mark {
    QString name;  ///< "max"
    double limit = 0;
    bool inForce = false;  ///< of the profile's own method: clipping and half step belong to it
  };

  explicit HistogramView(QWidget* parent = nullptr);
  /// `largest`: of what was counted, exactly.
  void setHistogram(const engine::MagnitudeHistogram& histogram, double largest,
                    QVector<Mark> marks);
  void clear(const QString& emptyText);

  const QVector<Mark>& marks() const { return m_marks; }
  /// "0.117 to 0.122: 1,204 values (0.31 %)" of the bar under x; empty: none.
  QString textAt(int x) const;
  double xOf(double magnitude) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 signals:
  void pointed(const QString& text);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  struct Bar {
    double from = 0, to = 0;  ///< magnitudes
    quint64 count = 0;
  };
  QRectF plotArea() const;
  void paintMarks(QPainter& painter) const;
  int barAt(int x) const;

  std::vector<Bar> m_bars;  ///< ascending; the first holds all that is smaller
  quint64 m_total = 0;
  LogAxis m_axis;
  QVector<Mark> m_marks;
  QString m_emptyText;
  int m_hovered = -1;
};

}  // namespace vitrine::ui

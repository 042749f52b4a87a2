#pragma once

#include <QVector>
#include <QWidget>

namespace vitrine::ui {

/// Bars side by side with their names below, from zero. Some are marked (hatched, and with a sign
/// over them). The pointer or the arrow keys read one.
class BarChart final : public QWidget {
  Q_OBJECT
 public:
  struct Bar {
    QString name;  ///< "3", "down"
    double value = 0;
    bool marked = false;
    QString text;  ///< read out: "Layer 3: KL 0.0012 …"
    bool operator==(const Bar&) const = default;
  };

  explicit BarChart(int designHeight, QWidget* parent = nullptr);
  void setBars(QVector<Bar> bars);
  void setEmptyText(const QString& text);
  const QVector<Bar>& bars() const { return m_bars; }
  QRectF barRect(int index) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 signals:
  void pointed(const QString& text);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  QRectF plotArea() const;
  double top() const;
  void point(int index);

  int m_designHeight;
  QVector<Bar> m_bars;
  QString m_emptyText;
  int m_pointed = -1;
};

}  // namespace vitrine::ui

#pragma once

#include <QColor>
#include <QVector>
#include <QWidget>
#include <functional>

namespace vitrine::ui {

/// Steps that follow each other, each a bar that starts where the one before ended.
class Waterfall final : public QWidget {
  Q_OBJECT
 public:
  struct Step {
    QString name;
    double milliseconds = 0;
    QColor colour;
    QString meaning;
    bool operator==(const Step&) const = default;
  };

  explicit Waterfall(QWidget* parent = nullptr);
  void setSteps(QVector<Step> steps);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  double rowHeight() const;

  QVector<Step> m_steps;
};

/// The latency of each token of an answer, a bar each (several a bar where there are more than
/// pixels: their largest), with lines at the median and the 95th percentile.
class TokenStrip final : public QWidget {
  Q_OBJECT
 public:
  explicit TokenStrip(QWidget* parent = nullptr);
  /// Without the first token, whose latency is the TTFT.
  void setTokens(std::vector<float> milliseconds);
  double p50() const { return m_p50; }
  double p95() const { return m_p95; }

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  double top() const;

  std::vector<float> m_tokens;
  double m_p50 = 0, m_p95 = 0, m_largest = 0;
};

}  // namespace vitrine::ui

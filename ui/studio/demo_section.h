#pragma once

#include <QVector>
#include <QWidget>

#include "ui/studio/outlier_demo.h"

class QSlider;

namespace vitrine::ui {

class PlainLabel;

/// All values of the example, one after the other, the outliers marked.
class DemoStrip final : public QWidget {
  Q_OBJECT
 public:
  explicit DemoStrip(QWidget* parent = nullptr);
  void setDemo(const OutlierDemo& demo);
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  OutlierDemo m_demo;
};

/// Where small values go: some of them above, the INT8 levels that they can take below, a line from
/// each to what it becomes.
class DemoRounding final : public QWidget {
  Q_OBJECT
 public:
  explicit DemoRounding(QWidget* parent = nullptr);
  void setWay(const OutlierDemo& demo, const DemoWay& way);
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  std::vector<std::pair<float, float>> m_samples;  ///< a small value and what it becomes
  double m_step = 0;
};

/// The built-in demonstration: a handful of large values among many in [−1, 1], quantized in four
/// ways by the program's own quantizer. Needs no model.
class DemoSection final : public QWidget {
  Q_OBJECT
 public:
  explicit DemoSection(QWidget* parent = nullptr);

  const OutlierDemo& demo() const { return m_demo; }
  QSlider* slider() const { return m_size; }
  /// The figures beside a way: step, error, levels. For tests and screen readers.
  QStringList figures(int way) const;

 private:
  struct Line {
    PlainLabel *name, *what, *step, *error, *levels;
    DemoRounding* rounding;
  };
  void showSize(int size);

  OutlierDemo m_demo;
  QSlider* m_size;
  PlainLabel *m_sizeText, *m_verdict;
  DemoStrip* m_strip;
  QVector<Line> m_lines;
};

}  // namespace vitrine::ui

#pragma once

#include <QColor>
#include <QVector>
#include <QWidget>

namespace vitrine::ui {

/// Steps that follow each other on an axis of time, each a bar that starts where the one before
/// ended, with its figure at the right.
class Waterfall final : public QWidget {
  Q_OBJECT
 public:
  struct Step {
    QString name;
    double milliseconds = 0;
    QColor colour;
    QString meaning;
    bool shared = false;  ///< the time was shared with other chats: hatched
    bool operator==(const Step&) const = default;
  };

  explicit Waterfall(QWidget* parent = nullptr);
  void setSteps(QVector<Step> steps);
  const QVector<Step>& steps() const { return m_steps; }

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  double rowHeight() const;
  void paintAxis(QPainter& painter, const QRectF& area, double total) const;

  QVector<Step> m_steps;
};

}  // namespace vitrine::ui

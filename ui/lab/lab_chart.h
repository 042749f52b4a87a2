#pragma once

#include <QWidget>

#include "app/lab/lab_types.h"

namespace vitrine::ui {

/// A chart of the lab with its title, painted; without curves it says what will be there.
class LabChart final : public QWidget {
  Q_OBJECT
 public:
  LabChart(const QString& emptyText, int designHeight, QWidget* parent = nullptr);

  void setChart(app::lab::Chart chart);
  const app::lab::Chart& chart() const { return m_chart; }
  bool isEmpty() const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {200, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  app::lab::Chart m_chart;
  QString m_emptyText;
  int m_designHeight;
};

}  // namespace vitrine::ui

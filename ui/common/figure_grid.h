#pragma once

#include <QVector>
#include <QWidget>

class QGridLayout;

namespace vitrine::ui {

class PlainLabel;

/// Names at the left, figures at the right, a row each. Rows are reused, so that live figures do
/// not flicker.
class FigureGrid final : public QWidget {
  Q_OBJECT
 public:
  struct Row {
    QString name;
    QString figure;
    QString toolTip = {};
  };

  explicit FigureGrid(QWidget* parent = nullptr);
  void setRows(const QVector<Row>& rows);
  /// The figure beside a name; empty where there is none. For tests and screen readers.
  QString figure(const QString& name) const;

 private:
  QGridLayout* m_grid;
  QVector<PlainLabel*> m_names, m_figures;
};

}  // namespace vitrine::ui

#pragma once

#include <QString>
#include <QVector>
#include <QWidget>

namespace vitrine::ui {

/// A product of named factors with its live numbers: each number stands below its name. Hover
/// explains a factor.
class FormulaView final : public QWidget {
  Q_OBJECT
 public:
  struct Factor {
    QString symbol;
    QString value;
    QString meaning;
    bool constant = false;  ///< a plain number in the formula itself
    bool operator==(const Factor&) const = default;
  };

  explicit FormulaView(QWidget* parent = nullptr);
  void setFormula(QVector<Factor> factors, const QString& result);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QVector<QRectF> columns() const;
  double fittingPixels() const;

  QVector<Factor> m_factors;
  QString m_result;
};

}  // namespace vitrine::ui

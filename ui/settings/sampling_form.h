#pragma once

#include <QJsonObject>
#include <QVector>
#include <QWidget>

#include "engine/sample/sampler.h"

class QCheckBox;
class QDoubleSpinBox;
class QLineEdit;
class QSpinBox;

namespace vitrine::ui {

/// The sampling settings, a row each: a box that says "my own value", and the value. Rows without
/// the box show what is in force anyway. Values without meaning cannot be entered.
class SamplingForm final : public QWidget {
  Q_OBJECT
 public:
  explicit SamplingForm(QWidget* parent = nullptr);

  /// `inForce`: without any value of this form. `own`: llama.cpp's names, only what is set.
  void setValues(const engine::SamplingParams& inForce, const QJsonObject& own);
  QJsonObject ownValues() const;

 signals:
  void edited(const QJsonObject& own);

 private:
  struct Row {
    QString key;
    QCheckBox* own = nullptr;
    QDoubleSpinBox* number = nullptr;  ///< one of the two
    QSpinBox* whole = nullptr;
    double inForce = 0;
  };
  void changed();

  QVector<Row> m_rows;
  QLineEdit* m_seed;
  bool m_filling = false;
};

}  // namespace vitrine::ui

#pragma once

#include <QVector>
#include <QWidget>

namespace vitrine::ui {

/// One line of figures and words in the colours of their meaning; what does not fit is left out
/// from the end.
class ForecastLine final : public QWidget {
  Q_OBJECT
 public:
  enum Meaning { kPlain, kReused, kPrefilled, kFault };
  struct Part {
    QString text;
    Meaning meaning = kPlain;
    bool operator==(const Part&) const = default;
  };

  explicit ForecastLine(QWidget* parent = nullptr);
  void setParts(const QVector<Part>& parts);
  QString text() const;
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QVector<Part> m_parts;
};

}  // namespace vitrine::ui

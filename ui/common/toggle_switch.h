#pragma once

#include <QAbstractButton>

namespace vitrine::ui {

/// A switch with a knob: on at the right, filled; off at the left, hollow.
class ToggleSwitch final : public QAbstractButton {
  Q_OBJECT
 public:
  explicit ToggleSwitch(const QString& text, QWidget* parent = nullptr);

  /// Draws the raised chip of the top bar around it.
  void setChip(bool chip);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool hitButton(const QPoint& position) const override { return rect().contains(position); }

 private:
  bool m_chip = false;
};

}  // namespace vitrine::ui

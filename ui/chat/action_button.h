#pragma once

#include <QPushButton>

namespace vitrine::ui {

/// One of the small actions of a message. They take their room always and show while the pointer
/// or the keyboard is in the message (`setRevealed`), so that nothing jumps.
class ActionButton final : public QPushButton {
  Q_OBJECT
 public:
  explicit ActionButton(const QString& text, QWidget* parent = nullptr);
  void setRevealed(bool revealed);
  /// Shows at all times.
  void setAlwaysShown(bool always = true);
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  bool m_revealed = false;
  bool m_always = false;
};

}  // namespace vitrine::ui

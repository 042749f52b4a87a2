#pragma once

#include <QFrame>
#include <functional>

class QPushButton;
class QTimer;

namespace vitrine::ui {

class PlainLabel;

/// A short message over the lower edge of a window, with at most one action ("Undo"). The latest
/// replaces the one before. Goes by itself, but not while the pointer or the focus is on it.
class Toast final : public QFrame {
  Q_OBJECT
 public:
  /// The toast of a window; made on first use.
  static Toast* of(QWidget* anyWidgetOfTheWindow);

  void showMessage(const QString& text, int milliseconds = 5000);
  /// `action` runs once if the person asks for it in time; `expired` if not (both may be empty).
  void showMessage(const QString& text, const QString& actionText, std::function<void()> action,
                   int milliseconds = 7000, std::function<void()> expired = {});
  /// Takes it away at once, as if its time were over.
  void dismiss();
  QString text() const;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  explicit Toast(QWidget* window);
  void place();
  void runAction();
  void restartUnlessHeld();

  PlainLabel* m_label;
  QPushButton* m_action;
  QTimer* m_timer;
  std::function<void()> m_onAction, m_onExpired;
};

}  // namespace vitrine::ui

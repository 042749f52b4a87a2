#pragma once

#include <QFrame>

class QProgressBar;
class QPushButton;

namespace vitrine::ui {

class PlainLabel;

/// Long work of a page: what it does now, a bar, and Stop. Hidden until begin().
class ProgressCard final : public QFrame {
  Q_OBJECT
 public:
  /// The name tells a screen reader whose progress it is; `stopName` is the button's object name.
  ProgressCard(const QString& name, const QString& stopName, QWidget* parent);

  /// "Starting…". Takes the focus: the button that was pressed is about to be disabled, and the
  /// focus must not wander down the page and scroll it.
  void begin();
  /// No more is shown of a stage once Stop was pressed.
  void setStage(const QString& text);
  void setFraction(double fraction);
  /// Hides it; whether it had the focus, which then needs another place.
  bool end();

 signals:
  void stopWanted();

 private:
  PlainLabel* m_text;
  QPushButton* m_stop;
  QProgressBar* m_bar;
};

}  // namespace vitrine::ui

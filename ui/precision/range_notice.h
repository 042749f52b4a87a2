#pragma once

#include <QFrame>

class QProgressBar;
class QPushButton;

namespace vitrine::ui {

class PlainLabel;

/// A warning that stays over the upper edge of its place until the person answers it: what was
/// seen, why it matters, and the ways out as buttons; progress while one of them takes time.
class RangeNotice final : public QFrame {
  Q_OBJECT
 public:
  explicit RangeNotice(QWidget* place);

  void showFinding(const QString& title, const QString& words);
  /// A calibration can be made of the open chat.
  void setCanCalibrate(bool can, const QString& whyNot);
  /// `fraction` below 0: nothing runs.
  void showProgress(const QString& stage, double fraction);
  void showFault(const QString& words);
  QString title() const;
  QString words() const;

 signals:
  void dynamicWanted();
  void calibrationWanted();
  void stopWanted();
  void acknowledged();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void paintEvent(QPaintEvent* event) override;

 private:
  void arrange();

  PlainLabel *m_title, *m_words, *m_progressText;
  QPushButton *m_dynamic, *m_calibrate, *m_dismiss, *m_stop;
  QWidget* m_progressBox;
  QProgressBar* m_progress;
};

}  // namespace vitrine::ui

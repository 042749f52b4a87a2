#pragma once

#include <QFrame>

#include "app/lab/load_generator.h"

class QDoubleSpinBox;
class QProgressBar;
class QPushButton;
class QSpinBox;

namespace vitrine::ui {

class LabChart;
class PlainLabel;
class SegmentedSwitch;

/// The load generator's form: lengths, arrivals or chats at once, batching, seed; and the chart of
/// what came of it, the run before dashed behind it while it had the other batching.
class LoadForm final : public QFrame {
  Q_OBJECT
 public:
  explicit LoadForm(QWidget* parent = nullptr);

  app::lab::LoadSpec spec() const;
  /// 1, 2, 4, … up to the most chats asked for.
  std::vector<int> levels() const;
  void setRunning(bool running, bool canStart);
  void setProgress(double fraction);
  void showCurve(const app::lab::LoadCurve& curve);
  void showFault(const QString& message);
  LabChart* throughputChart() const { return m_throughput; }
  PlainLabel* summary() const { return m_summary; }

 signals:
  void startWanted();
  void stopWanted();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  QSpinBox* addNumber(const QString& name, int least, int most, int value);
  QWidget* m_fields;
  QSpinBox *m_promptLeast, *m_promptMost, *m_answerLeast, *m_answerMost;
  QSpinBox *m_chats, *m_requests, *m_seed;
  QDoubleSpinBox* m_arrivals;
  SegmentedSwitch* m_batching;
  QPushButton* m_start;
  QProgressBar* m_progress;
  PlainLabel* m_summary;
  LabChart *m_throughput, *m_times;
  std::vector<app::lab::LoadCurve> m_curves;  ///< at most one for each batching
  bool m_running = false;
};

}  // namespace vitrine::ui

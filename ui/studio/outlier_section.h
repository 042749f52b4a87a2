#pragma once

#include <QTimer>
#include <QWidget>

class QComboBox;
class QPushButton;
class QSlider;

namespace vitrine::ui {

class ColumnChart;
class PlainLabel;
class SmoothingWorker;
class StudioState;
struct SmoothingPreview;

/// The chosen site's outlier columns by a threshold (mixed decomposition), and what smoothing of a
/// strength does to both sides of its products; each can be put in force.
class OutlierSection final : public QWidget {
  Q_OBJECT
 public:
  explicit OutlierSection(StudioState& state, QWidget* parent = nullptr);

  float threshold() const;
  float alpha() const;
  QSlider* thresholdSlider() const { return m_threshold; }
  QSlider* alphaSlider() const { return m_alpha; }
  ColumnChart* columns() const { return m_columns; }
  ColumnChart* inputs() const { return m_inputs; }
  QString mixedText() const;
  QString smoothText() const;

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* makeMixed();
  QWidget* makeSmooth();
  void takeProfile();
  void showColumns();
  void askPreview();
  void showPreview(const SmoothingPreview& preview);
  void updateButtons();
  void useMixed();
  void useSmooth();

  StudioState& m_state;
  SmoothingWorker* m_worker;
  QTimer m_askSoon;  ///< single shot: the slider came to rest
  QComboBox* m_sites;
  QSlider *m_threshold, *m_alpha;
  PlainLabel *m_thresholdText, *m_alphaText, *m_mixedText, *m_smoothText, *m_pointed;
  ColumnChart *m_columns, *m_inputs, *m_weights;
  QPushButton *m_useMixed, *m_useSmooth;
};

}  // namespace vitrine::ui

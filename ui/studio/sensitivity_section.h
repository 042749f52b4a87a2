#pragma once

#include <QWidget>

#include "app/studio/studio_session.h"
#include "engine/measure/keep_choice.h"

class QPushButton;
class QSpinBox;

namespace vitrine::ui {

class BarChart;
class PlainLabel;
class SegmentedSwitch;
class StudioState;
class TextPicker;

/// What INT8 costs in each layer and each kind of matrix alone, and keeping the worst in FP16,
/// whole layers or single matrices: what it brings back is measured, what it takes is shown.
class SensitivitySection final : public QWidget {
  Q_OBJECT
 public:
  explicit SensitivitySection(StudioState& state, QWidget* parent = nullptr);

  void start();
  void takeReport(const engine::SensitivityReport& report);
  void takeGain(const std::vector<app::studio::LossRow>& rows);
  const engine::SensitivityReport* report() const { return m_hasReport ? &m_report : nullptr; }
  BarChart* layers() const { return m_layers; }
  BarChart* parts() const { return m_parts; }
  TextPicker* text() const { return m_text; }
  /// What would be kept, and what that brings and takes.
  QString keepText() const;
  QString gainText() const;

 signals:
  void faultHappened(const QString& message);

 private:
  void clear();
  void showBars();
  void updateKeep();
  void updateButtons();
  void keep();
  bool keepsMatrices() const;
  engine::KeepChoice kept() const;
  /// What is done to the matrices: the wanted precision in INT8, else W8A8.
  engine::WeightPrecision measuredPrecision() const;

  StudioState& m_state;
  TextPicker* m_text;
  QSpinBox *m_tokens, *m_count;
  SegmentedSwitch *m_mode, *m_order, *m_keepBy;
  BarChart *m_layers, *m_parts;
  PlainLabel *m_summary, *m_pointed, *m_keepText, *m_gainText;
  QPushButton *m_start, *m_keep;
  engine::SensitivityReport m_report;
  engine::EngineConfig m_measured;     ///< with which the report was made
  app::studio::StudioText m_readText;  ///< on which
  bool m_hasReport = false;
};

}  // namespace vitrine::ui

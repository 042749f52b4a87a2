#pragma once

#include <QWidget>
#include <map>
#include <string>

#include "engine/measure/evaluate.h"
#include "ui/inspector/inspector_state.h"

class QProgressBar;
class QPushButton;

namespace vitrine::app {
class ModeComparison;
}

namespace vitrine::ui {

class FigureGrid;
class PlainLabel;
class SegmentedSwitch;

/// What the precision in force costs: its distance from FP16 over the open chat or a page of
/// English, measured when asked for, beside the chat. Results stay for each precision and text.
class PrecisionLoss final : public QWidget {
  Q_OBJECT
 public:
  explicit PrecisionLoss(QWidget* parent = nullptr);
  ~PrecisionLoss() override;

  void showState(const InspectorState& state);
  /// FP16 weights, activations and cache, otherwise alike.
  static engine::EngineConfig referenceOf(engine::EngineConfig config);
  /// Memory that measuring takes beside the loaded engine, by the model's shapes.
  static std::uint64_t memoryFor(const engine::Weights& weights,
                                 const engine::EngineConfig& config);

 signals:
  /// Something is to be shown that no state brings.
  void stateWanted();

 private:
  std::string key() const;
  bool usesChat() const;
  void measure();
  void showLoss();

  InspectorState m_state;
  app::ModeComparison* m_comparison;
  std::map<std::string, engine::EvaluationReport> m_losses;
  std::string m_measuring;
  QString m_fault;
  SegmentedSwitch* m_text;
  FigureGrid* m_figures;
  QPushButton* m_measure;
  QProgressBar* m_progress;
  PlainLabel* m_note;
};

}  // namespace vitrine::ui

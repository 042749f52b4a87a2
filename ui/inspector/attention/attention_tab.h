#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/measure/evaluate.h"
#include "ui/common/attention_choices.h"
#include "ui/inspector/inspector_tab.h"

class QProgressBar;
class QPushButton;

namespace vitrine::app {
class ModeComparison;
}

namespace vitrine::ui {

class ChoiceTable;
class FigureGrid;
class HeadDrawing;
class PlainLabel;
class SegmentedSwitch;

/// Query heads and the KV heads that they read: drawn, switched on the loaded model, and what each
/// number of KV heads takes of the cache beside what was measured. Averaged heads change the
/// answers; by how much is measured here over a page of English or the chat on screen.
class AttentionTab final : public InspectorTab {
  Q_OBJECT
 public:
  explicit AttentionTab(QWidget* parent = nullptr);
  ~AttentionTab() override;  ///< stops a measurement
  void showState(const InspectorState& state) override;

 private:
  void showSwitch();
  void showCosts();
  void showMeasured();
  void showLoss();
  void measureNext();
  void stopMeasuring();
  /// Names a result: model, precision, KV type, heads, text.
  std::string lossKey(int kvHeads) const;

  InspectorState m_state;
  QVector<AttentionChoice> m_choices;
  std::string m_choicesOf;  ///< fingerprint of the model that they are of
  /// Bytes a token as the backend counted them while that choice ran; key: heads, KV type.
  std::map<std::pair<int, int>, std::uint64_t> m_measured;
  std::map<std::string, engine::EvaluationReport> m_losses;
  std::vector<int> m_toMeasure;  ///< numbers of KV heads that wait
  int m_measuring = 0;
  std::string m_measuringKey;
  QString m_lossFault;

  app::ModeComparison* m_comparison;
  PlainLabel* m_aside;
  PlainLabel* m_empty;
  SegmentedSwitch* m_switch;
  HeadDrawing* m_drawing;
  PlainLabel* m_explanation;
  PlainLabel* m_budget;
  QWidget* m_costBox;
  ChoiceTable* m_costs;
  PlainLabel* m_costNote;
  FigureGrid* m_figures;
  QWidget* m_lossBox;
  SegmentedSwitch* m_text;
  FigureGrid* m_lossFigures;
  QProgressBar* m_progress;
  QPushButton* m_measure;
  PlainLabel* m_lossNote;
};

}  // namespace vitrine::ui

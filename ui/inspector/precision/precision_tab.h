#pragma once

#include <map>
#include <string>

#include "ui/inspector/inspector_tab.h"

class QProgressBar;
class QPushButton;

namespace vitrine::ui {

class FigureGrid;
class PlainLabel;
class SegmentedSwitch;
class ToggleSwitch;

class PrecisionLoss;
class PrecisionForm;
class RangeTable;

/// How the loaded model is run: what is active, what it saves and costs, every mode as a switch,
/// what becomes of the KV cache on a switch, and under static scales how live activations use the
/// calibrated range. A switch takes effect on the loaded model; while it is converted, its progress
/// is shown and it can be stopped.
class PrecisionTab final : public InspectorTab {
  Q_OBJECT
 public:
  explicit PrecisionTab(QWidget* parent = nullptr);
  void showState(const InspectorState& state) override;

 private:
  QVBoxLayout* addProgress(QVBoxLayout* section);
  void addRange(QVBoxLayout* section);
  void addSizes(QVBoxLayout* section);
  void addCache(QVBoxLayout* section);
  void showProgress(const InspectorState& state);
  void showInUse(const InspectorState& state);
  void showRange(const InspectorState& state);
  void showRangeAdvice(const engine::WeightPrecision& precision);
  void showWeightSizes(const InspectorState& state);
  void showKvSizes(const InspectorState& state);
  void showCache(const InspectorState& state);
  void openSizes(bool open);
  /// Bytes of the weights in a precision: as counted when it last ran so, else by the shapes.
  std::uint64_t weightBytes(const InspectorState& state, const engine::WeightPrecision& precision,
                            bool* counted = nullptr) const;
  /// Emits configWanted with one change to what is wanted now.
  template <typename Change>
  void want(Change change);

  engine::EngineConfig m_wanted;
  bool m_filling = false;  ///< switches are being set from the state
  /// Bytes counted by the backend, by model and precision.
  std::map<std::string, std::uint64_t> m_counted;

  QWidget* m_progressBox;
  PlainLabel* m_progressText;
  QProgressBar* m_progress;
  QPushButton* m_cancel;
  PlainLabel* m_empty;
  PlainLabel* m_inUse;
  FigureGrid* m_saved;
  PrecisionForm* m_form;
  PlainLabel* m_consequence;
  PrecisionLoss* m_loss;
  QWidget* m_rangeBox;
  PlainLabel *m_rangeText, *m_rangeAdvice;
  engine::CalibrationPtr m_advised;  ///< whose coarse sites m_coarse counts
  int m_coarse = 0;
  RangeTable* m_range;
  PlainLabel* m_rangePointed;
  QPushButton* m_sizesFold;
  QWidget* m_sizesBox;
  FigureGrid *m_weightSizes, *m_kvSizes;
  PlainLabel* m_weightNote;
  ToggleSwitch* m_cacheOn;
  ToggleSwitch* m_reuse;
  SegmentedSwitch* m_layout;
  PlainLabel* m_layoutNote;
};

}  // namespace vitrine::ui

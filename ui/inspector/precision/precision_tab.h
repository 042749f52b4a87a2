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

/// How the loaded model is run, and what each way costs in bytes: weights, activations, KV type,
/// cache, reuse, layout. A switch takes effect on the loaded model; while it is converted, its
/// progress is shown and it can be stopped.
class PrecisionTab final : public InspectorTab {
  Q_OBJECT
 public:
  explicit PrecisionTab(QWidget* parent = nullptr);
  void showState(const InspectorState& state) override;

 private:
  void showProgress(const InspectorState& state);
  void showWeights(const InspectorState& state);
  void showKv(const InspectorState& state);
  void showCache(const InspectorState& state);
  /// Emits configWanted with one change to what is wanted now.
  template <typename Change>
  void want(Change change);

  engine::EngineConfig m_wanted;
  bool m_filling = false;  ///< switches are being set from the state
  /// Bytes counted by the backend, by model and mode: "fingerprint/int8/32".
  std::map<std::string, std::uint64_t> m_measuredWeights;

  QWidget* m_progressBox;
  PlainLabel* m_progressText;
  QProgressBar* m_progress;
  QPushButton* m_cancel;
  PlainLabel* m_empty;
  PlainLabel* m_weightsAside;
  SegmentedSwitch* m_weights;
  FigureGrid* m_weightSizes;
  PlainLabel* m_weightNote;
  SegmentedSwitch* m_activations;
  PlainLabel* m_activationNote;
  PlainLabel* m_kvAside;
  SegmentedSwitch* m_kv;
  FigureGrid* m_kvSizes;
  ToggleSwitch* m_cacheOn;
  ToggleSwitch* m_reuse;
  SegmentedSwitch* m_layout;
  PlainLabel* m_layoutNote;
  PlainLabel* m_consequence;
};

}  // namespace vitrine::ui

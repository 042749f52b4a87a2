#pragma once

#include <QWidget>

#include "app/memory_plan.h"

class QSpinBox;

namespace vitrine::ui {

class FigureGrid;
class PlainLabel;
class SegmentedSwitch;

/// What a model would take before it is loaded: weights, KV type and KV heads to choose; the memory
/// to give and the context follow one another. Says when it will not fit.
class MemoryPlanner final : public QWidget {
  Q_OBJECT
 public:
  explicit MemoryPlanner(QWidget* parent = nullptr);

  /// `freeBytes`: memory at hand now; the memory to give starts there.
  void showModel(const app::ModelEntry& model, std::uint64_t freeBytes);

  const app::MemoryPlan& plan() const { return m_plan; }
  QString figure(const QString& name) const;
  /// Empty while it fits.
  QString warning() const;

 private:
  void replan();
  void memoryChanged();
  void contextChanged();
  void showPlan();
  std::uint64_t memoryBytes() const;

  app::ModelEntry m_model;
  std::uint64_t m_freeBytes = 0;
  app::MemoryChoice m_choice;
  app::MemoryPlan m_plan;
  std::vector<int> m_heads;
  SegmentedSwitch* m_weights;
  SegmentedSwitch* m_kv;
  SegmentedSwitch* m_headSwitch;
  QSpinBox* m_memory;   ///< MB
  QSpinBox* m_context;  ///< tokens
  FigureGrid* m_figures;
  PlainLabel* m_warning;
};

}  // namespace vitrine::ui

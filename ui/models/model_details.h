#pragma once

#include <QWidget>

#include "app/model_library.h"
#include "engine/backend/precision.h"

class QPushButton;

namespace vitrine::ui {

class FigureGrid;
class MemoryPlanner;
class PlainLabel;

/// Tokens of context whose KV cache fits into `freeBytes`, at most the model's.
int contextThatFits(const app::ModelEntry& entry, engine::KvType type, std::uint64_t freeBytes);

/// What a model file holds and needs: shapes, KV bytes a token, what context fits into the memory
/// that is free now; or why it cannot be used.
class ModelDetails final : public QWidget {
  Q_OBJECT
 public:
  explicit ModelDetails(QWidget* parent = nullptr);
  /// `loaded`: it is the one in use. Null: nothing is chosen.
  void showEntry(const app::ModelEntry* entry, bool loaded);
  QString figure(const QString& name) const;

 signals:
  void loadWanted();

 private:
  PlainLabel* m_name;
  PlainLabel* m_path;
  PlainLabel* m_problem;
  FigureGrid* m_figures;
  PlainLabel* m_note;
  MemoryPlanner* m_planner;
  QPushButton* m_load;
};

}  // namespace vitrine::ui

#pragma once

#include <QFrame>
#include <QVector>

#include "app/compare/compare_types.h"

class QDoubleSpinBox;
class QLabel;
class QSpinBox;
class QTextEdit;

namespace vitrine::ui {

class FigureGrid;
class PlainLabel;
class SegmentedSwitch;

/// One side of a comparison: how it is run, above; its answer and figures, below.
class CompareColumn final : public QFrame {
  Q_OBJECT
 public:
  /// `letter`: "A" or "B".
  explicit CompareColumn(const QString& letter, QWidget* parent = nullptr);

  /// The loaded model and its sampling: what a side starts with. Null: none is loaded.
  void setModel(const engine::ModelInfo* model, const engine::SamplingParams& usual);
  app::CompareSide side() const;
  void setSide(const app::CompareSide& side);
  void setEditable(bool editable);

  void showAnswer(const app::CompareAnswer& answer, const app::FirstDifference& difference,
                  int index);
  QString answerText() const;
  /// The figure beside a name; for tests.
  FigureGrid* figures() const { return m_figures; }

 signals:
  void edited();

 private:
  QWidget* makeSampling();
  void showSide();

  QString m_letter;
  bool m_hasModel = false;
  engine::EngineConfig m_config;
  engine::SamplingParams m_sampling;
  QVector<int> m_headChoices;
  bool m_filling = false;
  PlainLabel* m_state;
  SegmentedSwitch *m_weights, *m_activations, *m_kv, *m_heads;
  QDoubleSpinBox *m_temperature, *m_topP, *m_minP, *m_penalty;
  QSpinBox* m_topK;
  QTextEdit* m_text;
  PlainLabel* m_fault;
  FigureGrid* m_figures;
};

}  // namespace vitrine::ui

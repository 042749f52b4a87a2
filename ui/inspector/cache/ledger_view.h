#pragma once

#include <QWidget>

#include "engine/measure/memory_ledger.h"

namespace vitrine::ui {

class FigureGrid;
class Legend;
class PlainLabel;
class StackedBar;

/// Where the process's memory is: the ledger as a bar with its legend, and the sum beside what the
/// system reports.
class LedgerView final : public QWidget {
  Q_OBJECT
 public:
  explicit LedgerView(QWidget* parent = nullptr);
  void showLedger(const engine::MemoryLedger& ledger);

 private:
  StackedBar* m_bar;
  Legend* m_legend;
  FigureGrid* m_sums;
  PlainLabel* m_note;
};

}  // namespace vitrine::ui

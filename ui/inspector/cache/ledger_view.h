#pragma once

#include <QWidget>

#include "engine/measure/memory_ledger.h"

namespace vitrine::ui {

class FigureGrid;
class Legend;
class PlainLabel;
class StackedBar;

/// Where the process's memory is: the ledger as a bar with its legend, and the sum beside what the
/// system reports. With a GPU the same of its memory, below.
class LedgerView final : public QWidget {
  Q_OBJECT
 public:
  explicit LedgerView(QWidget* parent = nullptr);
  void showLedger(const engine::MemoryLedger& ledger);

 private:
  /// A bar, its legend, and sums.
  struct Account {
    StackedBar* bar;
    Legend* legend;
    FigureGrid* sums;
  };
  Account makeAccount(const QString& name);
  void showHost(const engine::MemoryLedger& ledger);
  void showDevice(const engine::DeviceMemory& device);

  Account m_host;
  PlainLabel* m_note;
  QWidget* m_deviceBox;  // hidden without a GPU
  Account m_device;
};

}  // namespace vitrine::ui

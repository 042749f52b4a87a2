#pragma once

#include <QWidget>
#include <array>

#include "ui/inspector/cache/branch_shares.h"
#include "ui/inspector/inspector_state.h"

class QGridLayout;

namespace vitrine::ui {

class PlainLabel;
class SegmentedSwitch;
class StackedBar;

/// Paged against contiguous, side by side: what each would reserve, use and waste for the chats in
/// the pool or for all chats of the person, and how many fit.
class LayoutView final : public QWidget {
  Q_OBJECT
 public:
  explicit LayoutView(QWidget* parent = nullptr);
  void showState(const InspectorState& state);

  /// "reserved", "used", "wasted", "fit" of a layout, as shown. For tests and screen readers.
  QString figure(const QString& row, engine::KvLayout layout) const;

 private:
  struct Column {
    PlainLabel* heading;
    StackedBar* bar;
    std::array<PlainLabel*, 4> figures;
  };
  void fill(Column& column, const LayoutCost& cost, const QString& heading, double whole,
            double bytesPerToken);

  InspectorState m_state;
  SegmentedSwitch* m_source;
  PlainLabel* m_intro;
  Column m_paged, m_contiguous;
  PlainLabel* m_measured;
};

}  // namespace vitrine::ui

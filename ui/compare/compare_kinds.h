#pragma once

class QWidget;

namespace vitrine::ui {

class SegmentedSwitch;

/// The switch at the head of both pages that compare: new answers (0) or Precision A/B (1).
SegmentedSwitch* makeCompareKinds(int current, const char* objectName, QWidget* parent);

}  // namespace vitrine::ui

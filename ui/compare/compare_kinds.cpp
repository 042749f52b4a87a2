#include "ui/compare/compare_kinds.h"

#include <QCoreApplication>

#include "ui/common/segmented_switch.h"

namespace vitrine::ui {

SegmentedSwitch* makeCompareKinds(int current, const char* objectName, QWidget* parent) {
  const auto tr = [](const char* text) {
    return QCoreApplication::translate("vitrine::ui::ComparePage", text);
  };
  auto* kinds = new SegmentedSwitch(
      {},
      {{tr("New answers"), tr("Two configurations or samplings answer the same question")},
       {tr("Precision A/B"), tr("A conversation as it is, read by two configurations")}},
      parent);
  kinds->setObjectName(objectName);
  kinds->setAccessibleName(tr("What is compared"));
  kinds->setCurrent(current);
  return kinds;
}

}  // namespace vitrine::ui

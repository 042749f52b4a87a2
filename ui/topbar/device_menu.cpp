#include "ui/topbar/device_menu.h"

#include <QCoreApplication>

#include "app/text.h"
#include "engine/backend/gpu.h"
#include "engine/measure/machine.h"
#include "ui/common/format.h"

namespace vitrine::ui {
namespace {

QString words(const char* text) {
  return QCoreApplication::translate("DeviceMenu", text);
}

}  // namespace

void fillDeviceMenu(QMenu& menu, const engine::EngineConfig& wanted,
                    const engine::BackendInfo* running,
                    const std::function<void(engine::BackendKind, int device)>& choose) {
  using engine::BackendKind;
  menu.clear();
  const auto add = [&](const QString& text, const QString& toolTip, BackendKind kind, int device) {
    QAction* action = menu.addAction(text);
    action->setToolTip(toolTip);
    action->setCheckable(true);
    action->setChecked(wanted.backend == kind &&
                       (kind == BackendKind::kCpu || wanted.device == device));
    QObject::connect(action, &QAction::triggered, &menu,
                     [choose, kind, device] { choose(kind, device); });
  };
  const QString now = running && wanted.backend == BackendKind::kAuto
                          ? QStringLiteral("   ") + app::toQString(running->device)
                          : QString();
  add(words("Automatic") + now, words("A GPU where one can be used, else the processor"),
      BackendKind::kAuto, wanted.device);
  add(words("CPU") + QStringLiteral("   ") + app::toQString(engine::processorName()), QString(),
      BackendKind::kCpu, 0);
  const engine::GpuProbe* gpus = engine::knownGpus();
  if (gpus == nullptr) {
    menu.addAction(words("Looking for GPUs…"))->setEnabled(false);
    return;
  }
  for (const engine::GpuDevice& gpu : gpus->devices) {
    add(words("GPU %1").arg(gpu.index) +
            QStringLiteral("   %1 · %2").arg(app::toQString(gpu.name), bytesText(gpu.totalBytes)),
        app::toQString(gpu.architecture), BackendKind::kCuda, gpu.index);
  }
  if (gpus->devices.empty()) {
    menu.addAction(words("No GPU: %1").arg(app::toQString(gpus->problem)))->setEnabled(false);
  }
}

}  // namespace vitrine::ui

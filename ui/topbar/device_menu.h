#pragma once

#include <QMenu>
#include <functional>

#include "engine/engine_types.h"

namespace vitrine::ui {

/// Fills the menu with what a model can be run on: the best there is, the processor, each GPU.
/// `running`: of the loaded model, or null; it marks the choice in force. Where no GPU can be used
/// the menu says why. `choose` gets the backend and the GPU's number.
void fillDeviceMenu(QMenu& menu, const engine::EngineConfig& wanted,
                    const engine::BackendInfo* running,
                    const std::function<void(engine::BackendKind, int device)>& choose);

}  // namespace vitrine::ui

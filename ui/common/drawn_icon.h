#pragma once

#include <QIcon>
#include <functional>

class QPainter;

namespace vitrine::ui {

/// An icon of 16 by 16 pixels of the design, at twice the resolution. `draw` gets a painter with
/// smooth edges and the icon's side in pixels of the present zoom.
QIcon drawnIcon(const std::function<void(QPainter& painter, int side)>& draw);

}  // namespace vitrine::ui

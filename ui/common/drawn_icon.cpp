#include "ui/common/drawn_icon.h"

#include <QPainter>
#include <QPixmap>

#include "ui/theme/theme.h"

namespace vitrine::ui {

QIcon drawnIcon(const std::function<void(QPainter& painter, int side)>& draw) {
  const int side = Theme::instance().px(16);
  QPixmap pixmap(side * 2, side * 2);
  pixmap.setDevicePixelRatio(2);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  draw(painter, side);
  painter.end();
  return QIcon(pixmap);
}

}  // namespace vitrine::ui

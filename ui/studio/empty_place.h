#pragma once

class QPainter;
class QRect;
class QString;

namespace vitrine::ui {

/// Paints a place where a chart will be: a dashed frame, and in it what will be there.
void paintEmptyPlace(QPainter& painter, const QRect& place, const QString& text);

}  // namespace vitrine::ui

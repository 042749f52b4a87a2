#pragma once

#include <QString>

class QWidget;

namespace vitrine::ui {

/// Shows a long text to read and copy without freezing on it: lines of any length are cut for
/// display. Copying all of it gives the exact text.
void showTextDialog(QWidget* parent, const QString& title, const QString& text);

}  // namespace vitrine::ui

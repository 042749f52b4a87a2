#pragma once

#include <QString>

namespace vitrine::ui {

class Theme;

/// The application's style sheet for the theme's present colours and zoom.
QString buildStyleSheet(const Theme& theme);

}  // namespace vitrine::ui

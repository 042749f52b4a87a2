#pragma once

#include <QString>
#include <vector>

namespace vitrine::app::studio {

/// A text that comes with the program, to calibrate and measure on (resources/calibration).
struct BundledText {
  QString id;     ///< "english", "chinese", "code", "chat"
  QString title;  ///< for people
};
const std::vector<BundledText>& bundledTexts();
/// UTF-8; empty for an id that is not there.
std::string bundledText(const QString& id);

}  // namespace vitrine::app::studio

#pragma once

#include "ui/theme/theme.h"

namespace vitrine::ui {

/// Lengths that the writer of a document and the view that paints around it share, in pixels at
/// the present zoom.
struct MarkdownMetrics {
  static double quoteIndent() { return Theme::instance().px(16); }
  static double listIndent() { return Theme::instance().px(24); }
  static double codePadding() { return Theme::instance().px(12); }
  static double codeHeader() { return Theme::instance().px(27); }
  static double codeGap() { return Theme::instance().px(8); }  ///< above and below the frame
};

}  // namespace vitrine::ui

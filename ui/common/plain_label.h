#pragma once

#include <QLabel>

namespace vitrine::ui {

/// Which of the design's inks and types a label uses.
enum class LabelStyle {
  kBody,     ///< text
  kMuted,    ///< explanations
  kHeading,  ///< small, half bold, muted: the title of a section
  kTitle,    ///< large: the title of a page
  kFigure,   ///< monospaced, tabular digits
  kFigureMuted,
  kBig,    ///< the one large figure of a panel
  kFault,  ///< what went wrong
};

/// A label that shows every character as it is written (no markup), in a style of the design.
/// Follows the theme and its zoom.
class PlainLabel final : public QLabel {
  Q_OBJECT
 public:
  explicit PlainLabel(LabelStyle style = LabelStyle::kBody, QWidget* parent = nullptr);
  PlainLabel(const QString& text, LabelStyle style, QWidget* parent = nullptr);

  void setStyle(LabelStyle style);
  /// Cuts the text instead of asking for its whole width.
  void setElided(Qt::TextElideMode mode);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void applyStyle();

  LabelStyle m_style;
  Qt::TextElideMode m_elide = Qt::ElideNone;
};

}  // namespace vitrine::ui

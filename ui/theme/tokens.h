#pragma once

#include <QColor>
#include <array>

namespace vitrine::ui {

/// The colours of one appearance. Three of them have one meaning everywhere in the program:
/// `reused` (found in the KV cache), `prefilled` (had to be computed), `generated` (new text).
/// Each of the colours below is meant for marks and fills; for text of that colour take
/// `Theme::ink(colour)`, which keeps the contrast at 4.5:1 or more.
struct Tokens {
  bool dark = true;
  QColor background;  ///< behind the chat
  QColor panel;       ///< top bar, side bar, inspector
  QColor raised;      ///< chips, selected rows
  QColor line;        ///< separators of one pixel
  QColor text;
  QColor muted;  ///< secondary text
  QColor faint;  ///< marks, rulers, disabled text; too pale for text that must be read
  QColor reused;
  QColor prefilled;
  QColor generated;
  QColor information;
  QColor fault;
  // Derived from the above.
  QColor accent;      ///< same as reused: what is on, chosen or focused
  QColor accentFill;  ///< a filled button; `onAccent` is readable on it
  QColor onAccent;
  QColor bubble;                        ///< behind what the person wrote
  QColor code;                          ///< behind code
  QColor hover;                         ///< a row or chip under the pointer
  std::array<QColor, 8> conversations;  ///< own colours of conversations
};

const Tokens& darkTokens();
const Tokens& lightTokens();

/// Contrast of two opaque colours by WCAG 2.1 (1 to 21).
double contrast(const QColor& a, const QColor& b);
/// `top` laid over `bottom` with this share (0 to 1).
QColor mix(const QColor& bottom, const QColor& top, double share);
/// `colour`, moved away from `background` until text in it is readable there (4.5:1).
QColor readableOn(const QColor& colour, const QColor& background);

}  // namespace vitrine::ui

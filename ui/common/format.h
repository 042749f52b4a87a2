#pragma once

#include <QString>

// How figures are written everywhere in the window: short, with a unit, and with as many digits as
// a person can use. Sizes are binary (1 MB = 1,048,576 bytes), as in the command line program.

namespace vitrine::ui {

/// "0 B", "812 B", "14.2 KB", "41.4 MB", "512 MB", "1.21 GB".
QString bytesText(quint64 bytes);
/// The number and the unit of bytesText() apart, for figures in two sizes of type.
struct BytesParts {
  QString number, unit;
};
BytesParts bytesParts(quint64 bytes);
/// "43,417,600 bytes"
QString exactBytesText(quint64 bytes);

/// "1,842": grouped by the person's locale.
QString countText(qint64 count);
/// "1 block", "9 blocks": `one` and `many` hold %1.
QString pluralText(qint64 count, const QString& one, const QString& many);
/// "0.42 ms", "9.1 ms", "96 ms", "1.24 s"
QString millisecondsText(double milliseconds);
/// "1.2 %" from a share of 0.012
QString percentText(double share);
/// For shares that are mostly tiny: "0.012 %", "< 0.001 %", "0 %".
QString smallShareText(double share);
/// "107 tok/s", "9.4 tok/s"
QString rateText(double tokensPerSecond);

/// Text from a file or a person, cut in the middle and stripped of line ends and control
/// characters, for one line of a label or menu. Markup stays as it is written.
QString oneLine(const QString& text, int maxCharacters);

/// Text from outside for a widget that guesses the format (tooltips): `<` and `&` shown as such.
QString literalToolTip(const QString& text);
/// Text from outside for a button or menu, where '&' would mark a shortcut.
QString literalAction(const QString& text);

}  // namespace vitrine::ui

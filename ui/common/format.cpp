#include "ui/common/format.h"

#include <QLocale>

#include <cmath>

namespace vitrine::ui {
namespace {

// The C locale has no group separator; English stands in for it.
QLocale figureLocale() {
  const QLocale locale;
  return locale.language() == QLocale::C ? QLocale(QLocale::English) : locale;
}

QString fixed(double value, int decimals) {
  return figureLocale().toString(value, 'f', decimals);
}

// Three significant digits or so: 1.21, 41.4, 512.
int decimalsFor(double value, int most) {
  const int wanted = value < 10 ? 2 : value < 99.95 ? 1 : 0;
  return std::min(wanted, most);
}

}  // namespace

BytesParts bytesParts(quint64 bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1023.5 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 ? 0 : decimalsFor(value, unit <= 2 ? 1 : 2);
  return {fixed(value, decimals), QString::fromLatin1(kUnits[unit])};
}

QString bytesText(quint64 bytes) {
  const BytesParts parts = bytesParts(bytes);
  return parts.number + QLatin1Char(' ') + parts.unit;
}

QString exactBytesText(quint64 bytes) {
  return QStringLiteral("%1 bytes").arg(countText(static_cast<qint64>(bytes)));
}

QString countText(qint64 count) {
  return figureLocale().toString(count);
}

QString pluralText(qint64 count, const QString& one, const QString& many) {
  return (count == 1 ? one : many).arg(countText(count));
}

QString millisecondsText(double milliseconds) {
  if (!std::isfinite(milliseconds)) return QStringLiteral("–");
  if (milliseconds >= 999.5) {
    return fixed(milliseconds / 1000, decimalsFor(milliseconds / 1000, 2)) + QStringLiteral(" s");
  }
  const int decimals = milliseconds < 1 ? 2 : milliseconds < 19.95 ? 1 : 0;
  return fixed(milliseconds, decimals) + QStringLiteral(" ms");
}

QString percentText(double share) {
  const double percent = share * 100;
  return fixed(percent, percent < 99.95 ? 1 : 0) + QStringLiteral(" %");
}

QString smallShareText(double share) {
  constexpr double kLeast = 1e-5;
  if (share <= 0) return QStringLiteral("0 %");
  if (share < kLeast) return QStringLiteral("< 0.001 %");
  return QStringLiteral("%1 %").arg(share * 100, 0, 'f', share < 1e-3 ? 3 : share < 1e-2 ? 2 : 1);
}

QString rateText(double tokensPerSecond) {
  const int decimals = tokensPerSecond < 99.95 ? 1 : 0;
  return fixed(tokensPerSecond, decimals) + QStringLiteral(" tok/s");
}

QString oneLine(const QString& text, int maxCharacters) {
  QString line;
  line.reserve(std::min<qsizetype>(text.size(), 4 * maxCharacters));
  for (const QChar character : text) {
    if (line.size() > 8 * maxCharacters) break;  // enough to cut from
    const bool blank = character.isSpace() || character.category() == QChar::Other_Control;
    line.append(blank ? QLatin1Char(' ') : character);
  }
  line = line.simplified();
  if (line.size() <= maxCharacters) return line;
  const int head = (maxCharacters - 1) * 2 / 3;
  return line.left(head) + QChar(0x2026) + line.right(maxCharacters - 1 - head);
}

QString literalToolTip(const QString& text) {
  return QStringLiteral("<qt>%1</qt>")
      .arg(text.toHtmlEscaped().replace(u'\n', QLatin1String("<br>")));
}

QString literalAction(const QString& text) {
  QString copy = text;
  return copy.replace(u'&', QLatin1String("&&"));
}

}  // namespace vitrine::ui

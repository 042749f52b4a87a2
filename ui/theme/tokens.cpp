#include "ui/theme/tokens.h"

#include <cmath>

namespace vitrine::ui {

namespace {

double linear(double channel) {
  return channel <= 0.04045 ? channel / 12.92 : std::pow((channel + 0.055) / 1.055, 2.4);
}

double luminance(const QColor& c) {
  return 0.2126 * linear(c.redF()) + 0.7152 * linear(c.greenF()) + 0.0722 * linear(c.blueF());
}

constexpr double kReadable = 4.5;

void derive(Tokens& t) {
  t.accent = t.reused;
  t.accentFill = t.dark ? t.reused : readableOn(t.reused, Qt::white);
  t.onAccent = t.dark ? QColor(0x06, 0x1c, 0x19) : QColor(Qt::white);
  t.bubble = mix(t.dark ? t.panel : QColor(Qt::white), t.reused, t.dark ? 0.11 : 0.10);
  t.code = t.dark ? mix(t.background, Qt::black, 0.22) : t.raised;
  t.hover = mix(t.panel, t.raised, t.dark ? 0.65 : 0.75);
}

Tokens makeDark() {
  Tokens t;
  t.dark = true;
  t.background = QColor(0x10, 0x13, 0x17);
  t.panel = QColor(0x16, 0x1a, 0x20);
  t.raised = QColor(0x1d, 0x22, 0x2a);
  t.line = QColor(0x27, 0x2d, 0x36);
  t.text = QColor(0xe7, 0xea, 0xef);
  t.muted = QColor(0x8d, 0x96, 0xa5);
  t.faint = QColor(0x5d, 0x66, 0x75);
  t.reused = QColor(0x2f, 0xc4, 0xb2);
  t.prefilled = QColor(0xe8, 0xa9, 0x3f);
  t.generated = QColor(0x9b, 0x87, 0xf5);
  t.information = QColor(0x5a, 0xa9, 0xf7);
  t.fault = QColor(0xf0, 0x7a, 0x8c);
  t.conversations = {QColor(0x5a, 0xa9, 0xf7), QColor(0xf0, 0x7f, 0xb4), QColor(0xa3, 0xd3, 0x5c),
                     QColor(0xf2, 0x8b, 0x66), QColor(0xd1, 0x7b, 0xe6), QColor(0xe3, 0xd6, 0x6b),
                     QColor(0x73, 0xc9, 0xec), QColor(0x62, 0xcf, 0x83)};
  derive(t);
  return t;
}

Tokens makeLight() {
  Tokens t;
  t.dark = false;
  t.background = QColor(0xf6, 0xf7, 0xf9);
  t.panel = QColor(0xff, 0xff, 0xff);
  t.raised = QColor(0xf0, 0xf2, 0xf5);
  t.line = QColor(0xe2, 0xe6, 0xeb);
  t.text = QColor(0x1c, 0x21, 0x27);
  t.muted = QColor(0x62, 0x6c, 0x7a);
  t.faint = QColor(0x98, 0xa1, 0xae);
  t.reused = QColor(0x0f, 0x94, 0x88);
  t.prefilled = QColor(0xc1, 0x7d, 0x10);
  t.generated = QColor(0x6d, 0x5b, 0xd6);
  t.information = QColor(0x27, 0x76, 0xd2);
  t.fault = QColor(0xcf, 0x48, 0x60);
  t.conversations = {QColor(0x27, 0x76, 0xd2), QColor(0xc4, 0x3f, 0x86), QColor(0x6a, 0x9a, 0x1f),
                     QColor(0xcb, 0x57, 0x2c), QColor(0xa0, 0x43, 0xbb), QColor(0xa3, 0x94, 0x17),
                     QColor(0x1e, 0x8f, 0xbb), QColor(0x2a, 0x93, 0x4c)};
  derive(t);
  return t;
}

}  // namespace

const Tokens& darkTokens() {
  static const Tokens tokens = makeDark();
  return tokens;
}

const Tokens& lightTokens() {
  static const Tokens tokens = makeLight();
  return tokens;
}

double contrast(const QColor& a, const QColor& b) {
  const double la = luminance(a);
  const double lb = luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

QColor mix(const QColor& bottom, const QColor& top, double share) {
  const auto channel = [share](double under, double over) {
    return under + (over - under) * share;
  };
  return QColor::fromRgbF(float(channel(bottom.redF(), top.redF())),
                          float(channel(bottom.greenF(), top.greenF())),
                          float(channel(bottom.blueF(), top.blueF())));
}

QColor readableOn(const QColor& colour, const QColor& background) {
  const QColor away = luminance(background) > 0.18 ? Qt::black : Qt::white;
  QColor result = colour;
  for (int step = 1; step <= 20 && contrast(result, background) < kReadable; ++step) {
    result = mix(colour, away, step / 20.0);
  }
  return result;
}

}  // namespace vitrine::ui

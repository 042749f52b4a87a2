#include "ui/theme/theme.h"

#include <QApplication>
#include <QEvent>
#include <QFontDatabase>
#include <QPalette>
#include <QStyle>
#include <QStyleFactory>
#include <algorithm>
#include <cmath>

#include "ui/theme/style_sheet.h"

// Resources of a static library stay out unless asked for; the macro must stand in no namespace.
static void takeControlImages() {
  Q_INIT_RESOURCE(controls);
}

namespace vitrine::ui {

namespace {

QString firstInstalled(const QStringList& families, QFontDatabase::SystemFont fallback) {
  for (const QString& family : families) {
    if (QFontDatabase::hasFamily(family)) return family;
  }
  return QFontDatabase::systemFont(fallback).family();
}

QPalette makePalette(const Tokens& t) {
  QPalette p;
  p.setColor(QPalette::Window, t.panel);
  p.setColor(QPalette::WindowText, t.text);
  p.setColor(QPalette::Base, t.background);
  p.setColor(QPalette::AlternateBase, t.raised);
  p.setColor(QPalette::Text, t.text);
  p.setColor(QPalette::PlaceholderText, t.muted);
  p.setColor(QPalette::Button, t.raised);
  p.setColor(QPalette::ButtonText, t.text);
  p.setColor(QPalette::BrightText, t.fault);
  p.setColor(QPalette::ToolTipBase, t.raised);
  p.setColor(QPalette::ToolTipText, t.text);
  p.setColor(QPalette::Highlight, mix(t.background, t.accent, t.dark ? 0.40 : 0.30));
  p.setColor(QPalette::HighlightedText, t.text);
  p.setColor(QPalette::Link, readableOn(t.information, t.background));
  p.setColor(QPalette::LinkVisited, readableOn(t.information, t.background));
  p.setColor(QPalette::Light, t.raised);
  p.setColor(QPalette::Midlight, t.line);
  p.setColor(QPalette::Mid, t.line);
  p.setColor(QPalette::Dark, t.line);
  p.setColor(QPalette::Shadow, t.line);
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText}) {
    p.setColor(QPalette::Disabled, role, t.faint);
  }
  return p;
}

}  // namespace

Theme& Theme::instance() {
  static Theme theme;
  return theme;
}

Theme::Theme() = default;

void Theme::install(QApplication& application) {
  m_application = &application;
  takeControlImages();
  m_systemDark = systemIsDark();
  m_textFamily = firstInstalled({"Inter", "Inter Variable"}, QFontDatabase::GeneralFont);
  m_figureFamily = firstInstalled({"JetBrains Mono"}, QFontDatabase::FixedFont);
  if (QStyle* fusion = QStyleFactory::create("Fusion")) QApplication::setStyle(fusion);
  application.installEventFilter(this);
  apply();
}

// Qt 6.4 has no colour scheme hint: a dark desktop shows in the palette that the platform gives.
bool Theme::systemIsDark() const {
  const QPalette palette = QApplication::palette();
  return palette.color(QPalette::Window).lightness() <
         palette.color(QPalette::WindowText).lightness();
}

bool Theme::eventFilter(QObject* watched, QEvent* event) {
  // The platform's own change of palette arrives at the application; ours is made under
  // m_applying and is not taken for it.
  if (watched == m_application && event->type() == QEvent::ApplicationPaletteChange &&
      !m_applying) {
    const bool dark = systemIsDark();
    if (dark != m_systemDark) {
      m_systemDark = dark;
      if (m_mode == ThemeMode::kSystem) apply();
    }
  }
  return QObject::eventFilter(watched, event);
}

void Theme::setMode(ThemeMode mode) {
  if (mode == m_mode) return;
  m_mode = mode;
  apply();
}

const Tokens& Theme::tokens() const {
  const bool dark = m_mode == ThemeMode::kSystem ? m_systemDark : m_mode == ThemeMode::kDark;
  return dark ? darkTokens() : lightTokens();
}

void Theme::setZoom(double zoom) {
  const double bounded = std::clamp(std::isfinite(zoom) ? zoom : 1.0, 0.7, 2.0);
  if (std::abs(bounded - m_zoom) < 0.001) return;
  m_zoom = bounded;
  apply();
}

int Theme::px(double designPixels) const {
  return int(std::lround(designPixels * m_zoom));
}

QFont Theme::textFont(double pixels, QFont::Weight weight) const {
  QFont font(m_textFamily);
  font.setPixelSize(std::max(6, px(pixels)));
  font.setWeight(weight);
  return font;
}

QFont Theme::figureFont(double pixels, QFont::Weight weight) const {
  QFont font(m_figureFamily);
  font.setStyleHint(QFont::Monospace);
  font.setFixedPitch(true);
  font.setPixelSize(std::max(6, px(pixels)));
  font.setWeight(weight);
  return font;
}

QColor Theme::ink(const QColor& colour) const {
  // The chip colour lies farthest from black and white: what is readable there is so everywhere.
  return readableOn(colour, tokens().raised);
}

QColor Theme::conversationColour(int number) const {
  const auto& palette = tokens().conversations;
  const int count = int(palette.size());
  return palette[((number % count) + count) % count];
}

void Theme::apply() {
  if (!m_application) return;
  m_applying = true;
  QApplication::setPalette(makePalette(tokens()));
  QApplication::setFont(textFont());
  m_application->setStyleSheet(buildStyleSheet(*this));
  m_applying = false;
  emit changed();
}

}  // namespace vitrine::ui

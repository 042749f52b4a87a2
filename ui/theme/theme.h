#pragma once

#include <QFont>
#include <QObject>
#include <QString>

#include "ui/theme/tokens.h"

class QApplication;

namespace vitrine::ui {

enum class ThemeMode { kSystem, kLight, kDark };

/// The look of the program: colours, fonts, style sheet, zoom. One per process, in the window's
/// thread. Widgets that paint themselves read `tokens()` in paintEvent; `changed()` is emitted
/// after a switch of appearance or zoom, when fonts and sizes have to be taken again.
///
/// The style sheet knows these dynamic properties (set them before the widget is shown):
///   QPushButton   kind = "primary" | "quiet" | "danger" | "link" | "chip"; compact = true
///   QToolButton   kind = "segment" (in a QFrame kind="segments"), "chip", "quiet"
///   QLabel        kind = "title" | "heading" | "muted" | "figure" | "figureMuted" | "fault"
///   QFrame        kind = "panel" | "card" | "chip" | "segments" | "line" (1 px) | "bubble"
class Theme final : public QObject {
  Q_OBJECT
 public:
  static Theme& instance();

  /// Sets style, palette, font and style sheet of the application; follows the system from here
  /// on while the mode is kSystem. Called once, by main or a test.
  void install(QApplication& application);

  ThemeMode mode() const { return m_mode; }
  void setMode(ThemeMode mode);
  bool isDark() const { return tokens().dark; }
  const Tokens& tokens() const;

  double zoom() const { return m_zoom; }
  /// 0.7 to 2.0; other values are brought into that range.
  void setZoom(double zoom);
  /// A length of the design in pixels at the present zoom.
  int px(double designPixels) const;

  /// Text font; `pixels` is the size of the design (14 is normal).
  QFont textFont(double pixels = 14, QFont::Weight weight = QFont::Normal) const;
  /// Figures and code: monospaced, tabular digits.
  QFont figureFont(double pixels = 12.5, QFont::Weight weight = QFont::Normal) const;

  /// The same hue, readable as text on the panel and on the chat's background (4.5:1).
  QColor ink(const QColor& colour) const;
  /// A conversation's own colour from its number (0 to 7), the same in every list and map.
  QColor conversationColour(int number) const;

 signals:
  void changed();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  Theme();
  void apply();
  bool systemIsDark() const;

  QApplication* m_application = nullptr;
  ThemeMode m_mode = ThemeMode::kSystem;
  double m_zoom = 1.0;
  bool m_systemDark = true;
  bool m_applying = false;
  QString m_textFamily, m_figureFamily;
};

}  // namespace vitrine::ui

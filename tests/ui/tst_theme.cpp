#include <QApplication>
#include <QTest>
#include <QtMath>

#include "ui/theme/theme.h"

using namespace vitrine::ui;

class TestTheme final : public QObject {
  Q_OBJECT
 private slots:
  void textIsReadable();
  void inksAreReadableOnEverySurface();
  void theThreeColoursStayApart();
  void switchesLive();
  void zoomStaysInRange();
  void conversationColoursAreStable();
};

void TestTheme::textIsReadable() {
  for (const Tokens* t : {&darkTokens(), &lightTokens()}) {
    for (const QColor& surface : {t->background, t->panel, t->raised, t->bubble, t->code}) {
      QVERIFY(contrast(t->text, surface) >= 4.5);
    }
    for (const QColor& surface : {t->background, t->panel, t->raised}) {
      QVERIFY(contrast(t->muted, surface) >= 4.5);
    }
    QVERIFY(contrast(t->onAccent, t->accentFill) >= 4.5);
  }
}

void TestTheme::inksAreReadableOnEverySurface() {
  for (const ThemeMode mode : {ThemeMode::kDark, ThemeMode::kLight}) {
    Theme& theme = Theme::instance();
    theme.setMode(mode);
    const Tokens& t = theme.tokens();
    for (const QColor& colour : {t.reused, t.prefilled, t.generated, t.information, t.fault}) {
      for (const QColor& surface : {t.background, t.panel, t.raised}) {
        QVERIFY2(contrast(theme.ink(colour), surface) >= 4.5, qPrintable(colour.name()));
      }
    }
  }
}

void TestTheme::theThreeColoursStayApart() {
  for (const Tokens* t : {&darkTokens(), &lightTokens()}) {
    const auto hueDistance = [](const QColor& a, const QColor& b) {
      const int d = std::abs(a.hslHue() - b.hslHue());
      return std::min(d, 360 - d);
    };
    for (const QColor& own : t->conversations) {
      for (const QColor& meaning : {t->reused, t->prefilled, t->generated}) {
        QVERIFY2(hueDistance(own, meaning) >= 12, qPrintable(own.name() + meaning.name()));
      }
    }
  }
}

void TestTheme::switchesLive() {
  Theme& theme = Theme::instance();
  theme.setMode(ThemeMode::kLight);
  int changes = 0;
  const auto connection = connect(&theme, &Theme::changed, this, [&] { ++changes; });
  theme.setMode(ThemeMode::kDark);
  QCOMPARE(changes, 1);
  QCOMPARE(QApplication::palette().color(QPalette::Window), darkTokens().panel);
  theme.setMode(ThemeMode::kLight);
  QCOMPARE(changes, 2);
  QCOMPARE(QApplication::palette().color(QPalette::Window), lightTokens().panel);
  disconnect(connection);
}

void TestTheme::zoomStaysInRange() {
  Theme& theme = Theme::instance();
  theme.setZoom(qQNaN());
  QCOMPARE(theme.zoom(), 1.0);
  theme.setZoom(50);
  QCOMPARE(theme.zoom(), 2.0);
  QCOMPARE(theme.textFont().pixelSize(), 28);
  theme.setZoom(1.0);
  QCOMPARE(theme.textFont().pixelSize(), 14);
}

void TestTheme::conversationColoursAreStable() {
  const Theme& theme = Theme::instance();
  QCOMPARE(theme.conversationColour(3), theme.tokens().conversations[3]);
  QCOMPARE(theme.conversationColour(11), theme.tokens().conversations[3]);
  QCOMPARE(theme.conversationColour(-1), theme.tokens().conversations[7]);
}

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  Theme::instance().install(application);
  TestTheme test;
  return QTest::qExec(&test, argc, argv);
}

#include "tst_theme.moc"

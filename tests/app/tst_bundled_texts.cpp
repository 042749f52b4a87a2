// The texts that come with the program can be read from a program of their own.
#include <QtTest>

#include "app/studio/bundled_texts.h"

using namespace vitrine::app::studio;

class TestBundledTexts : public QObject {
  Q_OBJECT

 private slots:
  void allAreThere() {
    QCOMPARE(bundledTexts().size(), std::size_t{4});
    for (const BundledText& text : bundledTexts()) {
      QVERIFY(!text.title.isEmpty());
      const std::string content = bundledText(text.id);
      QVERIFY2(content.size() > 6000, qPrintable(text.id));
      const QString unicode = QString::fromStdString(content);
      QVERIFY2(unicode.toStdString() == content, "it is UTF-8");
    }
  }

  void theyAreWhatTheySay() {
    QVERIFY(bundledText("chinese").find("长江") != std::string::npos);
    QVERIFY(bundledText("code").find("#include <vector>") != std::string::npos);
    QVERIFY(bundledText("chat").starts_with("User: "));
    QVERIFY(bundledText("english").find("The ferry") != std::string::npos);
  }

  void unknownOnesAreEmpty() {
    QVERIFY(bundledText("latin").empty());
    QVERIFY(bundledText("../english").empty());
  }
};

QTEST_GUILESS_MAIN(TestBundledTexts)
#include "tst_bundled_texts.moc"

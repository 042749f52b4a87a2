#include <QPushButton>
#include <QTest>

#include "ui/common/format.h"
#include "ui/common/toast.h"
#include "ui/theme/theme.h"

using namespace vitrine;

class TestToast : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() { ui::Theme::instance().install(*qApp); }

  void undoRunsOnceAndOnlyInTime() {
    QWidget window;
    window.resize(800, 600);
    window.show();
    ui::Toast* toast = ui::Toast::of(&window);
    QCOMPARE(ui::Toast::of(&window), toast);
    int undone = 0;
    int expired = 0;
    toast->showMessage(
        "Chat <b>deleted</b>", "Undo", [&] { ++undone; }, 5000, [&] { ++expired; });
    QCOMPARE(toast->text(), QString("Chat <b>deleted</b>"));
    QVERIFY(window.rect().contains(toast->geometry()));
    auto* button = toast->findChild<QPushButton*>();
    QTest::mouseClick(button, Qt::LeftButton);
    QCOMPARE(undone, 1);
    QCOMPARE(expired, 0);
    QVERIFY(!toast->isVisible());

    QTest::mouseMove(&window, QPoint(5, 5));  // it stays while the pointer is on it
    toast->showMessage(
        "Deleted", "Undo", [&] { ++undone; }, 60, [&] { ++expired; });
    QTRY_COMPARE(expired, 1);
    QVERIFY(!toast->isVisible());
    QCOMPARE(undone, 1);

    // A new message ends the time of the one before.
    toast->showMessage(
        "Deleted", "Undo", [&] { ++undone; }, 5000, [&] { ++expired; });
    toast->showMessage("Something else");
    QCOMPARE(expired, 2);
    QCOMPARE(undone, 1);
  }

  void figuresAreShortAndHaveUnits() {
    QLocale::setDefault(QLocale::c());
    QCOMPARE(ui::bytesText(0), QString("0 B"));
    QCOMPARE(ui::bytesText(812), QString("812 B"));
    QCOMPARE(ui::bytesText(1024), QString("1.0 KB"));
    QCOMPARE(ui::bytesText(1048575), QString("1.0 MB"));
    QCOMPARE(ui::bytesText(43417600), QString("41.4 MB"));
    QCOMPARE(ui::bytesText(512ULL << 20), QString("512 MB"));
    QCOMPARE(ui::bytesText(1300ULL << 20), QString("1.27 GB"));
    QCOMPARE(ui::countText(1842), QString("1,842"));
    QCOMPARE(ui::millisecondsText(0.423), QString("0.42 ms"));
    QCOMPARE(ui::millisecondsText(9.13), QString("9.1 ms"));
    QCOMPARE(ui::millisecondsText(96.4), QString("96 ms"));
    QCOMPARE(ui::millisecondsText(1240), QString("1.24 s"));
    QCOMPARE(ui::percentText(0.0124), QString("1.2 %"));
    QCOMPARE(ui::oneLine("a\n<b>\t c", 20), QString("a <b> c"));
    QVERIFY(ui::oneLine(QString(500, 'x'), 20).size() <= 20);
  }
};

QTEST_MAIN(TestToast)
#include "tst_toast.moc"

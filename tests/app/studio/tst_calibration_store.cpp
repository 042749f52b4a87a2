// Profiles as files of one folder: saved whole, listed with what is wrong, removed.
#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QtTest>

#include "app/studio/calibration_store.h"
#include "tests/app/studio/some_profile.h"

using namespace vitrine;
using app::studio::CalibrationStore;

class TestCalibrationStore : public QObject {
  Q_OBJECT

 private slots:
  void anEmptyFolderHasNone() {
    QTemporaryDir dir;
    QVERIFY(CalibrationStore(dir.filePath(QStringLiteral("none"))).list().empty());
  }

  void whatIsSavedIsListedNewestFirst() {
    QTemporaryDir dir;
    const CalibrationStore store(dir.filePath(QStringLiteral("a/b")));
    auto old = test::someProfile("Chat & code: 漢字/..", 1.0F);
    auto young = test::someProfile("", 2.0F);
    young->created = "2026-02-01T00:00:00Z";
    const auto first = store.save(*old);
    QVERIFY2(first, first ? "" : first.error().message.c_str());
    QVERIFY(QFile::exists(*first));
    QCOMPARE(QFileInfo(*first).dir().path(), dir.filePath(QStringLiteral("a/b")));
    const auto second = store.save(*young);
    QVERIFY(second);
    const auto entries = store.list();
    QCOMPARE(entries.size(), 2U);
    QCOMPARE(entries[0].file, *second);
    QCOMPARE(entries[0].profile->id, young->id);
    QCOMPARE(entries[1].profile->id, old->id);
    QCOMPARE(entries[1].profile->name, old->name);
    QCOMPARE(QDir(dir.filePath(QStringLiteral("a/b"))).entryList(QDir::Files).size(), 2);
  }

  void theSameProfileKeepsItsFile() {
    QTemporaryDir dir;
    const CalibrationStore store(dir.path());
    const auto profile = test::someProfile("same");
    const auto first = store.save(*profile);
    const auto second = store.save(*profile);
    QVERIFY(first && second);
    QCOMPARE(*second, *first);
    QCOMPARE(store.list().size(), 1U);
  }

  void othersModelsAreLeftOut() {
    QTemporaryDir dir;
    const CalibrationStore store(dir.path());
    const auto profile = test::someProfile("mine");
    QVERIFY(store.save(*profile));
    QCOMPARE(store.list(profile->modelFingerprint).size(), 1U);
    QCOMPARE(store.list("ffffffffffffffffffffffffffffffff").size(), 0U);
  }

  void aDamagedFileIsListedWithItsProblem() {
    QTemporaryDir dir;
    const CalibrationStore store(dir.path());
    QVERIFY(store.save(*test::someProfile("good")));
    QFile broken(dir.filePath(QStringLiteral("broken.json")));
    QVERIFY(broken.open(QIODevice::WriteOnly));
    broken.write("{\"sites\": [");
    broken.close();
    const auto entries = store.list("ffffffffffffffffffffffffffffffff");
    QCOMPARE(entries.size(), 1U);
    QVERIFY(!entries[0].profile);
    QVERIFY2(entries[0].problem.contains(QStringLiteral("broken.json")),
             qPrintable(entries[0].problem));
    QVERIFY(QFile::exists(broken.fileName()));
  }

  void removingIsForGood() {
    QTemporaryDir dir;
    const CalibrationStore store(dir.path());
    const auto file = store.save(*test::someProfile("short"));
    QVERIFY(file);
    QVERIFY(store.remove(*file));
    QVERIFY(store.list().empty());
    const auto again = store.remove(*file);
    QVERIFY(!again);
    QVERIFY(QString::fromStdString(again.error().message).contains(*file));
  }

  void aFolderThatCannotBeMadeIsNamed() {
    QTemporaryDir dir;
    QFile file(dir.filePath(QStringLiteral("file")));
    QVERIFY(file.open(QIODevice::WriteOnly));
    const CalibrationStore store(file.fileName() + QStringLiteral("/below"));
    const auto saved = store.save(*test::someProfile("nowhere"));
    QVERIFY(!saved);
    QVERIFY(QString::fromStdString(saved.error().message).contains(file.fileName()));
  }
};

QTEST_APPLESS_MAIN(TestCalibrationStore)
#include "tst_calibration_store.moc"

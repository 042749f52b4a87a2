// A GPU driver that is there and cannot be used: the CPU serves and says why, a wish for the GPU is
// an error with the same reason, nothing crashes, and a driver that hangs does not hold up the
// start.
#include <QTemporaryDir>
#include <QTest>

#include "tests/cli/cli_process.h"
#include "tests/tiny_models.h"

class TestGpuDriver : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY(m_folder.isValid());
    vitrine::test::parrotModel("blue").save(model().toStdString());
    const CliResult version = runCli({"--version"});
    QCOMPARE(version.exitCode, 0);
    m_hasCuda = !version.out.contains("without CUDA");
  }

  void theCpuServesAndSaysWhy_data() {
    QTest::addColumn<QStringList>("environment");
    QTest::addColumn<QByteArray>("reason");
    const QString folder = "LD_LIBRARY_PATH=" VITRINE_DRIVER_FOLDER;
    QTest::newRow("an old driver")
        << QStringList{folder, "DRIVER_RESULT=35", "DRIVER_VERSION=10000"}
        << QByteArray("the GPU driver is too old: it knows CUDA 10.0");
    QTest::newRow("insufficient") << QStringList{folder, "DRIVER_RESULT=35"}
                                  << QByteArray("does not start (error 35)");
    QTest::newRow("no device") << QStringList{folder, "DRIVER_RESULT=100"}
                               << QByteArray("no NVIDIA GPU was found");
    QTest::newRow("unknown error")
        << QStringList{folder, "DRIVER_RESULT=999"} << QByteArray("does not start (error 999)");
    QTest::newRow("not initialized")
        << QStringList{folder, "DRIVER_RESULT=3"} << QByteArray("does not start (error 3)");
    QTest::newRow("updated, not loaded yet")
        << QStringList{folder, "DRIVER_RESULT=803"} << QByteArray("restart the computer");
    QTest::newRow("four devices without functions")
        << QStringList{folder, "DRIVER_COUNT=4"} << QByteArray("the GPU driver does not fit");
    QTest::newRow("hidden") << QStringList{folder, "DRIVER_RESULT=100", "CUDA_VISIBLE_DEVICES="}
                            << QByteArray("CUDA_VISIBLE_DEVICES=\"\" hides every GPU");
    QTest::newRow("hanging") << QStringList{folder, "DRIVER_HANGS=1"}
                             << QByteArray("the GPU driver did not answer within");
  }
  void theCpuServesAndSaysWhy() {
    QFETCH(QStringList, environment);
    QFETCH(QByteArray, reason);
    if (!m_hasCuda) QSKIP("this build is without CUDA");
    const CliResult served =
        runCli({"run", "-m", model(), "-p", "Name a colour", "--temp", "0", "-n", "4", "--json"},
               {}, environment);
    QVERIFY(!served.crashed);
    // A driver that hangs does so longer than runCli() waits.
    QVERIFY2(served.exitCode == 0, served.err);
    QCOMPARE(served.json()["backend"].toString(), QString("cpu"));
    QVERIFY2(served.json()["backend_note"].toString().toUtf8().contains(reason), served.out);

    const CliResult wanted =
        runCli({"run", "-m", model(), "-p", "Name a colour", "-n", "1", "--backend", "cuda"}, {},
               environment);
    QVERIFY(!wanted.crashed);
    QCOMPARE(wanted.exitCode, 1);
    QVERIFY2(wanted.err.contains(reason), wanted.err);
  }

  void aDriverThatCannotBeUsedIsToldToPeople() {
    if (!m_hasCuda) QSKIP("this build is without CUDA");
    const CliResult served =
        runCli({"run", "-m", model(), "-p", "Name a colour", "-n", "1"}, {},
               {"LD_LIBRARY_PATH=" VITRINE_DRIVER_FOLDER, "DRIVER_RESULT=999"});
    QCOMPARE(served.exitCode, 0);
    QVERIFY2(served.err.contains("running on the CPU: the GPU driver does not start"), served.err);
  }

 private:
  QString model() const { return m_folder.filePath("parrot.gguf"); }

  QTemporaryDir m_folder;
  bool m_hasCuda = false;
};

QTEST_GUILESS_MAIN(TestGpuDriver)
#include "tst_gpu_driver.moc"

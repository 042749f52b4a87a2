// What `run --json` says about the memory of the process, with the real small model.

#include <QtTest>

#include "tests/cli/cli_process.h"
#include "tests/test_model.h"

class TestCliMemory : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY2(vitrine::test::haveTestModel(), vitrine::test::missingModelMessage().c_str());
    m_model = QString::fromStdString(vitrine::test::testModelPath().string());
  }

  void partsAddUpToWhatTheSystemReports_data() {
    QTest::addColumn<QStringList>("options");
    QTest::addColumn<int>("repeats");
    QTest::newRow("after a short turn") << QStringList{} << 1;
    QTest::newRow("after a long prompt") << QStringList{} << 120;
    QTest::newRow("INT8 weights and KV") << QStringList{"--weights", "int8", "--kv", "int8"} << 20;
    QTest::newRow("FP16 weights") << QStringList{"--weights", "fp16"} << 1;
  }
  void partsAddUpToWhatTheSystemReports() {
    QFETCH(QStringList, options);
    QFETCH(int, repeats);
    const QString prompt =
        QString("The sea covers most of the Earth and stores its heat. ").repeated(repeats) +
        "What covers most of the Earth?";
    const CliResult run = runCli(QStringList{"run", "-m", m_model, "--json", "--max-tokens", "8",
                                             "--kv-budget", "256M", "-p", prompt} +
                                 options);
    QCOMPARE(run.exitCode, 0);
    const QJsonObject memory = run.json()["memory"].toObject();
    QVERIFY2(!memory.isEmpty(), run.out.constData());
    const double rss = memory["rss"].toDouble();
    double sum = 0;
    for (const char* part : {"weights", "model_file", "kv_used", "kv_scales", "kv_waste", "kv_free",
                             "workspace", "code", "data", "heap_used", "heap_free", "stacks"}) {
      QVERIFY2(memory.contains(part), part);
      QVERIFY2(memory[part].toDouble() >= 0, part);
      sum += memory[part].toDouble();
    }
    QCOMPARE(memory["residual"].toDouble(), rss - sum);
    qInfo("%s", QJsonDocument(memory).toJson(QJsonDocument::Compact).constData());
    QVERIFY2(std::abs(rss - sum) <= 0.03 * rss,
             qPrintable(QString("%1 of %2 bytes").arg(sum, 0, 'f', 0).arg(rss, 0, 'f', 0)));
    QVERIFY(memory["weights"].toDouble() > 50e6);
    QVERIFY(memory["kv_used"].toDouble() > 0);
    QCOMPARE(memory["kv_scales"].toDouble() > 0, options.contains("--kv"));
  }

 private:
  QString m_model;
};

QTEST_GUILESS_MAIN(TestCliMemory)
#include "tst_cli_memory.moc"

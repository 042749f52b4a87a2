// `vitrine-cli lab` on the real model: one short row, from the options to the files.
#include <QTemporaryDir>
#include <QtTest>

#include "tests/cli/cli_process.h"
#include "tests/test_model.h"

class TestLabReal : public QObject {
  Q_OBJECT

 private slots:
  void oneRowFillsTheReport() {
    QVERIFY2(vitrine::test::haveTestModel(), vitrine::test::missingModelMessage().c_str());
    QTemporaryDir dir;
    const QString model = QString::fromStdString(vitrine::test::testModelPath().string());
    const QStringList home{"VITRINE_HOME=" + dir.filePath("home")};
    const CliResult result = runCli(
        {"lab", "--quick", "--only", "kv-cache", "-m", model, "-o", dir.filePath("out"), "--json"},
        {}, home);
    QVERIFY2(result.exitCode == 0, result.err.constData());
    const QJsonObject json = result.json();
    QCOMPARE(json["rows"].toArray().size(), 1);
    const QJsonObject row = json["rows"].toArray().first().toObject();
    QVERIFY(row["method"].toString() == "KV cache");
    QVERIFY(!row["gain"].toString().isEmpty() && !row["cost"].toString().isEmpty());
    const QJsonObject figures = row["figures"].toObject();
    const auto value = [&](const char* id) { return figures[id].toObject()["median"].toDouble(); };
    // On an idle machine 0.999 and more; less where something else takes a processor for a while.
    QVERIFY2(value("naive_quadratic_r2") > 0.9, result.out.constData());
    QVERIFY2(value("cached_linear_r2") > 0.9, result.out.constData());
    QCOMPARE(value("same_tokens"), 100.0);
    QCOMPARE(value("naive_positions"), 16.0 * 128 + 127 * 64);
    QVERIFY(value("time_factor") > 3);
    for (const char* name : {"report.json", "report.md", "report.html", "report.pdf"}) {
      QVERIFY2(QFileInfo(dir.filePath("out/") + name).size() > 1000, name);
    }
    // An earlier run's rows are kept when asked for.
    const CliResult again = runCli({"lab", "--quick", "--only", "kv-cache", "--resume", "-m", model,
                                    "-o", dir.filePath("out"), "--json"},
                                   {}, home);
    QCOMPARE(again.json()["rows"].toArray().first().toObject()["date"].toString(),
             row["date"].toString());
  }

  void badInputHasASentence() {
    CliResult result = runCli({"lab", "--only", "nonsense", "-m", "x.gguf", "-o", "/tmp"});
    QCOMPARE(result.exitCode, 2);
    QVERIFY(result.err.contains("nonsense"));
    result = runCli({"lab", "-m", "no-such-file.gguf", "-o", "/tmp"});
    QCOMPARE(result.exitCode, 1);
    QVERIFY(result.err.contains("no-such-file.gguf"));
    QVERIFY(result.out.isEmpty());
    QTemporaryDir dir;
    QFile file(dir.filePath("taken"));
    QVERIFY(file.open(QIODevice::WriteOnly));
    result = runCli({"lab", "-m", "no-such-file.gguf", "-o", file.fileName()});
    QCOMPARE(result.exitCode, 1);
    QVERIFY2(result.err.contains("taken"), result.err.constData());
    result = runCli({"lab", "-m", "x.gguf"});
    QCOMPARE(result.exitCode, 2);
  }
};

QTEST_GUILESS_MAIN(TestLabReal)
#include "tst_lab_real.moc"

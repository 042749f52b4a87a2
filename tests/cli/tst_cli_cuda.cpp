// The command line program with the CUDA backend, which computes on the CPU here: one question,
// several turns that reuse their cache, a chat, and what it says of itself.
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include "tests/cli/cli_process.h"
#include "tests/test_model.h"
#include "tests/tiny_models.h"

class TestCliCuda : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    vitrine::test::TinyModelOptions options;
    options.contextLength = 2048;
    const auto path = m_folder.filePath("tiny.gguf").toStdString();
    m_tiny = QString::fromStdString(vitrine::test::randomModel(options).save(path).string());
  }

  void saysThatItHasCuda() {
    const CliResult version = runCli({"--version"});
    QCOMPARE(version.exitCode, 0);
    QVERIFY2(version.out.contains("CUDA"), version.out);
    QVERIFY2(!version.out.contains("without CUDA"), version.out);
  }

  void answersAsOnTheCpu_data() {
    QTest::addColumn<QStringList>("precision");
    QTest::newRow("native") << QStringList{};
    QTest::newRow("BF16") << QStringList{"--weights", "bf16"};
    QTest::newRow("W8A8, KV8") << QStringList{"--weights", "int8", "--activations",
                                              "int8",      "--kv", "int8"};
  }
  void answersAsOnTheCpu() {
    QFETCH(QStringList, precision);
    const QStringList question = run(m_tiny) + precision + QStringList{"-p", "Hello", "-n", "6"};
    const CliResult cpu = runCli(question + QStringList{"--backend", "cpu"});
    const CliResult cuda = runCli(question + QStringList{"--backend", "cuda"});
    QVERIFY2(cuda.exitCode == 0, cuda.err);
    QCOMPARE(cuda.json()["backend"].toString(), "cuda");
    QCOMPARE(cpu.json()["backend"].toString(), "cpu");
    QCOMPARE(cuda.json()["token_ids"], cpu.json()["token_ids"]);
  }

  void turnsPrefillOnlyWhatIsNew() {
    QFile file(m_folder.filePath("turns.jsonl"));
    QVERIFY(file.open(QIODevice::WriteOnly));
    for (int i = 1; i <= 4; ++i) {
      file.write(QString(R"({"user": "Question %1: what is %1 plus one?"})").arg(i).toUtf8() +
                 "\n");
    }
    file.close();
    const CliResult result = runCli(
        run(m_tiny) + QStringList{"--backend", "cuda", "--turns", file.fileName(), "-n", "9"});
    QVERIFY2(result.exitCode == 0, result.err);
    const auto lines = result.jsonLines();
    QCOMPARE(lines.size(), 4);
    for (int i = 1; i < 4; ++i) {
      const QJsonObject& before = lines[i - 1];
      const int known = before["prompt_tokens"].toInt() + int(before["token_ids"].toArray().size());
      const int fresh = lines[i]["prompt_tokens"].toInt() - known;
      QVERIFY(fresh > 0);
      QVERIFY(lines[i]["prefilled_tokens"].toInt() <= fresh + 16);
      QVERIFY(lines[i]["reused_tokens"].toInt() > 0);
      QCOMPARE(lines[i]["backend"].toString(), "cuda");
    }
  }

  void chatAnswersAndBranches() {
    const CliResult result =
        runCli({"chat", "-m", m_tiny, "--backend", "cuda", "--temp", "0", "-n", "6"},
               "Hello\n/stats\n/cache\n/regenerate\n/edit Bye\nMore\n/quit\n");
    QVERIFY2(result.exitCode == 0, result.err);
    QVERIFY2(result.out.contains("prefilled"), result.out);
    QVERIFY2(result.out.contains("blocks of 16 tokens"), result.out);
  }

  void fullDeviceIsNamedAndAutomaticChoiceIsTheCpu() {
    const QStringList question = run(m_tiny) + QStringList{"-p", "Hello", "-n", "2"};
    const QStringList small{"CUDA_ON_CPU_MEMORY=256K"};
    const CliResult refused = runCli(question + QStringList{"--backend", "cuda"}, {}, small);
    QCOMPARE(refused.exitCode, 1);
    QVERIFY2(refused.err.contains("does not fit on the GPU"), refused.err);
    const CliResult automatic = runCli(question, {}, small);
    QVERIFY2(automatic.exitCode == 0, automatic.err);
    QCOMPARE(automatic.json()["backend"].toString(), "cpu");
    QCOMPARE(runCli(question).json()["backend"].toString(), "cuda");
  }

  void realModelAnswersAsOnTheCpu() {
    QVERIFY2(vitrine::test::haveTestModel(), vitrine::test::missingModelMessage().c_str());
    const auto model = QString::fromStdString(vitrine::test::testModelPath().string());
    const QStringList question =
        run(model) + QStringList{"--weights", "fp16", "-p", "Name three colours.", "-n", "5"};
    const CliResult cpu = runCli(question + QStringList{"--backend", "cpu"});
    const CliResult cuda = runCli(question + QStringList{"--backend", "cuda"});
    QVERIFY2(cuda.exitCode == 0, cuda.err);
    QCOMPARE(cuda.json()["backend"].toString(), "cuda");
    QVERIFY(!cuda.json()["text"].toString().isEmpty());
    QCOMPARE(cuda.json()["token_ids"], cpu.json()["token_ids"]);
  }

 private:
  static QStringList run(const QString& model) {
    return {"run", "-m", model, "--temp", "0", "--json"};
  }

  QTemporaryDir m_folder;
  QString m_tiny;
};

QTEST_GUILESS_MAIN(TestCliCuda)
#include "tst_cli_cuda.moc"

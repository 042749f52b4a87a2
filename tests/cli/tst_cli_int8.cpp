// The INT8 laboratory from the command line, on the real small model: calibrate, use, measure,
// rank.
#include <QFile>
#include <QFileInfo>
#include <QTemporaryDir>
#include <QTest>

#include <limits>

#include "tests/cli/cli_process.h"
#include "tests/test_model.h"

namespace {

QString model() {
  return QString::fromStdString(vitrine::test::testModelPath().string());
}

const QStringList kW8A8 = {"--weights", "int8", "--activations", "int8"};

}  // namespace

class TestCliInt8 : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase();
  void wrongUseExitsWithTwo_data();
  void wrongUseExitsWithTwo();
  void calibrateHasTheFieldsOfTheContract();
  void scaleMethodsClipAsTheySay_data();
  void scaleMethodsClipAsTheySay();
  void profileMakesScalesStatic();
  void profileThatNothingUsesIsSaid();
  void profilesThatDoNotFitAreNamed_data();
  void profilesThatDoNotFitAreNamed();
  void outliersWithoutAProfileCalibrateOnTheWay();
  void severalModesShareAReference();
  void sensitivityRanksLayersAndParts();
  void keptLayersReduceTheLoss();
  void llamaLogitsOfAnotherVocabularyAreRefused();

 private:
  QTemporaryDir m_folder;
  QString m_profile;

  QString write(const QString& name, const QByteArray& bytes) const {
    QFile file(m_folder.filePath(name));
    if (!file.open(QIODevice::WriteOnly)) qFatal("cannot write %s", qPrintable(file.fileName()));
    file.write(bytes);
    return file.fileName();
  }
  QByteArray profileBytes() const {
    QFile file(m_profile);
    if (!file.open(QIODevice::ReadOnly)) qFatal("cannot read %s", qPrintable(m_profile));
    return file.readAll();
  }
};

void TestCliInt8::initTestCase() {
  QVERIFY2(vitrine::test::haveTestModel(), vitrine::test::missingModelMessage().c_str());
  m_profile = m_folder.filePath("english.json");
  const CliResult made = runCli({"calibrate", "-m", model(), "--text", "english", "--tokens", "256",
                                 "-o", m_profile, "--json"});
  QVERIFY2(made.exitCode == 0, made.err);
}

void TestCliInt8::wrongUseExitsWithTwo_data() {
  QTest::addColumn<QStringList>("arguments");
  QTest::addColumn<QByteArray>("named");
  const QStringList run = {"run", "-m", model(), "-p", "x"};
  QTest::newRow("group size") << run + QStringList{"--weights", "int8", "--group-size", "48"}
                              << QByteArray("48");
  QTest::newRow("outliers") << run + kW8A8 + QStringList{"--outliers", "both"}
                            << QByteArray("both");
  QTest::newRow("INT8 activations of FP16 weights")
      << run + QStringList{"--weights", "fp16", "--activations", "int8"} << QByteArray("INT8");
  QTest::newRow("outliers of FP16 activations")
      << run + QStringList{"--weights", "int8", "--outliers", "smooth"} << QByteArray("smoothing");
  QTest::newRow("smoothing above 1")
      << run + kW8A8 + QStringList{"--outliers", "smooth", "--smoothing", "2"} << QByteArray("2");
  QTest::newRow("threshold of nothing")
      << run + kW8A8 + QStringList{"--outliers", "mixed", "--outlier-threshold", "1"}
      << QByteArray("threshold");
  QTest::newRow("static scales from nowhere")
      << run + kW8A8 + QStringList{"--activation-scales", "static"} << QByteArray("--calibration");
  QTest::newRow("layer that is not there")
      << run + kW8A8 + QStringList{"--keep-fp", "30"} << QByteArray("0 to 29");
  QTest::newRow("part that is not there")
      << run + kW8A8 + QStringList{"--keep-fp", "3.x"} << QByteArray("3.x");
  QTest::newRow("keys") << run + QStringList{"--kv", "int8", "--kv-keys", "row"}
                        << QByteArray("row");
  QTest::newRow("profile without a place")
      << QStringList{"calibrate", "-m", model(), "--text", "english"} << QByteArray("--output");
  QTest::newRow("nothing to calibrate on")
      << QStringList{"calibrate", "-m", model(), "-o", "p.json"} << QByteArray("--text");
  QTest::newRow("text that does not come with the program")
      << QStringList{"calibrate", "-m", model(), "--text", "klingon", "-o", "p.json"}
      << QByteArray("english, chinese, code, chat");
  QTest::newRow("method") << QStringList{"calibrate", "--method", "luck", "-o", "p.json"}
                          << QByteArray("luck");
  QTest::newRow("nothing to measure")
      << QStringList{"perplexity", "-m", model()} << QByteArray("--text");
  QTest::newRow("reference of another model")
      << QStringList{"perplexity", "-m", model(), "--text", "chat", "--reference", "-m x.gguf"}
      << QByteArray("--reference");
  QTest::newRow("two references")
      << QStringList{"perplexity", "-m", model(), "--llama-logits", "x", "--reference", ""}
      << QByteArray("--llama-logits");
  QTest::newRow("kind of sensitivity")
      << QStringList{"sensitivity", "--text", "chat", "--by", "word"} << QByteArray("word");
  QTest::newRow("memory for what was not measured")
      << QStringList{"sensitivity", "-m",    model(),        "--text", "chat",
                     "--by",        "layer", "--keep-bytes", "5M"}
      << QByteArray("--keep-bytes");
}

void TestCliInt8::wrongUseExitsWithTwo() {
  QFETCH(QStringList, arguments);
  QFETCH(QByteArray, named);
  const CliResult result = runCli(arguments);
  QVERIFY2(result.exitCode == 2, result.err);
  QVERIFY2(result.err.contains(named), result.err);
  QVERIFY(result.out.isEmpty());
}

void TestCliInt8::calibrateHasTheFieldsOfTheContract() {
  const QString text = write("text.txt", QByteArray("The quick brown fox. ").repeated(30));
  const QString profile = m_folder.filePath("both.json");
  const CliResult result = runCli({"calibrate", "-m", model(), "-f", text, "--text", "code",
                                   "--tokens", "128", "-o", profile, "--json"});
  QVERIFY2(result.exitCode == 0, result.err);
  const QJsonObject json = result.json();
  QCOMPARE(json["profile"].toString(), profile);
  QCOMPARE(json["tokens"].toInt(), 256);
  QCOMPARE(json["method"].toString(), QString("max"));
  QCOMPARE(json["sources"].toArray().size(), 2);
  const QJsonArray layers = json["layers"].toArray();
  QCOMPARE(layers.size(), 30 * 4 + 1);  // inputs of q/k/v, o, gate/up, down, and of the output
  for (const auto& value : layers) {
    const QJsonObject layer = value.toObject();
    QVERIFY(!layer["name"].toString().isEmpty());
    QVERIFY(layer["outlier_channels"].isArray());
    const double scale = layer["scale"].toDouble();
    QVERIFY(scale > 0.0);
    QVERIFY(qAbs(scale * 127.0 / layer["absmax"].toDouble() - 1.0) < 1e-5);
    QCOMPARE(layer["clipped_share"].toDouble(), 0.0);
  }
  QVERIFY(QFileInfo(profile).size() > 1000);
}

void TestCliInt8::scaleMethodsClipAsTheySay_data() {
  QTest::addColumn<QStringList>("method");
  QTest::newRow("percentile") << QStringList{"--method", "percentile", "--percentile", "99"};
  QTest::newRow("least squares") << QStringList{"--method", "mse"};
}

void TestCliInt8::scaleMethodsClipAsTheySay() {
  QFETCH(QStringList, method);
  const CliResult result =
      runCli(QStringList{"calibrate", "-m", model(), "--text", "english", "--tokens", "128", "-o",
                         m_folder.filePath("clip.json"), "--json"} +
             method);
  QVERIFY2(result.exitCode == 0, result.err);
  int clipped = 0;
  for (const auto& value : result.json()["layers"].toArray()) {
    const QJsonObject layer = value.toObject();
    const double limit = layer["scale"].toDouble() * 127.0;
    const double share = layer["clipped_share"].toDouble();
    QVERIFY(limit <= layer["absmax"].toDouble() * 1.00001);
    QVERIFY2(share <= 0.02, qPrintable(layer["name"].toString()));
    clipped += share > 0.0 ? 1 : 0;
  }
  QVERIFY(clipped > 0);
}

void TestCliInt8::profileMakesScalesStatic() {
  const QStringList run =
      QStringList{"run", "-m", model(), "-p", "Hello", "-n", "4", "--temp", "0", "--json"} + kW8A8;
  const CliResult taken = runCli(run + QStringList{"--calibration", m_profile});
  QVERIFY2(taken.exitCode == 0, taken.err);
  QCOMPARE(taken.json()["activation_scales"].toString(), QString("static"));
  QCOMPARE(taken.json()["calibration"].toString(), QString("bundled: english"));
  const CliResult asked =
      runCli(run + QStringList{"--calibration", m_profile, "--activation-scales", "dynamic"});
  QVERIFY2(asked.exitCode == 0, asked.err);
  QCOMPARE(asked.json()["activation_scales"].toString(), QString("dynamic"));
}

void TestCliInt8::profileThatNothingUsesIsSaid() {
  const CliResult result = runCli(
      {"run", "-m", model(), "-p", "Hello", "-n", "2", "--json", "--calibration", m_profile});
  QVERIFY2(result.exitCode == 0, result.err);
  QVERIFY2(result.err.contains("is not used"), result.err);
  QVERIFY(result.json()["calibration"].isNull());
}

void TestCliInt8::profilesThatDoNotFitAreNamed_data() {
  QTest::addColumn<QString>("name");
  QTest::addColumn<QByteArray>("bytes");
  const QByteArray good = profileBytes();
  QTest::newRow("missing") << "ghost.json" << QByteArray();
  QTest::newRow("empty") << "empty.json" << QByteArray("");
  QTest::newRow("not a profile") << "other.json" << QByteArray("{\"a\": 1}");
  QTest::newRow("cut off") << "cut.json" << good.left(good.size() / 2);
  QJsonObject foreign = QJsonDocument::fromJson(good).object();
  QJsonObject owner = foreign["model"].toObject();
  QVERIFY(owner.contains("fingerprint"));
  owner["fingerprint"] = "of another model";
  foreign["model"] = owner;
  QTest::newRow("of another model") << "foreign.json" << QJsonDocument(foreign).toJson();
}

void TestCliInt8::profilesThatDoNotFitAreNamed() {
  QFETCH(QString, name);
  QFETCH(QByteArray, bytes);
  const QString file = bytes.isNull() ? m_folder.filePath(name) : write(name, bytes);
  const CliResult result =
      runCli(QStringList{"run", "-m", model(), "-p", "x", "--calibration", file} + kW8A8);
  QVERIFY2(result.exitCode == 1 || result.exitCode == 2, result.err);
  QVERIFY(!result.crashed);
  QVERIFY2(result.err.contains(file.toUtf8()), result.err);
  QVERIFY(result.out.isEmpty());
}

void TestCliInt8::outliersWithoutAProfileCalibrateOnTheWay() {
  const CliResult result = runCli(
      QStringList{"run", "-m", model(), "-p", "Hello", "-n", "2", "--outliers", "mixed", "--json"} +
      kW8A8);
  QVERIFY2(result.exitCode == 0, result.err);
  QVERIFY2(result.err.contains("calibrating on the bundled texts"), result.err);
  QCOMPARE(result.json()["outliers"].toString(), QString("mixed"));
}

void TestCliInt8::severalModesShareAReference() {
  const QString text = write("some.txt", QByteArray("It was the best of times, it was the worst of "
                                                    "times, it was the age of wisdom. ")
                                             .repeated(12));
  const CliResult result =
      runCli({"perplexity", "-m", model(), "-f", text, "-c", "64", "--reference", "--weights fp16",
              "--weights", "fp16", "--also", "--weights int8", "--also",
              "--weights int8 --activations int8 --weight-scales tensor", "--json"});
  QVERIFY2(result.exitCode == 0, result.err);
  const auto modes = result.jsonLines();
  QCOMPARE(modes.size(), 3);
  QCOMPARE(modes[0]["kl_mean"].toDouble(), 0.0);
  QCOMPARE(modes[0]["top1_agreement"].toDouble(), 1.0);
  QVERIFY(modes[1]["kl_mean"].toDouble() > 0.0);
  QVERIFY(modes[2]["kl_mean"].toDouble() > 3.0 * modes[1]["kl_mean"].toDouble());
  QVERIFY(modes[2]["weight_bytes"].toDouble() < modes[1]["weight_bytes"].toDouble());
  for (const QJsonObject& mode : modes) {
    QCOMPARE(mode["tokens"].toInt(), modes[0]["tokens"].toInt());
    QCOMPARE(mode["reference_perplexity"], modes[0]["perplexity"]);
    QVERIFY(mode["kl_p99"].toDouble() >= mode["kl_mean"].toDouble());
  }
}

void TestCliInt8::sensitivityRanksLayersAndParts() {
  const CliResult result =
      runCli(QStringList{"sensitivity", "-m", model(), "--text", "chat", "--tokens", "48", "-c",
                         "48", "--json", "--weight-scales", "tensor", "--keep-bytes", "5M"});
  QVERIFY2(result.exitCode == 0, result.err);
  const QJsonObject json = result.json();
  const QJsonObject keep = json["worth_keeping"].toObject();
  QVERIFY(!keep["set"].toString().isEmpty());
  QVERIFY(keep["bytes"].toDouble() > 4e6 && keep["bytes"].toDouble() <= 5 * 1024 * 1024);
  QVERIFY(keep["share_of_loss"].toDouble() > 0.0 && keep["share_of_loss"].toDouble() < 1.0);
  QCOMPARE(json["weight_scales"].toString(), QString("tensor"));
  QVERIFY(json["all"].toObject()["kl_mean"].toDouble() > 0.0);
  const QHash<QString, qsizetype> sizes = {{"layers", 30}, {"parts", 8}, {"matrices", 0}};
  for (auto size = sizes.begin(); size != sizes.end(); ++size) {
    const QJsonArray rows = json[size.key()].toArray();
    QCOMPARE(rows.size(), size.value());
    double last = std::numeric_limits<double>::infinity();
    for (const auto& value : rows) {
      const QJsonObject row = value.toObject();
      QVERIFY(!row["name"].toString().isEmpty());
      QVERIFY(row["bytes_saved"].toDouble() > 0.0);
      QVERIFY(row["kl_mean"].toDouble() <= last);
      last = row["kl_mean"].toDouble();
    }
  }
}

void TestCliInt8::keptLayersReduceTheLoss() {
  const CliResult result =
      runCli({"perplexity", "-m", model(), "--text", "chat", "-c", "256", "--reference",
              "--weights fp16", "--weights", "int8", "--weight-scales", "tensor", "--also",
              "--weights int8 --weight-scales tensor --keep-fp 0-29.down", "--also",
              "--weights int8 --keep-fp *,output", "--json"});
  QVERIFY2(result.exitCode == 0, result.err);
  const auto modes = result.jsonLines();
  QCOMPARE(modes.size(), 3);
  QVERIFY(modes[1]["kl_mean"].toDouble() < modes[0]["kl_mean"].toDouble());
  QVERIFY(modes[1]["weight_bytes"].toDouble() > modes[0]["weight_bytes"].toDouble());
  QCOMPARE(modes[1]["keep"].toString(), QString("0-29.down"));
  QCOMPARE(modes[2]["kl_mean"].toDouble(), 0.0);
  QCOMPARE(modes[2]["weight_bytes"], modes[2]["reference_weight_bytes"]);
}

void TestCliInt8::llamaLogitsOfAnotherVocabularyAreRefused() {
  QByteArray bytes("_logits_");
  for (const qint32 value : {4, 3, 1, 0, 1, 2, 0}) {  // context, vocabulary, windows, tokens
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  bytes.append(QByteArray(8 + 4 * 2, '\0'));  // one row: two floats, three steps and a filler
  const QString file = write("base.kld", bytes);
  const CliResult result = runCli({"perplexity", "-m", model(), "--llama-logits", file});
  QVERIFY2(result.exitCode == 2, result.err);
  QVERIFY2(result.err.contains(file.toUtf8()) && result.err.contains("49152"), result.err);
}

QTEST_GUILESS_MAIN(TestCliInt8)
#include "tst_cli_int8.moc"

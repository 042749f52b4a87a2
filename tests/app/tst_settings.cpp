#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QtTest>

#include "app/model_library.h"
#include "app/paths.h"
#include "app/settings.h"
#include "app/text.h"
#include "engine/quant/quant_plan.h"
#include "tests/app/studio/some_profile.h"
#include "tests/tiny_models.h"

#include <sys/stat.h>

using namespace vitrine;
using namespace vitrine::app;

class TestSettings : public QObject {
  Q_OBJECT
 private slots:
  void valuesSurviveARestart();
  void nonsenseInTheFileGivesDefaults();
  void recentModelsAreFewAndDistinct();
  void pathsOfAnyBytesAreKept();
  void homeVariableMovesEverything();
  void int8ModesSurviveARestart();
  void aMissingProfileIsToldAndDone();
  void modelsAreFoundWithTheirReasons();
};

void TestSettings::valuesSurviveARestart() {
  QTemporaryDir dir;
  const QString file = dir.filePath(QStringLiteral("ü ini/vitrine.ini"));
  engine::EngineConfig config;
  config.backend = engine::BackendKind::kReference;
  config.precision.weights = engine::WeightMode::kInt8;
  config.precision.activations = engine::ActivationMode::kInt8;
  config.cache.type = engine::KvType::kInt8;
  config.cache.layout = engine::KvLayout::kContiguous;
  config.cache.reuse = false;
  config.cache.blockSize = 32;
  config.cache.budgetBytes = 5ULL << 32;
  config.threads = 3;
  config.contextTokens = 4096;
  config.kvHeads = 9;
  config.batching = engine::Batching::kStatic;
  {
    Settings settings(file);
    QVERIFY(settings.engineConfig() == engine::EngineConfig{});
    settings.setEngineConfig(config);
    settings.setTheme(Theme::kDark);
    settings.setZoomPercent(125);
    settings.setContextPolicy(engine::ContextPolicy::kDropOldest);
    settings.setSystemPromptDefault(QStringLiteral("line one\n\"two\"; 漢字"));
    settings.setSamplingDefaults({{QStringLiteral("temperature"), 0.7}});
    settings.setViewState(QStringLiteral("window"), QByteArray("\x00\xff geometry", 11));
  }
  Settings settings(file);
  QVERIFY(settings.engineConfig() == config);
  QVERIFY(settings.theme() == Theme::kDark);
  QCOMPARE(settings.zoomPercent(), 125);
  QVERIFY(settings.contextPolicy() == engine::ContextPolicy::kDropOldest);
  QCOMPARE(settings.systemPromptDefault(), QStringLiteral("line one\n\"two\"; 漢字"));
  QCOMPARE(settings.samplingDefaults().value(QStringLiteral("temperature")).toDouble(), 0.7);
  QCOMPARE(settings.viewState(QStringLiteral("window")), QByteArray("\x00\xff geometry", 11));
}

void TestSettings::nonsenseInTheFileGivesDefaults() {
  QTemporaryDir dir;
  const QString file = dir.filePath(QStringLiteral("vitrine.ini"));
  QFile out(file);
  QVERIFY(out.open(QIODevice::WriteOnly));
  out.write(
      "[engine]\nweights=int3\nblock_size=17\nthreads=-5\ncontext=many\nkv_budget_bytes=x\nkv_"
      "heads=-3\n"
      "[window]\nzoom=9000\ntheme=plaid\n[chat]\nsampling={broken\n\xff\xfe\x00[[[\n");
  out.close();
  Settings settings(file);
  const engine::EngineConfig config = settings.engineConfig();
  QVERIFY(config == engine::EngineConfig{});
  QCOMPARE(settings.zoomPercent(), 300);
  QVERIFY(settings.theme() == Theme::kSystem);
  QVERIFY(settings.samplingDefaults().isEmpty());
  QVERIFY(settings.lastModel().empty());
}

namespace {

engine::EngineConfig calibratedConfig(const engine::CalibrationPtr& profile) {
  engine::EngineConfig config;
  config.precision.weights = engine::WeightMode::kInt8;
  config.precision.activations = engine::ActivationMode::kInt8;
  config.precision.weightScales = engine::WeightScales::kChannel;
  config.precision.activationScales = engine::ActivationScales::kStatic;
  config.precision.outliers = engine::OutlierMode::kSmooth;
  config.precision.smoothing = 0.85F;
  config.precision.keyScales = engine::KeyScales::kChannel;
  config.precision.keep.addLayer(3);
  config.precision.keep.add(-1, engine::MatrixPart::kOutput);
  config.precision.calibration = profile;
  return config;
}

}  // namespace

void TestSettings::int8ModesSurviveARestart() {
  QTemporaryDir dir;
  const QString file = dir.filePath(QStringLiteral("vitrine.ini"));
  const engine::EngineConfig config = calibratedConfig(test::someProfile("a profile"));
  {
    Settings settings(file);
    settings.setCalibrationFolder(dir.filePath(QStringLiteral("calibration")));
    settings.setEngineConfig(config);
    QVERIFY(settings.engineConfig() == config);
  }
  Settings settings(file);  // reads where the profile lies from the file alone
  QVERIFY(settings.engineConfig() == config);
  QVERIFY(settings.calibrationProblem().isEmpty());
  QCOMPARE(settings.engineConfig().precision.calibration->name, std::string("a profile"));

  // Another profile takes its place; groups of 128 and the threshold are kept, too.
  engine::EngineConfig other;
  other.precision.weights = engine::WeightMode::kInt8;
  other.precision.activations = engine::ActivationMode::kInt8;
  other.precision.groupSize = 128;
  other.precision.outliers = engine::OutlierMode::kMixed;
  other.precision.outlierThreshold = 9.5F;
  other.precision.calibration = test::someProfile("another", 7.0F);
  settings.setCalibrationFolder(dir.filePath(QStringLiteral("calibration")));
  settings.setEngineConfig(other);
  QVERIFY(Settings(file).engineConfig() == other);
}

void TestSettings::aMissingProfileIsToldAndDone() {
  QTemporaryDir dir;
  const QString file = dir.filePath(QStringLiteral("vitrine.ini"));
  const QString folder = dir.filePath(QStringLiteral("calibration"));
  {
    Settings settings(file);
    settings.setCalibrationFolder(folder);
    settings.setEngineConfig(calibratedConfig(test::someProfile("gone")));
  }
  QVERIFY(QDir(folder).removeRecursively());
  Settings settings(file);
  const engine::WeightPrecision precision = settings.engineConfig().precision;
  QVERIFY2(settings.calibrationProblem().contains(QStringLiteral("gone")),
           qPrintable(settings.calibrationProblem()));
  QVERIFY(precision.activations == engine::ActivationMode::kInt8);
  QVERIFY(precision.weightScales == engine::WeightScales::kChannel);
  QVERIFY(precision.keep.containsLayer(3));
  QVERIFY(!precision.needsCalibration());
  QVERIFY(engine::checkPrecision(precision));
  settings.setEngineConfig(settings.engineConfig());  // as it works now: nothing to tell any more
  settings.engineConfig();
  QVERIFY(settings.calibrationProblem().isEmpty());
}

void TestSettings::recentModelsAreFewAndDistinct() {
  QTemporaryDir dir;
  Settings settings(dir.filePath(QStringLiteral("vitrine.ini")));
  QVERIFY(settings.recentModels().empty());
  for (int i = 0; i < 15; ++i) settings.setLastModel("/m/" + std::to_string(i) + ".gguf");
  settings.setLastModel("/m/12.gguf");
  const auto recent = settings.recentModels();
  QCOMPARE(recent.size(), std::size_t(10));
  QCOMPARE(recent[0].string(), std::string("/m/12.gguf"));
  QCOMPARE(std::count(recent.begin(), recent.end(), "/m/12.gguf"), 1);
  settings.forgetModel("/m/12.gguf");
  QCOMPARE(settings.recentModels().size(), std::size_t(9));
  QVERIFY(settings.lastModel().empty());
}

void TestSettings::pathsOfAnyBytesAreKept() {
  QTemporaryDir dir;
  const QString file = dir.filePath(QStringLiteral("vitrine.ini"));
  const std::filesystem::path paths[] = {"/田中　模型/ü 🙂, a;b=%41\"\\.gguf",
                                         std::string("/no\xff\xfeutf8/\n.gguf")};
  for (const auto& path : paths) {
    { Settings(file).setLastModel(path); }
    Settings settings(file);
    QCOMPARE(settings.lastModel().string(), path.string());
    QCOMPARE(settings.recentModels()[0].string(), path.string());
  }
}

void TestSettings::homeVariableMovesEverything() {
  QTemporaryDir dir;
  const QByteArray before = qgetenv("VITRINE_HOME");
  qputenv("VITRINE_HOME", dir.filePath(QStringLiteral("my home")).toUtf8());
  const Paths paths = Paths::standard();
  for (const QString& path :
       {paths.data, paths.models, paths.database, paths.settings, paths.cache}) {
    QVERIFY2(path.startsWith(dir.path()), qPrintable(path));
  }
  QVERIFY(QDir(paths.models).exists());
  QVERIFY(QDir(paths.cache).exists());
  if (before.isNull()) {
    qunsetenv("VITRINE_HOME");
  } else {
    qputenv("VITRINE_HOME", before);
  }
}

void TestSettings::modelsAreFoundWithTheirReasons() {
  QTemporaryDir dir;
  const auto path = [&](const char* name) {
    return std::filesystem::path(dir.filePath(QString::fromUtf8(name)).toStdString());
  };
  std::filesystem::create_directories(path("sub dir/deeper/too deep"));
  const test::GgufWriter good = test::randomModel();
  good.save(path("Böse 漢.gguf"));
  good.save(path("sub dir/deeper/inside.GGUF"));
  good.save(path("sub dir/deeper/too deep/hidden.gguf"));
  test::writeFile(path("cut.gguf"), good.bytes().substr(0, good.bytes().size() / 2));
  test::writeFile(path("empty.gguf"), "");
  test::writeFile(path("notes.txt"), "no model");
  QCOMPARE(::mkfifo(path("pipe.gguf").c_str(), 0600), 0);
  std::filesystem::create_symlink(path("nowhere"), path("broken link.gguf"));
  std::filesystem::create_symlink(path("Böse 漢.gguf"), path("zz same again.gguf"));
  const auto models =
      findModels({dir.path(), dir.filePath(QStringLiteral("not there")), QString()});
  QStringList names, broken;
  for (const ModelEntry& model : models) (model.problem.isEmpty() ? names : broken) << model.name;
  names.sort();
  QCOMPARE(names.size(), 2);
  QVERIFY(names.contains(QStringLiteral("inside")));
  for (const char* name : {"cut", "empty", "pipe", "broken link"}) {
    QVERIFY2(broken.contains(QLatin1String(name)), name);
  }
  for (const ModelEntry& model : models) {
    if (!model.problem.isEmpty()) continue;
    QCOMPARE(model.architecture, QStringLiteral("llama"));
    QCOMPARE(model.quantization, QStringLiteral("F32"));
    QCOMPARE(model.contextLength, 512);
    QVERIFY(model.bytes > 100000);
    QVERIFY(model.parameters > 10000);
  }
}

QTEST_GUILESS_MAIN(TestSettings)
#include "tst_settings.moc"

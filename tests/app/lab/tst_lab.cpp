// The lab without a large model: what it makes of numbers, the load generator on a tiny real model,
// reports, kept rows.
#include <QGuiApplication>
#include <QTemporaryDir>
#include <QtTest>
#include <cmath>
#include <thread>

#include "app/lab/chart_layout.h"
#include "app/lab/experiment.h"
#include "app/lab/lab_engine.h"
#include "app/lab/lab_json.h"
#include "app/lab/lab_runner.h"
#include "app/lab/lab_store.h"
#include "app/lab/load_generator.h"
#include "app/lab/recommendations.h"
#include "app/lab/report_writer.h"
#include "tests/app/lab/lab_samples.h"
#include "tests/tiny_models.h"

using namespace vitrine;
using namespace vitrine::app::lab;
using engine::ErrorCode;

class TestLab : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY(m_dir.isValid());
    test::randomModel().save(modelPath());
  }

  // ---- numbers

  void percentilesInterpolate() {
    QCOMPARE(percentile({}, 0.5), 0.0);
    QCOMPARE(percentile({7}, 0.95), 7.0);
    QCOMPARE(median({4, 1, 3, 2}), 2.5);
    QCOMPARE(percentile({0, 10, 20, 30, 40}, 0.95), 38.0);
    const Spread spread = spreadOf({10, 12, 11});
    QCOMPARE(spread.median, 11.0);
    QCOMPARE(spread.relativeRange(), 2.0 / 11);
  }

  void fitsTellAQuadraticFromALine() {
    std::vector<double> x, line, square;
    for (int i = 1; i <= 100; ++i) {
      const double noise = std::sin(i * 12.9898) * 3;
      x.push_back(i + 4000);
      line.push_back(5 + 3 * x.back() + noise);
      square.push_back(0.5 * i * i + 2 * i + noise);
    }
    const Fit linear = fitPolynomial(x, line, 1);
    QVERIFY(linear.rSquared > 0.99);
    QVERIFY(std::abs(linear.coefficients[1] - 3) < 0.05);
    const Fit quadratic = fitPolynomial(x, square, 2);
    QVERIFY(quadratic.rSquared > 0.9999);
    QVERIFY(std::abs(quadratic.coefficients[2] - 0.5) < 0.01);
    QVERIFY(fitPolynomial(x, square, 1).rSquared < 0.97);
    QVERIFY(fitPolynomial(std::vector{1.0, 2.0}, std::vector{1.0, 2.0}, 2).coefficients.empty());
    QVERIFY(fitPolynomial(std::vector{1.0, 1.0, 1.0, 1.0}, std::vector{1.0, 2.0, 3.0, 4.0}, 1)
                .coefficients.empty());
  }

  void theKneeIsWhereTheCurveBends() {
    const std::vector<double> x{1, 2, 4, 8, 16};
    QCOMPARE(kneeOf(x, std::vector<double>{100, 200, 390, 420, 430}), 2);
    QCOMPARE(kneeOf(x, std::vector<double>{100, 200, 400, 790, 850}), 3);
    QCOMPARE(kneeOf(x, std::vector<double>{100, 200, 400, 800, 1600}), -1);  // never bends
    QCOMPARE(kneeOf(x, std::vector<double>{100, 150, 120, 110, 90}), 1);     // falls: the top
    QCOMPARE(kneeOf(std::vector<double>{1, 2}, std::vector<double>{1, 2}), -1);
  }

  // ---- the load generator

  void requestsComeFromTheSeed() {
    LoadSpec spec;
    spec.prompt = {5, 9};
    spec.answer = {3, 3};
    spec.requests = 200;
    spec.arrivalsPerSecond = 10;
    spec.seed = 42;
    const auto one = makeRequests(spec, 100), two = makeRequests(spec, 100);
    double last = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
      QCOMPARE(one[i].prompt, two[i].prompt);
      QCOMPARE(one[i].arrivalSeconds, two[i].arrivalSeconds);
      QVERIFY(one[i].prompt.size() >= 5 && one[i].prompt.size() <= 9);
      QCOMPARE(one[i].answerTokens, 3);
      QVERIFY(one[i].arrivalSeconds > last);
      last = one[i].arrivalSeconds;
    }
    QVERIFY2(last > 14 && last < 28, qPrintable(QString::number(last)));  // 20 s on average
    spec.seed = 43;
    QVERIFY(makeRequests(spec, 100).front().prompt != one.front().prompt ||
            makeRequests(spec, 100).front().arrivalSeconds != one.front().arrivalSeconds);
  }

  void specsWithoutMeaningAreNamed_data() {
    QTest::addColumn<QString>("field");
    for (const char* field : {"prompt", "answer", "at once", "a second", "requests"}) {
      QTest::newRow(field) << field;
    }
  }
  void specsWithoutMeaningAreNamed() {
    QFETCH(QString, field);
    LoadSpec spec;
    QVERIFY(spec.check());
    if (field == "prompt") spec.prompt = {10, 5};
    if (field == "answer") spec.answer = {0, 5};
    if (field == "at once") spec.concurrency = 0;
    if (field == "a second") spec.arrivalsPerSecond = NAN;
    if (field == "requests") spec.requests = 0;
    const auto checked = spec.check();
    QVERIFY(!checked);
    QCOMPARE(checked.error().code, ErrorCode::kInvalidArgument);
    QVERIFY2(checked.error().message.find(field.toStdString()) != std::string::npos,
             checked.error().message.c_str());
  }

  void aLoadCountsWhatItAskedFor() {
    auto lab = LabEngine::open(modelPath(), {}, {});
    QVERIFY2(lab, lab ? "" : lab.error().message.c_str());
    for (const auto batching : {engine::Batching::kContinuous, engine::Batching::kStatic}) {
      LoadSpec spec;
      spec.concurrency = 4;
      spec.requests = 10;
      spec.batching = batching;
      std::int64_t prompt = 0, answer = 0;
      for (const auto& request : makeRequests(spec, (*lab)->info().config.vocabSize)) {
        prompt += std::ssize(request.prompt);
        answer += request.answerTokens;
      }
      double last = 0;
      const auto result = runLoad(**lab, spec, {}, [&](double share) { last = share; });
      QVERIFY2(result, result ? "" : result.error().message.c_str());
      QCOMPARE(result->promptTokens, prompt);
      QCOMPARE(result->generatedTokens, answer);
      QCOMPARE(result->requests, 10);
      QCOMPARE(last, 1.0);
      QVERIFY(result->tokensPerSecond > 0 && result->ttftP95Ms >= result->ttftP50Ms);
      QVERIFY(result->tpotP50Ms > 0 && result->tpotP95Ms >= result->tpotP50Ms);
      QCOMPARE((*lab)->info().running.batching, batching);
      QCOMPARE((*lab)->info().running.maxSequences, 4);
    }
    LoadSpec arriving;
    arriving.arrivalsPerSecond = 200;
    arriving.requests = 12;
    const auto result = runLoad(**lab, arriving, {});
    QVERIFY(result && result->requests == 12 && result->concurrency >= 1);
    LoadSpec tooLong;
    tooLong.prompt = {400, 500};
    QCOMPARE(runLoad(**lab, tooLong, {}).error().code, ErrorCode::kInvalidArgument);
  }

  void aLoadStopsAtOnceAndLeavesNothingBehind() {
    auto lab = LabEngine::open(modelPath(), {}, {});
    QVERIFY(lab);
    LoadSpec endless;
    endless.requests = 50'000;
    endless.concurrency = 4;
    std::stop_source source;
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      source.request_stop();
    });
    const auto stopped = runLoad(**lab, endless, source.get_token());
    QVERIFY(!stopped);
    QCOMPARE(stopped.error().code, ErrorCode::kCancelled);
    LoadSpec next;
    next.requests = 3;
    const auto result = runLoad(**lab, next, {});
    QVERIFY(result && result->requests == 3);
  }

  // ---- rows on a tiny model: each really measures, and is kept

  void aRowIsMeasuredKeptAndNotMeasuredTwice() {
    LabPlan plan;
    plan.model = modelPath();
    plan.config.threads = 1;
    plan.only = {"kv-cache"};
    plan.folder = m_dir.filePath("rows").toStdString();
    int measured = 0;
    double fraction = 0;
    LabListener listener;
    listener.rowFinished = [&](const LabRow&) { ++measured; };
    listener.progress = [&](const LabProgress& progress) { fraction = progress.fraction; };
    const auto report = runLab(plan, listener, {});
    QVERIFY2(report, report ? "" : report.error().message.c_str());
    QCOMPARE(measured, 1);
    QCOMPARE(fraction, 1.0);
    const LabRow* row = report->row("kv-cache");
    QVERIFY(row);
    // Counted, not timed: 128 tokens after a prompt of 16.
    QCOMPARE(row->value("naive_positions"), double(16 * 128 + 127 * 128 / 2));
    QCOMPARE(row->value("cached_positions"), double(16 + 127));
    QCOMPARE(row->value("same_tokens"), 100.0);
    QVERIFY(row->value("naive_quadratic_r2") > 0.9);
    QCOMPARE(row->charts.size(), std::size_t(3));

    // A second start has nothing left to do; "again" has.
    const auto second = runLab(plan, listener, {});
    QVERIFY(second && second->row("kv-cache")->date == row->date);
    QCOMPARE(measured, 1);
    plan.resume = false;
    QVERIFY(runLab(plan, listener, {}));
    QCOMPARE(measured, 2);
    // Another configuration is another subject.
    plan.resume = true;
    plan.config.cache.blockSize = 32;
    QVERIFY(runLab(plan, listener, {}));
    QCOMPARE(measured, 3);
  }

  void aStoppedRunGoesOnWithWhatIsMissing() {
    LabPlan plan;
    plan.model = modelPath();
    plan.config.threads = 1;
    plan.only = {"kv-cache", "int8-kv"};
    plan.folder = m_dir.filePath("stopped").toStdString();
    std::stop_source source;
    QStringList finished;
    LabListener listener;
    listener.rowFinished = [&](const LabRow& row) {
      finished << QString::fromStdString(row.id);
      source.request_stop();
    };
    const auto stopped = runLab(plan, listener, source.get_token());
    QVERIFY(!stopped && stopped.error().code == ErrorCode::kCancelled);
    QCOMPARE(finished, QStringList{"kv-cache"});
    listener.rowFinished = [&](const LabRow& row) { finished << QString::fromStdString(row.id); };
    const auto report = runLab(plan, listener, {});
    QVERIFY2(report, report ? "" : report.error().message.c_str());
    QCOMPARE(finished, (QStringList{"kv-cache", "int8-kv"}));
    QVERIFY(report->row("kv-cache") && report->row("int8-kv"));
  }

  void everyOtherRowRunsOnATinyModel_data() {
    QTest::addColumn<QString>("id");
    for (const char* id : {"attention", "int8-weights", "int8-kv", "paged-kv"}) {
      QTest::newRow(id) << id;
    }
  }
  void everyOtherRowRunsOnATinyModel() {
    QFETCH(QString, id);
    LabPlan plan;
    plan.model = modelPath();
    plan.config.threads = 1;
    plan.only = {id.toStdString()};
    plan.folder = m_dir.filePath("each").toStdString();
    QString fault;
    LabListener listener;
    listener.rowFailed = [&](const std::string&, const engine::Error& error) {
      fault = QString::fromStdString(error.message);
    };
    const auto report = runLab(plan, listener, {});
    QVERIFY2(report && fault.isEmpty(), qPrintable(fault));
    const LabRow* row = report->row(plan.only.front());
    QVERIFY(row && !row->gain.empty() && !row->cost.empty() && !row->measured.empty());
    QVERIFY(row->gainFactor > 0 && row->figures.size() >= 5 && row->seconds > 0);
    if (id == "attention") {  // 4 query heads, 2 KV heads; exact when repeated
      QCOMPARE(row->value("bytes_4"), 2 * row->value("bytes_2"));
      QCOMPARE(row->value("bytes_1"), row->value("bytes_2") / 2);
      QVERIFY(row->value("kl_4") < 1e-9);
      QVERIFY(row->value("kl_1") > row->value("kl_4"));
    }
    if (id == "int8-kv") QVERIFY(row->value("bytes_fp16") > 1.5 * row->value("bytes_int8"));
    if (id == "paged-kv") {
      QCOMPARE(row->value("fit_contiguous"), 2.0);
      QVERIFY(row->value("fit_paged") > 2);
      QVERIFY(row->value("waste_paged") < row->value("waste_contiguous"));
    }
  }

  void unknownRowsAndBrokenModelsAreNamed() {
    LabPlan plan;
    plan.only = {"no-such-row"};
    const auto unknown = runLab(plan, {}, {});
    QCOMPARE(unknown.error().code, ErrorCode::kInvalidArgument);
    QVERIFY(unknown.error().message.find("no-such-row") != std::string::npos);
    plan.only = {"kv-cache"};
    plan.model = m_dir.filePath("missing.gguf").toStdString();
    QVERIFY(!runLab(plan, {}, {}));
  }

  // ---- rows on disk

  void keptRowsComeBackAsTheyWere() {
    Subject subject;
    subject.fingerprint = "f";
    LabStore store(m_dir.filePath("store").toStdString(), subject);
    QVERIFY(store.rows().empty());
    LabRow row = test::weightsRow();
    row.charts[0].series[0].y[1] = NAN;
    QVERIFY(store.keep(row));
    QVERIFY(store.keep(test::batchingRow()));
    auto rows = store.rows();
    QCOMPARE(rows.size(), std::size_t(2));
    QCOMPARE(rows[0].method, row.method);
    QCOMPARE(rows[0].value("decode_w8a8"), 290.0);
    QCOMPARE(rows[0].charts[0].series[0].markText, std::string("knee"));
    QVERIFY(std::isnan(rows[0].charts[0].series[0].y[1]));
    Subject other = subject;
    other.threads = 3;
    QVERIFY(LabStore(m_dir.filePath("store").toStdString(), other).rows().empty());
    store.drop({"batching"});
    QCOMPARE(store.rows().size(), std::size_t(1));
    QFile file(QString::fromStdString(store.file().string()));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write("{\"key\": 3, \"rows\": [1, {}]");
    file.close();
    QVERIFY(store.rows().empty());
    QVERIFY(store.keep(row));
    QCOMPARE(store.rows().size(), std::size_t(1));
  }

  // ---- recommendations

  void recommendationsFollowTheFigures() {
    const auto all =
        recommend({test::weightsRow(), test::kvRow(0.98, 0.0004, 99), test::batchingRow()}, {});
    QCOMPARE(all.size(), std::size_t(3));
    // 128/1300 + 128/400 s is the least.
    QCOMPARE(all[0].config.precision.weights, engine::WeightMode::kNative);
    QCOMPARE(all[0].config.cache.type, engine::KvType::kFp16);
    QVERIFY(all[0].config.cache.reuse);
    QCOMPARE(all[1].config.precision.activations, engine::ActivationMode::kInt8);
    QCOMPARE(all[1].config.maxSequences, 8);
    QCOMPARE(all[2].config.cache.type, engine::KvType::kInt8);
    QCOMPARE(all[2].config.precision.activations, engine::ActivationMode::kInt8);
    QVERIFY(all[2].figures.find("45,000") != std::string::npos);
  }

  void whatIsTooFarFromFp16IsNotRecommended() {
    LabRow weights = test::weightsRow();
    for (Figure& figure : weights.figures) {
      if (figure.id == "kl_w8a8") figure.value.median = 0.2;
    }
    const auto all = recommend({weights, test::kvRow(1.3, 0.2, 80), test::batchingRow()}, {});
    QCOMPARE(all[1].config.precision.weights, engine::WeightMode::kInt8);
    QCOMPARE(all[1].config.precision.activations, engine::ActivationMode::kFp16);
    QCOMPARE(all[2].config.cache.type, engine::KvType::kFp16);
    QCOMPARE(all[0].config.cache.type, engine::KvType::kFp16);
    const auto missing = recommend({test::batchingRow()}, {});
    QVERIFY(missing[1].choice.empty());
    QCOMPARE(missing[1].missing, std::string("INT8 weights"));
  }

  // ---- reports

  void theJsonHoldsWhatScriptsRelyOn() {
    const Json json = Json::parse(*writeReport(test::sampleReport(), ReportFormat::kJson));
    QCOMPARE(json["rows"].size(), std::size_t(3));
    for (const Json& row : json["rows"]) {
      QVERIFY(row["method"].is_string() && row["gain"].is_string() && row["cost"].is_string());
      QVERIFY(row["figures"].is_object());
    }
    QCOMPARE(json["rows"][0]["figures"]["decode_w8a16"]["median"].get<double>(), 250.0);
    QCOMPARE(json["machine"]["processor"].get<std::string>(), std::string("A processor"));
    QCOMPARE(json["model"]["fingerprint"].get<std::string>(), std::string("abc"));
    QCOMPARE(json["recommendations"][1]["configuration"]["weights"].get<std::string>(),
             std::string("int8"));
  }

  void htmlIsOneFileAndEscapesWhatModelsAreCalled() {
    const QString html =
        QString::fromStdString(*writeReport(test::sampleReport(), ReportFormat::kHtml));
    QVERIFY(html.contains("tiny &lt;model&gt;"));
    QVERIFY(html.contains("INT8 | weights &lt;b&gt;&amp;"));
    QVERIFY(html.contains("prefers-color-scheme: dark"));
    QVERIFY(html.contains("<svg") && html.contains("knee"));
    QVERIFY(!html.contains("http://") && !html.contains("https://") && !html.contains("<script"));
    QCOMPARE(html.count("<section class=\"card\">"), 3);
  }

  void markdownKeepsItsTable() {
    const QString text =
        QString::fromStdString(*writeReport(test::sampleReport(), ReportFormat::kMarkdown));
    QVERIFY(text.contains("| INT8 \\| weights \\<b>& | 1.71× decode | KL 0.001 |"));
    QVERIFY(text.contains("| 4 | 340 | 200 |"));
  }

  void pdfHasPages() {
    const auto pdf = writeReport(test::sampleReport(), ReportFormat::kPdf);
    QVERIFY2(pdf, pdf ? "" : pdf.error().message.c_str());
    QVERIFY(pdf->rfind("%PDF-", 0) == 0);
    QVERIFY(pdf->size() > 5000);
  }

  void filesAreWrittenAndFaultsNamed() {
    const std::filesystem::path folder = m_dir.filePath("out/deeper").toStdString();
    for (const auto format :
         {ReportFormat::kJson, ReportFormat::kMarkdown, ReportFormat::kHtml, ReportFormat::kPdf}) {
      const auto file = saveReport(test::sampleReport(), format, folder);
      QVERIFY(file && std::filesystem::file_size(*file) > 500);
    }
    const auto refused =
        saveReport(test::sampleReport(), ReportFormat::kJson, folder / "report.json" / "x");
    QVERIFY(!refused);
    QVERIFY(refused.error().message.find("report.json") != std::string::npos);
  }

  void chartsStayInTheirRectangle() {
    Chart chart = test::weightsRow().charts[0];
    chart.series[0].y[2] = NAN;  // left out
    const auto layout = layoutChart(
        chart, 400, 200, 11, [](const std::string& text) { return double(text.size()) * 6; });
    QCOMPARE(layout.curves.size(), std::size_t(2));
    QCOMPARE(layout.curves[0].points.size(), std::size_t(4));
    for (const auto& curve : layout.curves) {
      for (const auto& point : curve.points) {
        QVERIFY(point.x >= 0 && point.x <= 400 && point.y >= 0 && point.y <= 200);
      }
    }
    // Doubling steps lie at equal distances.
    const auto& points = layout.curves[1].points;
    QVERIFY(std::abs((points[1].x - points[0].x) - (points[4].x - points[3].x)) < 1e-6);
    QVERIFY(layoutChart({}, 400, 200, 11, [](const std::string&) { return 1.0; }).curves.empty());
  }

 private:
  std::filesystem::path modelPath() const { return m_dir.filePath("tiny.gguf").toStdString(); }
  QTemporaryDir m_dir;
};

int main(int argc, char** argv) {
  qputenv("QT_QPA_PLATFORM", "offscreen");
  QGuiApplication application(argc, argv);  // PDF needs fonts
  TestLab test;
  return QTest::qExec(&test, argc, argv);
}
#include "tst_lab.moc"

// SmolLM2-135M-Instruct with 1 and 9 KV heads against transformers, whose weights were averaged and
// repeated with numpy (make_kv_heads.py).
#include <QtTest>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/backend/backend.h"
#include "engine/measure/distribution.h"
#include "tests/test_model.h"

using namespace vitrine;
using namespace vitrine::engine;
using namespace vitrine::test;

class TestGoldenKvHeads : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY2(haveTestModel(), missingModelMessage().c_str());
    auto model = Model::load(testModelPath());
    QVERIFY2(model, model ? "" : model.error().message.c_str());
    m_model = *model;
    std::ifstream file(VITRINE_GOLDEN_DATA "/smollm2_135m_kv_heads.json");
    const auto json = nlohmann::json::parse(file);
    m_ids = json.at("ids").get<std::vector<TokenId>>();
    for (const auto& run : json.at("runs")) {
      m_runs.push_back({run.at("kv_heads").get<int>(),
                        run.at("best_ids").get<std::vector<std::vector<TokenId>>>(),
                        run.at("best_logprobs").get<std::vector<std::vector<double>>>()});
      QCOMPARE(m_runs.back().bestIds.size(), m_ids.size());
    }
    QCOMPARE(m_runs.size(), std::size_t{2});
  }

  void logProbabilitiesAgree_data() {
    QTest::addColumn<int>("run");
    QTest::addColumn<int>("kind");
    for (int run = 0; run < 2; ++run) {
      for (BackendKind kind : {BackendKind::kReference, BackendKind::kCpu}) {
        QTest::newRow(qPrintable(
            QString("%1 KV heads, %2").arg(run == 0 ? 1 : 9).arg(QLatin1String(nameOf(kind)))))
            << run << static_cast<int>(kind);
      }
    }
  }
  void logProbabilitiesAgree() {
    QFETCH(int, run);
    QFETCH(int, kind);
    const Run& golden = m_runs[static_cast<std::size_t>(run)];
    BackendOptions options;
    options.threads = 1;
    options.kvHeads = golden.kvHeads;
    auto made = makeBackend(static_cast<BackendKind>(kind), m_model, options);
    QVERIFY2(made, made ? "" : made.error().message.c_str());
    Backend& backend = **made;
    const int length = static_cast<int>(m_ids.size());
    const int nBlocks = (length + 15) / 16;
    QVERIFY(backend.configureCache({KvType::kFp16, 16, nBlocks, golden.kvHeads}));
    std::vector<BlockId> table(static_cast<std::size_t>(nBlocks));
    std::iota(table.begin(), table.end(), 0);
    const BatchSequence sequence{m_ids, 0, table, length};
    const auto logits = backend.forward({&sequence, 1});
    QVERIFY2(logits, logits ? "" : logits.error().message.c_str());
    double worst = 0.0;
    for (int p = 0; p < length; ++p) {
      const auto row = logits->row(p);
      const double norm = logSumExp(row);
      const auto& ids = golden.bestIds[static_cast<std::size_t>(p)];
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const double wanted = golden.bestLogprobs[static_cast<std::size_t>(p)][i];
        worst = std::max(worst, std::fabs(row[static_cast<std::size_t>(ids[i])] - norm - wanted));
      }
    }
    qInfo("largest difference of a log-probability: %.4f", worst);
    // The cache, and averages of a 4-bit file, are FP16 here and FP32 there.
    QVERIFY2(worst < 0.1, qPrintable(QString::number(worst)));
  }

 private:
  struct Run {
    int kvHeads;
    std::vector<std::vector<TokenId>> bestIds;
    std::vector<std::vector<double>> bestLogprobs;
  };
  std::shared_ptr<const Model> m_model;
  std::vector<TokenId> m_ids;
  std::vector<Run> m_runs;
};

QTEST_APPLESS_MAIN(TestGoldenKvHeads)
#include "tst_golden_kv_heads.moc"

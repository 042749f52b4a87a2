// The cpu backend as a whole, on the real model: against the reference, and against itself. Bits
// must not depend on chunks, on other sequences, on blocks or on threads.
#include <QtTest>

#include <cstring>
#include <numeric>

#include "engine/backend/backend.h"
#include "engine/measure/distribution.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/cpu/isa.h"
#include "tests/test_model.h"

using namespace vitrine::engine;
namespace cpu = vitrine::kernels::cpu;

namespace {

constexpr const char* kText =
    "The history of the lighthouse begins long before electric lamps. Keepers climbed the stairs "
    "every evening, trimmed the wicks and wrote down the weather: wind, fog, passing ships. In "
    "1823 Augustin Fresnel showed that thin rings of glass could bend the light of one flame into "
    "a beam seen for thirty kilometres.";

struct Config {
  const char* name;
  WeightPrecision precision;
  KvType kv = KvType::kFp16;
};

/// One sequence of a test: its tokens, and the blocks that it may use.
struct Run {
  std::vector<TokenId> tokens;
  std::vector<BlockId> table;
  int done = 0;
};

std::vector<BlockId> blocks(int first, int count, int step = 1) {
  std::vector<BlockId> table(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) table[static_cast<std::size_t>(i)] = first + i * step;
  return table;
}

}  // namespace

class TestCpuBackend : public QObject {
  Q_OBJECT

  std::shared_ptr<const Model> m_model;
  std::vector<TokenId> m_tokens;

  std::unique_ptr<Backend> make(const Config& config, BackendKind kind = BackendKind::kCpu,
                                int threads = 0, int blockSize = 16, int nBlocks = 400) {
    auto backend = makeBackend(kind, m_model, {config.precision, threads});
    if (!backend) qFatal("%s", backend.error().message.c_str());
    KvShape shape{config.kv, blockSize, nBlocks, m_model->config().nKvHeads};
    if (auto done = (*backend)->configureCache(shape); !done) {
      qFatal("%s", done.error().message.c_str());
    }
    return std::move(*backend);
  }

  /// Feeds `count` more tokens of a run; the logits of the last `rows` of them.
  static std::vector<float> feed(Backend& backend, Run& run, int count, int rows = 1) {
    const BatchSequence one{
        std::span(run.tokens)
            .subspan(static_cast<std::size_t>(run.done), static_cast<std::size_t>(count)),
        run.done, run.table, rows};
    auto logits = backend.forward(std::span(&one, 1));
    if (!logits) qFatal("%s", logits.error().message.c_str());
    run.done += count;
    return {logits->values().begin(), logits->values().end()};
  }

  static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  /// A token sequence of any length made from the text.
  std::vector<TokenId> longTokens(int n, int offset = 0) const {
    std::vector<TokenId> tokens;
    for (int i = 0; i < n; ++i) {
      tokens.push_back(
          m_tokens[static_cast<std::size_t>(i * 7 + offset + i / 50) % m_tokens.size()]);
    }
    return tokens;
  }

 private slots:
  void initTestCase() {
    QVERIFY2(vitrine::test::haveTestModel(), vitrine::test::missingModelMessage().c_str());
    auto model = Model::load(vitrine::test::testModelPath());
    QVERIFY2(model.has_value(), model ? "" : model.error().message.c_str());
    m_model = *model;
    auto tokens = m_model->tokenizer().encode(kText);
    m_tokens.assign(tokens.begin(), tokens.end());
    QVERIFY(m_tokens.size() > 48);
  }

  void agreesWithTheReference_data() {
    QTest::addColumn<int>("weights");
    QTest::addColumn<int>("activations");
    QTest::addColumn<int>("group");
    QTest::addColumn<int>("kv");
    QTest::addColumn<double>("most");
    const auto row = [](const char* name, WeightMode w, ActivationMode a, int g, KvType kv,
                        double m) {
      QTest::newRow(name) << static_cast<int>(w) << static_cast<int>(a) << g << static_cast<int>(kv)
                          << m;
    };
    using enum WeightMode;
    const auto fp = ActivationMode::kFp16;
    const auto i8 = ActivationMode::kInt8;
    // All against the reference with the file's own values and FP16 KV.
    row("native", kNative, fp, 32, KvType::kFp16, 1e-5);
    row("fp16", kFp16, fp, 32, KvType::kFp16, 1e-5);
    row("bf16", kBf16, fp, 32, KvType::kFp16, 2e-3);
    row("W8A16", kInt8, fp, 32, KvType::kFp16, 2e-3);
    row("W8A16 group 64", kInt8, fp, 64, KvType::kFp16, 4e-3);
    row("W8A8", kInt8, i8, 32, KvType::kFp16, 1e-2);
    row("INT8 KV", kNative, fp, 32, KvType::kInt8, 2e-3);
  }
  void agreesWithTheReference() {
    QFETCH(int, weights);
    QFETCH(int, activations);
    QFETCH(int, group);
    QFETCH(int, kv);
    QFETCH(double, most);
    const Config config{
        "",
        {static_cast<WeightMode>(weights), static_cast<ActivationMode>(activations), group},
        static_cast<KvType>(kv)};
    static const std::vector<float> reference = [this] {
      auto backend = make({"native", {}}, BackendKind::kReference, 0, 16, 8);
      Run run{{m_tokens.begin(), m_tokens.begin() + 48}, blocks(0, 8)};
      return feed(*backend, run, 48, 48);
    }();
    auto backend = make(config);
    Run run{{m_tokens.begin(), m_tokens.begin() + 48}, blocks(0, 8)};
    const std::vector<float> logits = feed(*backend, run, 48, 48);
    QCOMPARE(logits.size(), reference.size());
    const std::size_t vocab = reference.size() / 48;
    double mean = 0.0;
    int agreed = 0;
    for (std::size_t r = 0; r < 48; ++r) {
      const RowComparison c = compareRows(std::span(reference).subspan(r * vocab, vocab),
                                          std::span(logits).subspan(r * vocab, vocab));
      mean += c.divergence / 48.0;
      agreed += c.sameBest ? 1 : 0;
    }
    qInfo("KL %.3g, the same best token at %d of 48", mean, agreed);
    QVERIFY2(mean <= most, qPrintable(QString("mean KL %1, allowed %2").arg(mean).arg(most)));
    QVERIFY(agreed >= 44);
  }

  void bitsDoNotDependOnTheWay_data() {
    QTest::addColumn<int>("weights");
    QTest::addColumn<int>("activations");
    QTest::addColumn<int>("kv");
    for (const char* isa : {"avx512", "avx2", "portable"}) {
      const auto row = [&](const char* name, WeightMode w, ActivationMode a, KvType kv) {
        QTest::newRow(qPrintable(QString("%1, %2").arg(isa, name)))
            << static_cast<int>(w) << static_cast<int>(a) << static_cast<int>(kv);
      };
      row("native", WeightMode::kNative, ActivationMode::kFp16, KvType::kFp16);
      if (std::strcmp(isa, "portable") == 0) continue;  // slow; one row shows the way
      row("W8A8, INT8 KV", WeightMode::kInt8, ActivationMode::kInt8, KvType::kInt8);
      if (std::strcmp(isa, "avx2") == 0) continue;
      row("fp16", WeightMode::kFp16, ActivationMode::kFp16, KvType::kFp16);
      row("bf16", WeightMode::kBf16, ActivationMode::kFp16, KvType::kInt8);
      row("W8A16", WeightMode::kInt8, ActivationMode::kFp16, KvType::kInt8);
    }
  }
  void bitsDoNotDependOnTheWay() {
    QFETCH(int, weights);
    QFETCH(int, activations);
    QFETCH(int, kv);
    const QByteArray isa = QByteArray(QTest::currentDataTag()).split(',').front();
    for (cpu::Isa one : {cpu::Isa::kAvx512, cpu::Isa::kAvx2}) {
      if (isa == cpu::shortName(one) && !cpu::isSupported(one)) {
        QSKIP("this processor does not have the instructions");
      }
    }
    qputenv("VITRINE_ISA", isa);
    const Config config{
        "",
        {static_cast<WeightMode>(weights), static_cast<ActivationMode>(activations), 32},
        static_cast<KvType>(kv)};
    // Beyond an attention range (of 256), so that merging is part of it.
    const int n = isa == "portable" ? 40 : isa == "avx2" ? 270 : 530;
    const int tail = 6;
    const int size = (n + 15) / 16;
    Run whole{longTokens(n), blocks(0, size)};
    auto backend = make(config, BackendKind::kCpu, 2);
    const std::vector<float> expected = feed(*backend, whole, n, tail);
    const std::size_t vocab = expected.size() / tail;
    const std::vector<float> last(expected.end() - static_cast<std::ptrdiff_t>(vocab),
                                  expected.end());

    // Another number of threads, one token at a time at the end, blocks elsewhere and in no order.
    std::vector<BlockId> scattered = blocks(390, size, -5);
    Run pieces{whole.tokens, scattered};
    auto alone = make(config, BackendKind::kCpu, 1);
    for (int left = n - tail; left > 0;) {
      const int count = std::min(left, left > 300 ? 77 : 3);
      feed(*alone, pieces, count, 0);
      left -= count;
    }
    for (int i = 0; i < tail; ++i) {
      const std::vector<float> row = feed(*alone, pieces, 1);
      QVERIFY(same(row, {expected.begin() + static_cast<std::ptrdiff_t>(vocab) * i,
                         expected.begin() + static_cast<std::ptrdiff_t>(vocab) * (i + 1)}));
    }

    // Four sequences of different lengths, decoded together; blocks of 32.
    auto together = make(config, BackendKind::kCpu, 2, 32, 200);
    std::vector<Run> runs;
    for (int i = 0; i < 4; ++i) {
      const int length = i == 2 ? n : 20 + 9 * i;
      runs.push_back(
          {i == 2 ? whole.tokens : longTokens(length, i), blocks(i, (length + 31) / 32, 4)});
    }
    std::vector<BatchSequence> batch;
    for (Run& r : runs) {
      const auto prompt = std::span(r.tokens).first(r.tokens.size() - 2);
      batch.push_back({prompt, 0, r.table, 0});
    }
    QVERIFY(together->forward(batch).has_value());
    for (int step = 2; step >= 1; --step) {
      batch.clear();
      for (Run& r : runs) {
        const auto at = static_cast<int>(r.tokens.size()) - step;
        batch.push_back(
            {std::span(r.tokens).subspan(static_cast<std::size_t>(at), 1), at, r.table, 1});
      }
      auto logits = together->forward(batch);
      QVERIFY(logits.has_value());
      if (step == 1) {
        const auto row = logits->row(2);
        QVERIFY(same({row.begin(), row.end()}, last));
      }
    }
    qunsetenv("VITRINE_ISA");
  }

  void forcedInstructionSetRuns_data() {
    QTest::addColumn<int>("isa");
    QTest::newRow("avx512") << static_cast<int>(cpu::Isa::kAvx512);
    QTest::newRow("avx2") << static_cast<int>(cpu::Isa::kAvx2);
    QTest::newRow("portable") << static_cast<int>(cpu::Isa::kPortable);
  }
  void forcedInstructionSetRuns() {
    QFETCH(int, isa);
    const auto wanted = static_cast<cpu::Isa>(isa);
    qputenv("VITRINE_ISA", cpu::shortName(wanted));
    auto backend = makeBackend(BackendKind::kCpu, m_model, {{}, 1});
    qunsetenv("VITRINE_ISA");
    if (!cpu::isSupported(wanted)) {
      QVERIFY(!backend.has_value());
      QCOMPARE(backend.error().code, ErrorCode::kUnsupported);
      QSKIP("this processor does not have the instructions");
    }
    QVERIFY(backend.has_value());
    QCOMPARE((*backend)->info().instructionSet, std::string(cpu::nameOf(wanted)));
    QCOMPARE((*backend)->info().kind, BackendKind::kCpu);
  }

  void unknownInstructionSetIsRefused() {
    qputenv("VITRINE_ISA", "sse9");
    auto backend = makeBackend(BackendKind::kCpu, m_model, {});
    qunsetenv("VITRINE_ISA");
    QVERIFY(!backend.has_value());
    QCOMPARE(backend.error().code, ErrorCode::kInvalidArgument);
  }

  void automaticChoiceIsCpu() {
    qunsetenv("VITRINE_BACKEND");
    auto backend = makeBackend(BackendKind::kAuto, m_model, {});
    QVERIFY(backend.has_value());
    QCOMPARE((*backend)->info().kind, BackendKind::kCpu);
    QCOMPARE((*backend)->info().instructionSet, std::string(cpu::nameOf(cpu::bestIsa())));
  }

  void blocksCanBeCopiedReadAndWritten() {
    for (KvType kv : {KvType::kFp16, KvType::kInt8}) {
      auto backend = make({"", {}, kv});
      Run run{longTokens(41), blocks(0, 3)};
      feed(*backend, run, 40, 0);
      // A branch: the full blocks shared, the last one copied; the original overwrites its own.
      QVERIFY(backend->copyBlock(2, 7, 8).has_value());
      std::vector<std::byte> saved(backend->memory().kvBytesPerBlock);
      QCOMPARE(saved.size(),
               static_cast<std::size_t>(kvBytesPerBlock(m_model->config(), backend->cacheShape())));
      QVERIFY(backend->readBlock(2, saved).has_value());
      Run copy{run.tokens, {0, 1, 7}, 40};
      Run moved{run.tokens, {0, 1, 9}, 40};
      const std::vector<float> original = feed(*backend, run, 1);
      QVERIFY(same(feed(*backend, copy, 1), original));
      QVERIFY(backend->writeBlock(9, saved).has_value());
      QVERIFY(same(feed(*backend, moved, 1), original));
      QVERIFY(!backend->readBlock(400, saved).has_value());
    }
  }

  void expandedHeadsGiveTheSameBits() {
    auto grouped = make({"", {}});
    BackendOptions options;
    options.kvHeads = m_model->config().nHeads;
    auto expanded = makeBackend(BackendKind::kCpu, m_model, options);
    QVERIFY(expanded.has_value());
    KvShape shape{KvType::kFp16, 16, 20, options.kvHeads};
    QVERIFY((*expanded)->configureCache(shape).has_value());
    Run a{longTokens(100), blocks(0, 7)};
    Run b = a;
    QVERIFY(same(feed(*grouped, a, 100), feed(**expanded, b, 100)));
  }

  void memoryIsCountedAsItIsTaken() {
    auto backend = make({"", {}}, BackendKind::kCpu, 0, 16, 4000);
    QCOMPARE(backend->memory().kvAllocatedBytes, std::uint64_t{0});
    Run run{longTokens(33), blocks(0, 3)};
    feed(*backend, run, 33);
    const BackendMemory memory = backend->memory();
    QVERIFY(memory.kvAllocatedBytes >= 3 * memory.kvBytesPerBlock);
    QVERIFY(memory.kvAllocatedBytes <= 3 * memory.kvBytesPerBlock + (4U << 20));
    QVERIFY(memory.weightBytes > 0 && memory.weightBytesPerToken > memory.weightBytes);
  }

  void packingCanBeStopped() {
    std::stop_source stop;
    int calls = 0;
    auto backend = makeBackend(
        BackendKind::kCpu, m_model, {},
        [&](const std::string&, double) {
          if (++calls == 3) stop.request_stop();
        },
        stop.get_token());
    QVERIFY(!backend.has_value());
    QCOMPARE(backend.error().code, ErrorCode::kCancelled);
  }
};

QTEST_APPLESS_MAIN(TestCpuBackend)
#include "tst_cpu_backend.moc"

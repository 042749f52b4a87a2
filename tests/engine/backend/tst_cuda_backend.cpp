// What the CUDA backend promises beyond the answers of a model: sequences together, branches,
// blocks that leave the device and come back, graphs, best tokens alone, the device's memory, a
// device that runs full or is lost, and models and devices that it refuses.
// Before Qt, whose macros take the word `slots`.
#include "tests/engine/backend/cuda_fixture.h"

#include <QtTest>

#include <cmath>

#include "engine/backend/gpu.h"

using namespace vitrine::engine;
using namespace vitrine::test;
using vitrine::kernels::TensorType;
namespace engine = vitrine::engine;

namespace {

/// A sequence of a test and the blocks that it may use.
struct Run {
  std::vector<TokenId> tokens;
  std::vector<BlockId> table;
  int done = 0;
};

BatchSequence part(const Run& run, int count, int logitRows = 1, int best = 0) {
  return {std::span(run.tokens)
              .subspan(static_cast<std::size_t>(run.done), static_cast<std::size_t>(count)),
          run.done, run.table, logitRows, best};
}

std::vector<float> feed(Backend& backend, Run& run, int count, int rows = 1) {
  const BatchSequence one = part(run, count, rows);
  const auto logits = valueOf(backend.forward({&one, 1}));
  run.done += count;
  return {logits.values().begin(), logits.values().end()};
}

Result<LogitsView> forwardOne(Backend& backend, const BatchSequence& one) {
  return backend.forward({&one, 1});
}

/// One step of one token of each; the logits one row below the other.
std::vector<float> stepTogether(Backend& backend, std::vector<Run>& runs) {
  std::vector<BatchSequence> batch;
  for (const Run& run : runs) batch.push_back(part(run, 1));
  const auto logits = valueOf(backend.forward(batch));
  for (Run& run : runs) ++run.done;
  return {logits.values().begin(), logits.values().end()};
}

}  // namespace

class TestCudaBackend : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    cuda_on_cpu::settings().devices = 2;  // before the one probe of this process
    TinyModelOptions options;
    options.dModel = 96;
    options.nHeads = 6;
    options.nKvHeads = 2;
    m_model = loadModel(randomModel(options));
    m_vocab = m_model->config().vocabSize;
  }
  void cleanup() {
    cuda_on_cpu::clearFaults();
    QCOMPARE(QString::fromStdString(cuda_on_cpu::report()), QString());
  }

  void saysWhatItIs() {
    const auto backend = make();
    const BackendInfo info = backend->info();
    QCOMPARE(info.kind, BackendKind::kCuda);
    QCOMPARE(info.name, std::string("cuda"));
    QCOMPARE(info.instructionSet, std::string("sm_80"));
    QVERIFY(!info.device.empty());
    QVERIFY(backend->precision() == WeightPrecision{});
  }

  void runsOnTheChosenDevice() {
    QCOMPARE(probeGpus().devices.size(), std::size_t{2});
    BackendOptions options;
    options.device = 1;
    const auto backend = valueOf(engine::makeBackend(BackendKind::kCuda, m_model, options));
    int device = -1;
    QCOMPARE(cudaGetDevice(&device), cudaSuccess);
    QCOMPARE(device, 1);
    QCOMPARE(cudaSetDevice(0), cudaSuccess);  // another backend in the same thread
    configureCache(*backend, *m_model, KvType::kFp16, 4);
    const auto tokens = someTokens(20, 1);
    const auto got = forward(*backend, tokens, 0, blocks(2));
    const auto other = make(4);
    QVERIFY(forward(*other, tokens, 0, blocks(2)) == got);
    options.device = 2;
    const auto missing = engine::makeBackend(BackendKind::kCuda, m_model, options);
    QVERIFY(!missing);
    QCOMPARE(missing.error().code, ErrorCode::kInvalidArgument);
    QCOMPARE(cudaSetDevice(0), cudaSuccess);
  }

  void sequencesTogetherAnswerAsEachAlone() {
    for (KvType kv : {KvType::kFp16, KvType::kInt8}) {
      std::vector<Run> apart, together;
      for (int i = 0; i < 4; ++i) {
        apart.push_back({someTokens(18 + 13 * i, i), blocks(5, i, 4)});
        together.push_back(apart.back());
      }
      const auto alone = make(20, kv);
      const auto backend = make(20, kv);
      // Prompts: three at once, while the first one decodes already.
      std::vector<float> wanted;
      for (Run& run : apart) {
        const auto logits = feed(*alone, run, static_cast<int>(run.tokens.size()) - 6);
        wanted.insert(wanted.end(), logits.begin(), logits.end());
      }
      feed(*backend, together[0], 11);
      std::vector<BatchSequence> batch;
      for (const Run& run : together) {
        batch.push_back(part(run, static_cast<int>(run.tokens.size()) - 6 - run.done));
      }
      const auto logits = valueOf(backend->forward(batch));
      for (Run& run : together) run.done = static_cast<int>(run.tokens.size()) - 6;
      QVERIFY(near(wanted, {logits.values().begin(), logits.values().end()}));
      for (int step = 0; step < 6; ++step) {
        wanted.clear();
        for (Run& run : apart) {
          const auto row = feed(*alone, run, 1);
          wanted.insert(wanted.end(), row.begin(), row.end());
        }
        QVERIFY(near(wanted, stepTogether(*backend, together)));
      }
    }
  }

  void promptOfManyPassesIsOnePrompt() {
    // 600 rows, all of them wanted: two passes, and logits in shares.
    const auto tokens = someTokens(600, 3);
    const auto backend = make(40);
    const auto whole = forward(*backend, tokens, 0, blocks(38), 600);
    const auto reference = makeBackend(BackendKind::kReference, m_model);
    configureCache(*reference, *m_model, KvType::kFp16, 40);
    const auto wanted = forward(*reference, tokens, 0, blocks(38), 600);
    const Divergence kl = divergence(wanted, whole, m_vocab);
    QVERIFY2(kl.mean <= 1e-3 && kl.largest <= 1e-2, qPrintable(QString::number(kl.largest)));
    // Only the last rows wanted, which begin in the first pass.
    const auto again = make(40);
    const auto last = forward(*again, tokens, 0, blocks(38), 100);
    QVERIFY(near({whole.end() - 100 * m_vocab, whole.end()}, last));
  }

  void branchSharesBlocksAndGoesOnAlone() {
    for (KvType kv : {KvType::kFp16, KvType::kInt8}) {
      const auto backend = make(8, kv);
      Run trunk{someTokens(40, 5), blocks(3)};
      feed(*backend, trunk, 39, 0);
      valueOf(backend->copyBlock(2, 6, 7));
      Run branch{trunk.tokens, {0, 1, 6}, 39};
      const auto wanted = feed(*backend, trunk, 1);
      QVERIFY(feed(*backend, branch, 1) == wanted);
      // The branch writes into its own block: the trunk's last step gives the same again.
      branch.tokens.push_back(77);
      feed(*backend, branch, 1);
      trunk.done = 39;
      QVERIFY(feed(*backend, trunk, 1) == wanted);
    }
  }

  void blocksGoOutAndComeBack() {
    for (KvType kv : {KvType::kFp16, KvType::kInt8}) {
      const auto backend = make(8, kv);
      Run run{someTokens(33, 6), blocks(3)};
      feed(*backend, run, 32, 0);
      const auto first = readBlock(*backend, 0), second = readBlock(*backend, 1);
      QVERIFY(first != second);
      const auto wanted = feed(*backend, run, 1);
      const auto other = make(8, kv);
      valueOf(other->writeBlock(7, first));
      valueOf(other->writeBlock(2, second));
      Run moved{run.tokens, {7, 2, 0}, 32};
      QVERIFY(feed(*other, moved, 1) == wanted);
      QVERIFY(readBlock(*other, 7) == first);
    }
  }

  void conversationsThatDoNotFitTogetherTakeTurns() {
    for (KvType kv : {KvType::kFp16, KvType::kInt8}) {
      // 4 conversations of 4 blocks; 6 blocks lie on the device.
      const auto roomy = make(16, kv);
      const auto narrow = makeBackend(BackendKind::kCuda, m_model);
      valueOf(narrow->configureCache({kv, 16, 16, m_model->config().nKvHeads, 10}));
      std::vector<Run> wanted, got;
      for (int i = 0; i < 4; ++i) {
        wanted.push_back({someTokens(60, i), blocks(4, i, 4)});
        got.push_back(wanted.back());
      }
      for (int round = 0; round < 4; ++round) {
        for (std::size_t i = 0; i < 4; ++i) {
          const int count = round == 0 ? 40 : 1;
          QVERIFY(feed(*narrow, got[i], count) == feed(*roomy, wanted[i], count));
          if (round == 2) narrow->setActive(false);
        }
      }
      const BackendMemory memory = narrow->memory();
      QVERIFY(memory.device.has_value());
      QVERIFY(memory.device->hostKv > 0);
      // More than the device holds at once is an error with numbers, and nothing is lost.
      std::vector<BatchSequence> batch;
      for (const Run& run : got) batch.push_back(part(run, 1));
      const auto tooMany = narrow->forward(batch);
      QVERIFY(!tooMany);
      QCOMPARE(tooMany.error().code, ErrorCode::kOutOfMemory);
      QVERIFY2(tooMany.error().message.find("6 fit") != std::string::npos,
               tooMany.error().message.c_str());
      for (std::size_t i = 0; i < 4; ++i) {
        QVERIFY(feed(*narrow, got[i], 1) == feed(*roomy, wanted[i], 1));
      }
    }
  }

  void graphsGiveTheSameBits() {
    for (int sequences : {1, 2, 3, 8, 11}) {
      std::vector<std::vector<float>> answers;
      for (bool graphs : {false, true}) {
        const auto backend = make(sequences * 2);
        auto& cuda = cudaOf(*backend);
        cuda.graphs().setEnabled(graphs);
        std::vector<Run> runs;
        for (int i = 0; i < sequences; ++i) {
          runs.push_back({someTokens(26, i), blocks(2, i, sequences)});
          feed(*backend, runs.back(), 10 + i, 0);
        }
        std::vector<float> all;
        for (int step = 0; step < 5; ++step) {
          const auto logits = stepTogether(*backend, runs);
          all.insert(all.end(), logits.begin(), logits.end());
        }
        // The first step of a kind runs launch by launch.
        QCOMPARE(cuda.graphs().replays(), graphs ? std::uint64_t{4} : std::uint64_t{0});
        answers.push_back(std::move(all));
      }
      QVERIFY2(answers[0] == answers[1], qPrintable(QString("%1 sequences").arg(sequences)));
    }
  }

  void graphsSurviveThatBuffersMove() {
    const auto backend = make(80);
    auto& cuda = cudaOf(*backend);
    cuda.graphs().setEnabled(true);
    const auto plain = make(80);
    cudaOf(*plain).graphs().setEnabled(false);
    Run a{someTokens(60, 1), blocks(4)}, b = a;
    Run longA{someTokens(300, 2), blocks(20, 10)}, longB = longA;
    QVERIFY(feed(*backend, a, 5) == feed(*plain, b, 5));
    for (int i = 0; i < 4; ++i) QVERIFY(feed(*backend, a, 1) == feed(*plain, b, 1));
    feed(*backend, longA, 290);  // a larger workspace
    feed(*plain, longB, 290);
    for (int i = 0; i < 4; ++i) {
      QVERIFY(feed(*backend, a, 1) == feed(*plain, b, 1));
      QVERIFY(feed(*backend, longA, 1) == feed(*plain, longB, 1));
    }
    configureCache(*backend, *m_model, KvType::kInt8, 8);
    configureCache(*plain, *m_model, KvType::kInt8, 8);
    a.done = b.done = 0;
    for (int i = 0; i < 4; ++i) QVERIFY(feed(*backend, a, 1) == feed(*plain, b, 1));
    QVERIFY(cuda.graphs().replays() > 0);
  }

  void bestTokensAloneAreThoseOfTheWholeRow() {
    const auto backend = make(16);
    std::vector<Run> runs;
    for (int i = 0; i < 5; ++i) {
      runs.push_back({someTokens(30, i), blocks(2, i, 5)});
      feed(*backend, runs.back(), 20, 0);
    }
    const auto whole = stepTogether(*backend, runs);
    const int most[] = {1, 0, 40, 1, 1000};
    std::vector<BatchSequence> batch;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      --runs[i].done;
      batch.push_back(part(runs[i], 1, 1, most[i]));
    }
    batch.push_back({});  // a prompt beside them, two rows of it wanted
    const Run prompt{someTokens(9, 8), blocks(1, 12)};
    batch.back() = part(prompt, 9, 2, 3);
    const auto logits = valueOf(backend->forward(batch));
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto row = std::span(whole).subspan(i * static_cast<std::size_t>(m_vocab),
                                                static_cast<std::size_t>(m_vocab));
      const LogitsView::Row got = logits.at(static_cast<int>(i));
      if (most[i] == 0 || most[i] > 64) {
        QVERIFY(got.best.empty());
        QVERIFY(near({row.begin(), row.end()}, {got.logits.begin(), got.logits.end()}));
        continue;
      }
      QVERIFY(got.logits.empty());
      QCOMPARE(got.best.size(), static_cast<std::size_t>(most[i]));
      std::vector<TokenId> order(row.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](TokenId x, TokenId y) { return row[x] > row[y]; });
      QCOMPARE(got.best[0].id, order[0]);
      for (std::size_t k = 0; k < got.best.size(); ++k) {
        QVERIFY(std::fabs(got.best[k].logit - row[order[k]]) < 1e-3F);
        QVERIFY(k == 0 || got.best[k].logit <= got.best[k - 1].logit);
      }
    }
    QCOMPARE(logits.at(5).best.size(), std::size_t{3});
    QCOMPARE(logits.at(6).best.size(), std::size_t{3});
    QVERIFY(logits.at(5).best[0].id != logits.at(6).best[0].id ||
            logits.at(5).best[0].logit != logits.at(6).best[0].logit);
  }

  void memoryIsWhatTheDeviceHolds() {
    const std::size_t before = cuda_on_cpu::counts().deviceBytes;
    const auto backend = make(10);
    Run run{someTokens(40, 1), blocks(3)};
    feed(*backend, run, 40);
    const BackendMemory memory = backend->memory();
    QVERIFY(memory.device.has_value());
    const DeviceMemory& d = *memory.device;
    QCOMPARE(d.weights, memory.weightBytes);
    QCOMPARE(d.kvBlocks, 3 * memory.kvBytesPerBlock);
    QVERIFY(d.kvFree >= 7 * memory.kvBytesPerBlock);
    QCOMPARE(d.workspace, memory.workspaceBytes);
    QVERIFY(d.total > d.free);
    const std::size_t held = cuda_on_cpu::counts().deviceBytes - before;
    QCOMPARE(static_cast<std::size_t>(d.weights + d.kvBlocks + d.kvFree + d.workspace), held);
    QVERIFY(memory.weightBytesPerToken > 0);
    QVERIFY(memory.weightBytesPerToken <= memory.weightBytes + 4096);
  }

  void tiedTableOfTheRightTypeLiesThereOnce() {
    TinyModelOptions options;
    options.tiedOutput = true;
    options.weightType = TensorType::kF16;
    const auto tied = loadModel(randomModel(options));
    options.tiedOutput = false;
    const auto apart = loadModel(randomModel(options));
    const auto bytes = [](const std::shared_ptr<const Model>& model, WeightMode mode) {
      WeightPrecision precision;
      precision.weights = mode;
      return makeBackend(BackendKind::kCuda, model, precision)->memory().weightBytes;
    };
    const std::uint64_t table = tied->weights().tokenEmbedding.bytes();
    QVERIFY(bytes(tied, WeightMode::kNative) + table <= bytes(apart, WeightMode::kNative));
    QVERIFY(bytes(tied, WeightMode::kBf16) + table > bytes(apart, WeightMode::kBf16));
  }

  void fullDeviceTakesMemoryFromThePool() {
    // The pool takes nearly all; a long prompt then needs a larger workspace.
    auto& settings = cuda_on_cpu::settings();
    const auto old = settings.memoryBytes;
    const auto wantedBackend = make(60);
    const Run prompt{someTokens(500, 4), blocks(32, 20)};
    Run other{someTokens(40, 5), blocks(3)}, sameOther = other;
    feed(*wantedBackend, other, 30);
    Run copy = prompt;
    const auto wanted = feed(*wantedBackend, copy, 500);
    {
      const auto backend = makeBackend(BackendKind::kCuda, m_model);
      configureCache(*backend, *m_model, KvType::kFp16, 60);
      feed(*backend, sameOther, 30);
      settings.othersBytes = 0;
      std::size_t free = 0, total = 0;
      QCOMPARE(cudaMemGetInfo(&free, &total), cudaSuccess);
      settings.othersBytes = free - 64 * 1024;  // another program takes the rest
      Run mine = prompt;
      const auto got = forwardOne(*backend, part(mine, 500));
      settings.othersBytes = 0;
      if (got) {
        const auto row = got->row(0);
        QVERIFY(near(wanted, {row.begin(), row.end()}));
        QVERIFY(backend->memory().device->hostKv > 0);
      } else {
        QCOMPARE(got.error().code, ErrorCode::kOutOfMemory);
        QVERIFY2(got.error().message.find("MiB") != std::string::npos, got.error().message.c_str());
      }
      // Either way the chat goes on.
      QVERIFY(near(feed(*wantedBackend, other, 1), feed(*backend, sameOther, 1)));
    }
    settings.memoryBytes = old;
  }

  void modelThatDoesNotFitIsRefusedWithNumbers() {
    auto& settings = cuda_on_cpu::settings();
    settings.othersBytes = settings.memoryBytes - (std::size_t{200} << 10);
    const auto made = engine::makeBackend(BackendKind::kCuda, m_model, {});
    settings.othersBytes = 0;
    QVERIFY(!made);
    QCOMPARE(made.error().code, ErrorCode::kOutOfMemory);
    QVERIFY2(made.error().message.find("MiB") != std::string::npos, made.error().message.c_str());
  }

  void poolThatDoesNotFitIsRefusedWithNumbers() {
    const auto backend = makeBackend(BackendKind::kCuda, m_model);
    const auto made =
        backend->configureCache({KvType::kFp16, 16, 2000000000, m_model->config().nKvHeads});
    QVERIFY(!made);
    QCOMPARE(made.error().code, ErrorCode::kOutOfMemory);
    QVERIFY(backend->memoryForCache() > 0);
    QVERIFY(backend->memoryForCache() < cuda_on_cpu::settings().memoryBytes);
    configureCache(*backend, *m_model, KvType::kFp16, 4);
    QVERIFY(!forward(*backend, someTokens(5, 1), 0, blocks(1)).empty());
  }

  void loadingCanBeStopped() {
    const auto held = cuda_on_cpu::describeHeld();
    std::stop_source stop;
    std::vector<double> fractions;
    const auto backend = engine::makeBackend(
        BackendKind::kCuda, m_model, {},
        [&](const std::string& stage, double fraction) {
          QVERIFY(!stage.empty());
          fractions.push_back(fraction);
          if (fractions.size() == 3) stop.request_stop();
        },
        stop.get_token());
    QVERIFY(!backend);
    QCOMPARE(backend.error().code, ErrorCode::kCancelled);
    QVERIFY(std::is_sorted(fractions.begin(), fractions.end()));
    QCOMPARE(cuda_on_cpu::describeHeld(), held);
  }

  void modelsBeyondTheKernelsAreRefused() {
    const auto messageOf = [](const TinyModelOptions& options) {
      const auto made =
          engine::makeBackend(BackendKind::kCuda, loadModel(randomModel(options)), {});
      return made ? std::string() : made.error().message;
    };
    TinyModelOptions options;
    options.dModel = 48;
    options.nHeads = 4;  // heads of 12
    QVERIFY(messageOf(options).find("heads of 12 elements") != std::string::npos);
    options.dModel = 17 * 8;
    options.nHeads = 17;
    options.nKvHeads = 1;
    QVERIFY(messageOf(options).find("17 query heads") != std::string::npos);
    options.dModel = 520;
    options.nHeads = 1;
    QVERIFY(messageOf(options).find("heads of 520 elements") != std::string::npos);
  }

  void weightsBeyondHalfPrecisionAreRefused() {
    GgufWriter file = randomModel({});
    file.setTensor("blk.1.ffn_down.weight", 64, 96, std::vector<float>(64 * 96, 1e5F));
    const auto model = loadModel(file);
    const auto made = engine::makeBackend(BackendKind::kCuda, model, {});
    QVERIFY(!made);
    QCOMPARE(made.error().code, ErrorCode::kUnsupported);
    QVERIFY2(made.error().message.find("the down matrix of layer 1") != std::string::npos,
             made.error().message.c_str());
    for (WeightMode mode : {WeightMode::kBf16, WeightMode::kInt8}) {
      BackendOptions options;
      options.precision.weights = mode;
      QVERIFY(engine::makeBackend(BackendKind::kCuda, model, options).has_value());
    }
  }

  void otherNumbersOfKvHeadsRun() {
    const auto tokens = someTokens(30, 3);
    const auto own = make(4);
    const auto wanted = forward(*own, tokens, 0, blocks(2), 30);
    for (int kvHeads : {6, 1}) {
      BackendOptions options;
      options.kvHeads = kvHeads;
      const auto backend = valueOf(engine::makeBackend(BackendKind::kCuda, m_model, options));
      valueOf(backend->configureCache({KvType::kFp16, 16, 4, kvHeads}));
      const auto got = forward(*backend, tokens, 0, blocks(2), 30);
      if (kvHeads == 6) {
        QVERIFY(near(wanted, got));  // repeated heads: the same answers
        continue;
      }
      const auto cpu = valueOf(engine::makeBackend(BackendKind::kCpu, m_model, options));
      valueOf(cpu->configureCache({KvType::kFp16, 16, 4, kvHeads}));
      const auto pooled = forward(*cpu, tokens, 0, blocks(2), 30);
      QVERIFY(divergence(pooled, got, m_vocab).mean <= 1e-3);
      QVERIFY(divergence(wanted, got, m_vocab).mean > 1e-3);
    }
  }

 private:
  std::unique_ptr<Backend> make(int nBlocks = 0, KvType kv = KvType::kFp16) {
    auto backend = makeBackend(BackendKind::kCuda, m_model);
    if (nBlocks > 0) configureCache(*backend, *m_model, kv, nBlocks);
    return backend;
  }
  /// Equal within what other kernels and other splits round away.
  static bool near(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::fabs(a[i] - b[i]) <= 5e-2F + 5e-3F * std::fabs(a[i])) continue;
      qWarning("logit %zu of %zu: %g and %g", i, a.size(), static_cast<double>(a[i]),
               static_cast<double>(b[i]));
      return false;
    }
    return true;
  }

  std::shared_ptr<const Model> m_model;
  int m_vocab = 0;
};

QTEST_APPLESS_MAIN(TestCudaBackend)
#include "tst_cuda_backend.moc"

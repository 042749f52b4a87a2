// One row an operation of the cpu kernels: what it computes or moves in a second of processor time
// of one thread. Processor time, so that a busy machine disturbs less; memory is shared all the
// same. Run without arguments for all rows, or with words that a row's name must contain.
// --probes N prints what N threads can do at most, as JSON.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "engine/measure/machine.h"
#include "engine/measure/probes.h"
#include "kernels/cpu/peak_loops.h"
#include "tests/kernels/cpu_ops.h"
#include "tests/kernels/random_data.h"

namespace {

using namespace vitrine;
using namespace vitrine::test;
namespace cpu = vitrine::kernels::cpu;

double processorSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Seconds of one call: the best of several runs of about 10 ms.
double best(const std::function<void()>& call) {
  int calls = 1;  // so many take 10 ms; reading the clock costs more than a small kernel
  for (;; calls *= 2) {
    const double start = processorSeconds();
    for (int i = 0; i < calls; ++i) call();
    if (processorSeconds() - start > 0.01) break;
  }
  double least = 1e9;
  for (int run = 0; run < 7; ++run) {
    const double start = processorSeconds();
    for (int i = 0; i < calls; ++i) call();
    least = std::min(least, (processorSeconds() - start) / calls);
  }
  return least;
}

std::vector<std::string> g_words;

bool wanted(const std::string& name) {
  return std::all_of(g_words.begin(), g_words.end(),
                     [&](const std::string& w) { return name.find(w) != std::string::npos; });
}

void row(const std::string& name, double operations, double bytes,
         const std::function<void()>& call) {
  if (!wanted(name)) return;
  const double seconds = best(call);
  std::printf("%-58s %9.2f us %8.1f GOP/s %7.1f GB/s\n", name.c_str(), seconds * 1e6,
              operations / seconds * 1e-9, bytes / seconds * 1e-9);
  std::fflush(stdout);
}

void peaks() {
  for (const cpu::PeakLoop& loop : {cpu::int8PeakLoop(), cpu::bf16PeakLoop()}) {
    constexpr std::int64_t kRounds = 100000;
    row(std::string("peak ") + loop.instruction, loop.operationsPerRound * kRounds, 0.0,
        [&] { loop.run(kRounds); });
  }
}

void products(const cpu::CpuKernels& k) {
  Random random(1);
  struct Kind {
    const char* name;
    TensorType file;
    cpu::WeightFormat format;
    bool int8;
    int groupSize = 32;
  };
  const Kind kinds[] = {
      {"F16", TensorType::kF16, cpu::WeightFormat::kF16, false},
      {"BF16", TensorType::kBF16, cpu::WeightFormat::kBf16, false},
      {"W8A16", TensorType::kQ8_0, cpu::WeightFormat::kInt8, false},
      {"W8A8", TensorType::kQ8_0, cpu::WeightFormat::kInt8, true},
      {"W8A16 groups of 128", TensorType::kQ8_0, cpu::WeightFormat::kInt8, false, 128},
      {"W8A8 per row", TensorType::kQ8_0, cpu::WeightFormat::kInt8, true, cpu::kWholeRow},
      {"Q4_0", TensorType::kQ4_0, cpu::WeightFormat::kQ4_0, false},
      {"Q4_1", TensorType::kQ4_1, cpu::WeightFormat::kQ4_1, false}};
  for (const Kind& kind : kinds) {
    for (auto [out, in, rows] : {std::tuple{1536, 576, 1},
                                 {49152, 576, 1},
                                 {1536, 576, 4},
                                 {1536, 576, 256},
                                 {576, 1536, 256}}) {
      const std::string name = std::string(cpu::shortName(k.isa)) + " product " + kind.name + " " +
                               std::to_string(out) + " x " + std::to_string(in) + ", " +
                               std::to_string(rows) + " rows";
      if (!wanted(name)) continue;
      const auto bytes = random.fileRows(kind.file, out, in, 0.1F);
      const PackedCopy packed({kind.file, out, in, bytes.size() / out, bytes.data()}, kind.format,
                              kind.groupSize);
      const Floats x = random.normals(static_cast<std::size_t>(rows) * in);
      const PreparedRows prepared(k, cpu::activationFormat(k, packed.matrix, kind.int8), x.data(),
                                  rows, in);
      Floats y(static_cast<std::size_t>(rows) * out);
      Floats panel(static_cast<std::size_t>(in) * 2 * cpu::kTileRows);
      row(name, 2.0 * out * in * rows, static_cast<double>(packed.matrix.bytes()), [&] {
        k.matmul({&packed.matrix, 0, packed.matrix.tiles, &prepared.view, rows, y.data(), out,
                  false, panel.data()});
      });
    }
  }
}

void attention(const cpu::CpuKernels& k) {
  Random random(2);
  for (bool int8 : {false, true}) {
    for (auto [rows, length] : {std::pair{1, 4096}, {21, 512}, {21, 4096}}) {
      const std::string name = std::string(cpu::shortName(k.isa)) + " attention " +
                               (int8 ? "INT8" : "FP16") + " " + std::to_string(rows) + " rows at " +
                               std::to_string(length) + ", 3 heads of 64";
      if (!wanted(name)) continue;
      AttentionInput in;
      in.rows = rows;
      in.length = length;
      in.nHeads = 3;
      in.nKvHeads = 1;
      in.headDim = 64;
      in.int8 = int8;
      in.nBlocks = length / 16;
      for (int b = 0; b < in.nBlocks; ++b) in.blockTable.push_back(b);
      in.k = random.normals(static_cast<std::size_t>(length) * 64);
      in.v = random.normals(static_cast<std::size_t>(length) * 64);
      in.q = random.normals(static_cast<std::size_t>(rows) * 3 * 64);
      const KvCopy kv(k, in);
      Floats scratch(cpu::attentionScratchFloats(64));
      Floats y(in.q.size());
      cpu::AttentionTask task;
      task.kv = kv.head(0);
      task.q = in.q.data();
      task.qStride = 3 * 64;
      task.rows = rows;
      task.heads = 3;
      task.firstPosition = length - rows;
      task.scale = 0.125F;
      task.scratch = scratch.data();
      row(name, 4.0 * 64 * 3 * rows * length, static_cast<double>(kv.pool.size()),
          [&] { k.attend(task, y.data(), 3 * 64); });
    }
  }
}

void rows(const cpu::CpuKernels& k) {
  Random random(3);
  const std::string isa = cpu::shortName(k.isa);
  const Floats x = random.normals(1536);
  const Floats weight = random.normals(1536);
  Floats y(1536);
  row(isa + " norm of 576", 576 * 3, 576 * 12,
      [&] { k.rmsNorm(x.data(), weight.data(), y.data(), 576, 1e-5F); });
  row(isa + " swiglu of 1536", 1536 * 5, 1536 * 12,
      [&] { k.swiglu(x.data(), weight.data(), y.data(), 1536); });
  PreparedRows wide(k, cpu::ActivationFormat::kInt16, x.data(), 1, 1536);
  row(isa + " prepare INT16 1536", 1536 * 3, 1536 * 6,
      [&] { k.prepare(x.data(), 1536, wide.view, 0); });
  PreparedRows narrow(k, cpu::ActivationFormat::kInt8, x.data(), 1, 1536);
  row(isa + " prepare INT8 1536", 1536 * 3, 1536 * 5,
      [&] { k.prepare(x.data(), 1536, narrow.view, 0); });
  PreparedRows perRow(k, cpu::ActivationFormat::kInt8Row, x.data(), 1, 1536);
  row(isa + " prepare INT8 per row 1536", 1536 * 3, 1536 * 5,
      [&] { k.prepare(x.data(), 1536, perRow.view, 0); });
  kernels::Int8Use use;
  perRow.view.fixedScale = 0.1F;
  perRow.view.use = &use;
  row(isa + " prepare INT8 fixed scale 1536", 1536 * 3, 1536 * 5,
      [&] { k.prepare(x.data(), 1536, perRow.view, 0); });
  Floats angles(64, 0.5F);
  row(isa + " rope of a head of 64", 64 * 3, 64 * 8,
      [&] { k.rope(y.data(), angles.data(), angles.data(), 64, false); });
  std::vector<std::byte> pool(1 << 16);
  const std::int32_t table[] = {0, 1, 2, 3};
  for (bool int8 : {false, true}) {
    const cpu::KvHead kv{pool.data(), cpu::kvHeadBytes(64, 16, int8), 0, table, 16, 64, int8};
    row(isa + (int8 ? " store K and V INT8" : " store K and V FP16"), 128, 128 * 4,
        [&] { k.kvStore(kv, 5, x.data(), weight.data()); });
  }
}

/// What compare.py prints beside its ratios, as JSON.
int probes(int threads) {
  const engine::PeakRate int8 = engine::probeInt8Peak(threads);
  const engine::PeakRate bf16 = engine::probeBf16Peak(threads);
  std::printf(
      "{\"isa\": \"%s\", \"read_gbps\": %.2f, \"int8_gops\": %.1f, \"int8_instruction\": \"%s\", "
      "\"bf16_gflops\": %.1f, \"bf16_instruction\": \"%s\"}\n",
      cpu::nameOf(cpu::bestIsa()), engine::probeReadBandwidth(threads) * 1e-9,
      int8.operationsPerSecond * 1e-9, int8.instruction.c_str(), bf16.operationsPerSecond * 1e-9,
      bf16.instruction.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--probes") == 0) return probes(std::atoi(argv[2]));
  for (int i = 1; i < argc; ++i) g_words.emplace_back(argv[i]);
  std::printf("%s, one thread\n", engine::processorName().c_str());
  peaks();
  for (cpu::Isa isa : {cpu::Isa::kAvx512, cpu::Isa::kAvx2, cpu::Isa::kPortable}) {
    if (!cpu::isSupported(isa)) continue;
    const cpu::CpuKernels& k = cpu::kernelsFor(isa);
    rows(k);
    products(k);
    attention(k);
  }
}

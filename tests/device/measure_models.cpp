#include <numeric>
#include <stdexcept>

#include "tests/device/measures.h"
#include "tests/device/stopwatch.h"
#include "tests/device/synthetic_model.h"

namespace vitrine::device {

using engine::BatchSequence;
using engine::BlockId;
using engine::KvShape;
using engine::KvType;
using engine::TokenId;
using engine::WeightMode;
using engine::WeightPrecision;

namespace {

constexpr int kBlockSize = 16;

/// One conversation on a synthetic model.
class Chat {
 public:
  Chat(const Shape& shape, const WeightPrecision& precision, int positions)
      : m_model(shape, precision) {
    KvShape kv;
    kv.nBlocks = (positions + kBlockSize - 1) / kBlockSize;
    kv.nKvHeads = shape.config.nKvHeads;
    if (auto made = m_model.backend().configureCache(kv); !made) {
      throw std::runtime_error(made.error().message);
    }
    m_table.resize(static_cast<std::size_t>(kv.nBlocks));
    std::iota(m_table.begin(), m_table.end(), 0);
  }

  /// Computes `count` tokens from a position on; the best token of the last one is brought back.
  void compute(int position, int count) {
    const std::vector<TokenId> tokens(static_cast<std::size_t>(count), 7);
    BatchSequence sequence;
    sequence.tokens = tokens;
    sequence.firstPosition = position;
    sequence.blockTable =
        std::span(m_table).first(static_cast<std::size_t>((position + count - 1) / kBlockSize + 1));
    sequence.best = 1;
    auto logits = m_model.backend().forward({&sequence, 1});
    if (!logits) throw std::runtime_error(logits.error().message);
  }

  /// Seconds of one decode step at a depth.
  double decodeSeconds(int depth, int steps, int repeats) {
    compute(depth, 1);  // loads, then captures
    compute(depth, 1);
    return medianSeconds(repeats,
                         [&] {
                           for (int i = 0; i < steps; ++i) compute(depth + i, 1);
                         }) /
           steps;
  }

  SyntheticModel& model() { return m_model; }
  /// Bytes that a decode step must read.
  double bytesAt(int depth) const {
    const engine::ModelConfig& c = m_model.shape().config;
    const double kv = 2.0 * c.nLayers * c.kvDim() * 2 * depth;
    return static_cast<double>(m_model.weightBytesPerToken()) + kv;
  }

 private:
  SyntheticModel m_model;
  std::vector<BlockId> m_table;
};

WeightPrecision precisionOf(WeightMode mode) {
  WeightPrecision precision;
  precision.weights = mode;
  return precision;
}

/// INT8 weights with one scale a row, and activations of INT8 or FP16.
WeightPrecision perChannel(engine::ActivationMode activations) {
  WeightPrecision precision = precisionOf(WeightMode::kInt8);
  precision.weightScales = engine::WeightScales::kChannel;
  precision.activations = activations;
  return precision;
}

std::string nameOf(const WeightPrecision& p) {
  if (p.weights != WeightMode::kInt8) return " FP16";
  const std::string scales = p.weightScales == engine::WeightScales::kGroup
                                 ? " in groups of " + std::to_string(p.groupSize)
                                 : " per channel";
  return (p.activations == engine::ActivationMode::kInt8 ? " W8A8" : " W8A16") + scales;
}

Measure decode(const char* id, const Shape& shape, const WeightPrecision& precision, double goal,
               const BenchOptions& options, const Limits& limits) {
  const int steps = options.tiny ? 2 : 64;
  Chat chat(shape, precision, 2 * steps + 16);
  const double seconds = chat.decodeSeconds(1, steps, options.repeats);
  const double rate = chat.bytesAt(steps / 2) / seconds;
  Measure m;
  m.id = id;
  m.what = "decode " + shape.name + nameOf(precision);
  m.value = rate / limits.readBytesPerSecond;
  m.unit = "of probe";
  m.goal = goal;
  m.detail = text("%.1f tokens/s, %.0f GB/s", 1 / seconds, rate / 1e9);
  return m;
}

double flopsOf(const engine::ModelConfig& c, int tokens) {
  const double layer = static_cast<double>(c.dModel) * (c.qDim() + 2 * c.kvDim()) +
                       static_cast<double>(c.qDim()) * c.dModel + 3.0 * c.dModel * c.dFfn;
  const double attention = 2.0 * c.qDim() * tokens / 2;  // causal: half of the pairs
  return 2.0 * tokens * c.nLayers * (layer + attention) +
         2.0 * static_cast<double>(c.dModel) * c.vocabSize;
}

Measure prefill(const Shape& shape, const BenchOptions& options, const Limits& limits) {
  const int tokens = options.tiny ? 40 : 2048;
  Chat chat(shape, precisionOf(WeightMode::kFp16), tokens);
  const double seconds = medianSeconds(options.repeats, [&] { chat.compute(0, tokens); });
  const double rate = flopsOf(shape.config, tokens) / seconds;
  Measure m;
  m.id = "G8";
  m.what = "prefill " + std::to_string(tokens) + ", " + shape.name + " FP16";
  m.value = rate / limits.fp16FlopsPerSecond;
  m.unit = "of cuBLAS";
  m.goal = 0.65;
  m.detail = text("%.0f tokens/s, %.1f TFLOP/s", tokens / seconds, rate / 1e12);
  return m;
}

Measure graphGain(const Shape& shape, const BenchOptions& options) {
  const int steps = options.tiny ? 2 : 64;
  Chat chat(shape, precisionOf(WeightMode::kFp16), 2 * steps + 16);
  const double with = chat.decodeSeconds(1, steps, options.repeats);
  chat.model().backend().graphs().setEnabled(false);
  const double without = chat.decodeSeconds(1, steps, options.repeats);
  Measure m;
  m.id = "G10";
  m.what = "decode " + shape.name + ", CUDA graph on / off";
  m.value = without / with;
  m.unit = "x";
  m.goal = 1.3;
  m.detail = text("%.3f ms on, %.3f ms off", with * 1e3, without * 1e3);
  return m;
}

Measure cachedTurn(const Shape& shape, const BenchOptions& options) {
  const int cached = options.tiny ? 48 : 8192;
  const int fresh = options.tiny ? 8 : 64;
  const int chunk = 512;
  Chat chat(shape, precisionOf(WeightMode::kFp16), cached + fresh);
  const auto whole = [&] {
    for (int done = 0; done < cached + fresh; done += chunk) {
      chat.compute(done, std::min(chunk, cached + fresh - done));
    }
  };
  const double all = medianSeconds(1, whole);
  const double rest = medianSeconds(options.repeats, [&] { chat.compute(cached, fresh); });
  Measure m;
  m.id = "G12";
  m.what = "first token, " + std::to_string(cached) + " cached + " + std::to_string(fresh) + ", " +
           shape.name;
  m.value = all / rest;
  m.unit = "x faster";
  m.goal = 30;
  m.detail = text("%.1f ms against %.1f ms", rest * 1e3, all * 1e3);
  return m;
}

}  // namespace

std::vector<Measure> measureModels(const BenchOptions& options, const Limits& limits) {
  const Shape small = options.tiny ? shapeTiny() : shape05B();
  const Shape middle = options.tiny ? shapeTiny() : shape1B();
  const Shape large = options.tiny ? shapeTiny() : shape8B();
  std::vector<Measure> all;
  const WeightPrecision fp16 = precisionOf(WeightMode::kFp16);
  const WeightPrecision int8 = precisionOf(WeightMode::kInt8);
  WeightPrecision wide = int8;
  wide.groupSize = 128;
  all.push_back(decode("G1", large, fp16, 0.75, options, limits));
  all.push_back(decode("G2", large, int8, 0.68, options, limits));
  all.push_back(decode("G2", large, wide, 0.68, options, limits));
  all.push_back(
      decode("G2", large, perChannel(engine::ActivationMode::kFp16), 0.68, options, limits));
  all.push_back(
      decode("G2", large, perChannel(engine::ActivationMode::kInt8), 0.68, options, limits));
  all.push_back(decode("G3", middle, fp16, 0.55, options, limits));
  all.push_back(decode("G3", middle, int8, 0.45, options, limits));
  all.push_back(decode("G4", small, fp16, 0.40, options, limits));
  all.push_back(prefill(large, options, limits));
  all.push_back(graphGain(small, options));
  all.push_back(cachedTurn(large, options));
  return all;
}

}  // namespace vitrine::device

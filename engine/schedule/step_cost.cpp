#include "engine/schedule/step_cost.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace vitrine::engine {
namespace {

// Terms of the model, in the order of a Vector.
enum Term { kStep, kHead, kLogitRow, kRow1, kRow4, kRow16, kRow64, kPrefillRead, kDecodeRead };
constexpr std::array<double, 5> kKnots{1, 4, 16, 64, 1e9};  // rows where the slope may change

// Relative, one sigma. The first step fixes the scale; how its parts divide is then still open.
constexpr double kNoise = 0.08;       // of a step, over and over
constexpr double kNoiseMs = 0.02;     // clock and thread wake-ups
constexpr double kStartScale = 0.3;   // of all terms together
constexpr double kStartRows = 0.6;    // of the slopes together
constexpr double kStartOwn = 0.35;    // of each term
constexpr double kDriftScale = 0.03;  // in kDriftMs: the machine as a whole
constexpr double kDriftOwn = 0.003;   // a step: each term
constexpr double kDriftMs = 100;
constexpr double kBelievable = 3;  // sigmas; what is beyond counts as if it were there

}  // namespace

void StepWork::add(int tokens, int firstPosition, bool logits) {
  const double n = tokens;
  const double reads = n * firstPosition + n * (n + 1) / 2;
  rows += tokens;
  logitRows += logits ? 1 : 0;
  (tokens == 1 ? decodeReads : prefillReads) += reads;
}

void StepWork::add(const StepWork& other) {
  rows += other.rows;
  logitRows += other.logitRows;
  prefillReads += other.prefillReads;
  decodeReads += other.decodeReads;
}

StepCost::Proportions StepCost::Proportions::of(const ModelConfig& model) {
  const double d = model.dModel, q = model.qDim(), kv = model.kvDim(), ffn = model.dFfn;
  Proportions proportions;
  proportions.layers = model.nLayers * (2 * d * q + 2 * d * kv + 3 * d * ffn);
  proportions.head = d * model.vocabSize;
  proportions.attention = 2.0 * model.nLayers * q;
  return proportions;
}

// Shares of the work that a CPU of today was seen to need; the first steps correct them.
StepCost::StepCost(const Proportions& p) {
  m_usual[kStep] = 0.8 * p.layers;
  m_usual[kHead] = 0.7 * p.head;
  m_usual[kLogitRow] = 0.3 * p.head;
  m_usual[kRow1] = 0.3 * p.layers;
  m_usual[kRow4] = 0.2 * p.layers;
  m_usual[kRow16] = m_usual[kRow64] = 0.18 * p.layers;
  m_usual[kPrefillRead] = 0.3 * p.attention;
  m_usual[kDecodeRead] = 0.6 * p.attention;
}

StepCost::StepCost() : StepCost(Proportions{}) {}

StepCost::Vector StepCost::termsOf(const StepWork& work) {
  Vector terms{};
  terms[kStep] = 1;
  terms[kHead] = work.logitRows > 0 ? 1 : 0;
  terms[kLogitRow] = work.logitRows;
  for (std::size_t i = 0; i + 1 < kKnots.size(); ++i) {
    terms[kRow1 + i] = std::clamp<double>(work.rows - kKnots[i], 0, kKnots[i + 1] - kKnots[i]);
  }
  terms[kPrefillRead] = work.prefillReads;
  terms[kDecodeRead] = work.decodeReads;
  return terms;
}

void StepCost::begin(const Vector& terms, double milliseconds) {
  double shape = 0;
  for (int i = 0; i < kTerms; ++i) shape += terms[i] * m_usual[i];
  const double scale = std::max(milliseconds, 1e-4) / shape;
  for (double& usual : m_usual) usual *= scale;
  m_cost = m_usual;
  const auto isRow = [](int term) { return term >= kRow1 && term <= kRow64; };
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) {
      const double share = kStartScale * kStartScale +
                           (isRow(i) && isRow(j) ? kStartRows * kStartRows : 0) +
                           (i == j ? kStartOwn * kStartOwn : 0);
      m_spread[i][j] = share * m_cost[i] * m_cost[j];
    }
  }
}

/// While a step runs the machine may become slower or faster. By time, not by step: else an answer
/// of many short steps would make the cost of prompts follow what was only seen of single rows.
void StepCost::drift(double milliseconds) {
  const double passed = std::clamp(milliseconds / kDriftMs, 0.0, 1.0);
  for (int i = 0; i < kTerms; ++i) {
    for (int j = 0; j < kTerms; ++j) {
      m_spread[i][j] += passed * kDriftScale * kDriftScale * m_cost[i] * m_cost[j];
    }
    const double size = std::max(m_cost[i], m_usual[i]);
    if (m_spread[i][i] < kStartOwn * kStartOwn * size * size) {
      m_spread[i][i] += kDriftOwn * kDriftOwn * size * size;
    }
  }
}

void StepCost::learn(const StepWork& work, double milliseconds) {
  VITRINE_CHECK(work.rows > 0, "a step computes something");
  const Vector terms = termsOf(work);
  if (m_steps++ == 0) {
    begin(terms, milliseconds);
    return;
  }
  drift(milliseconds);
  double predicted = 0, variance = 0;
  Vector gain{};
  for (int i = 0; i < kTerms; ++i) {
    predicted += terms[i] * m_cost[i];
    for (int j = 0; j < kTerms; ++j) gain[i] += m_spread[i][j] * terms[j];
  }
  for (int i = 0; i < kTerms; ++i) variance += gain[i] * terms[i];
  const double noise = kNoise * predicted + kNoiseMs;
  variance += noise * noise;
  const double most = kBelievable * std::sqrt(variance);
  const double error = std::clamp(milliseconds - predicted, -most, most);
  for (int i = 0; i < kTerms; ++i) {
    m_cost[i] = std::max(0.0, m_cost[i] + gain[i] * error / variance);
    for (int j = 0; j < kTerms; ++j) m_spread[i][j] -= gain[i] * gain[j] / variance;
  }
}

void StepCost::learnSampling(double milliseconds) {
  // A mean at first, then one that forgets; a stall counts as at most twice the usual.
  const double share = std::max(1.0 / static_cast<double>(++m_samples), 0.05);
  const double seen =
      m_samples > 8 ? std::min(milliseconds, 2 * m_samplingMs + kNoiseMs) : milliseconds;
  m_samplingMs += share * (seen - m_samplingMs);
}

double StepCost::predictMs(const StepWork& work) const {
  const Vector terms = termsOf(work);
  double milliseconds = 0;
  for (int i = 0; i < kTerms; ++i) milliseconds += terms[i] * m_cost[i];
  return milliseconds;
}

double StepCost::predictPrefillMs(int fromPosition, int tokens, int chunk) const {
  double milliseconds = 0;
  for (int done = 0; done < tokens;) {
    const int here = std::min(std::max(1, chunk), tokens - done);
    StepWork work;
    work.add(here, fromPosition + done, false);
    milliseconds += predictMs(work);
    done += here;
  }
  return milliseconds;
}

StepCost& StepCosts::use(const std::string& key, const StepCost::Proportions& proportions) {
  m_current = &m_costs.try_emplace(key, proportions).first->second;
  return *m_current;
}

StallCause stallCause(const StepTimes& times, int othersPrefillTokens, int othersTokens) {
  const bool isStall = times.actualMs > 1.5 * times.expectedMs + 1.0;
  if (othersTokens == 0) return isStall ? StallCause::kSystem : StallCause::kNone;
  if (times.actualMs <= 1.2 * times.aloneMs + 0.2) return StallCause::kNone;
  const double byOthers = times.expectedMs - times.aloneMs;
  if (isStall && times.actualMs - times.expectedMs > byOthers) return StallCause::kSystem;
  return othersPrefillTokens > 0 ? StallCause::kOthersPrefill : StallCause::kLargerBatch;
}

}  // namespace vitrine::engine

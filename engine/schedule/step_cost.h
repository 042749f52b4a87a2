#pragma once

#include <array>
#include <map>
#include <string>

#include "engine/engine_types.h"

namespace vitrine::engine {

/// What a step has to do, as far as its time depends on it.
struct StepWork {
  int rows = 0;             ///< positions computed, of prompts and of answers
  int logitRows = 0;        ///< positions whose logits are wanted
  double prefillReads = 0;  ///< positions that attention reads, summed over the rows of prompts
  double decodeReads = 0;   ///< the same over single rows

  void add(int tokens, int firstPosition, bool logits);
  void add(const StepWork& other);
};

/// Predicts how long a step takes, learned from this process's own steps.
///
/// The time is modelled as a fixed part (the weights are read once), a part for the output head, a
/// slope per row that may change at 4, 16 and 64 rows (from bound by memory to bound by
/// computing), and a part per position that attention reads. The coefficients are followed by a
/// Kalman filter (recursive least squares, weighted by the size of the step): a machine that gets
/// slower as a whole moves them together, and a step that took much longer than can be believed
/// is taken for a stall and counts only in part. Inference thread only.
class StepCost final {
 public:
  /// Multiply-adds, to begin with the right proportions: of one row in the layers, of one row in
  /// the output head, of one row with one position in attention.
  struct Proportions {
    double layers = 1e8, head = 2e7, attention = 3e4;
    static Proportions of(const ModelConfig& model);
  };

  StepCost();
  explicit StepCost(const Proportions& proportions);

  void learn(const StepWork& work, double milliseconds);
  /// Drawing a token from a row of logits, and turning it into text.
  void learnSampling(double milliseconds);

  /// Whether a step was measured.
  bool isReady() const { return m_steps > 0; }
  /// Requires: isReady().
  double predictMs(const StepWork& work) const;
  double samplingMs() const { return m_samplingMs; }
  /// Of a sequence alone, in chunks; without its last row's logits. Requires: isReady().
  double predictPrefillMs(int fromPosition, int tokens, int chunk) const;

 private:
  static constexpr int kTerms = 9;
  using Vector = std::array<double, kTerms>;

  static Vector termsOf(const StepWork& work);
  void begin(const Vector& terms, double milliseconds);
  void drift(double milliseconds);

  Vector m_usual{};                       // the proportions, scaled by the first step
  Vector m_cost{};                        // milliseconds a unit of each term
  std::array<Vector, kTerms> m_spread{};  // covariance of m_cost
  long m_steps = 0;
  double m_samplingMs = 0;
  long m_samples = 0;
};

/// One StepCost for each way of running that was used; going back to one finds what it had learned.
class StepCosts final {
 public:
  StepCosts() = default;
  StepCosts(const StepCosts&) = delete;
  StepCosts& operator=(const StepCosts&) = delete;

  /// From now on `key` is what runs.
  StepCost& use(const std::string& key, const StepCost::Proportions& proportions);
  StepCost& current() { return *m_current; }
  const StepCost& current() const { return *m_current; }

 private:
  std::map<std::string, StepCost> m_costs{{"", StepCost()}};
  StepCost* m_current = &m_costs.begin()->second;
};

/// What made a step of `actualMs` long for one of its sequences, which would have taken `aloneMs`
/// by itself; `expectedMs` was foretold for the whole step.
struct StepTimes {
  double aloneMs = 0, expectedMs = 0, actualMs = 0;
};
StallCause stallCause(const StepTimes& times, int othersPrefillTokens, int othersTokens);

}  // namespace vitrine::engine

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/backend.h"

namespace vitrine::engine::cuda {

/// A batch laid out for the device: its rows one after another, cut into passes that go through the
/// layers together. Within a pass, rows of few-token sequences come first: their attention is that
/// of decode, one launch for all of them. Host memory; reused from step to step.
class StepPlan final {
 public:
  /// Most rows of a pass.
  static constexpr int kPassRows = 512;
  /// Sequences with at most so many tokens in a pass attend as in decode, row by row: their history
  /// is read once a row, but all of the device works on it.
  static constexpr int kDecodeTokens = 4;
  /// Rows of the largest decode batch that runs as a graph.
  static constexpr int kGraphRows = 16;

  /// Rows of one sequence whose attention is that of prefill.
  struct Prefill {
    int firstRow = 0;  ///< in the pass
    int count = 0;
    int firstPosition = 0;
  };
  struct Pass {
    int firstRow = 0;  ///< in the step
    int rows = 0;
    int decodeRows = 0;    ///< the first ones
    int longest = 0;       ///< positions of the longest history among them, the row's included
    int firstPrefill = 0;  ///< in prefills()
    int nPrefills = 0;
    int firstWanted = 0;  ///< in wanted()
    int nWanted = 0;
  };

  void make(std::span<const BatchSequence> batch);

  std::span<const Pass> passes() const { return m_passes; }
  std::span<const Prefill> prefills(const Pass& pass) const {
    return std::span(m_prefills)
        .subspan(static_cast<std::size_t>(pass.firstPrefill),
                 static_cast<std::size_t>(pass.nPrefills));
  }
  int rows() const { return static_cast<int>(tokens.size()); }
  int widestPass() const;
  /// One new token of each of at most kGraphRows sequences, all logits wanted.
  bool isDecode() const { return m_decode; }

  std::vector<std::int32_t> tokens, positions;  // [rows]
  std::vector<std::int32_t> sequences;          // [rows] index of the batch entry
  std::vector<std::int32_t> wanted;             // rows of their pass, in the order of the batch
  std::vector<std::int32_t> best;               // [wanted] BatchSequence::best of each

 private:
  struct Slice {
    int sequence = 0;
    int first = 0;  ///< token of the sequence
    int count = 0;
    int wanted = 0;  ///< the last so many
  };
  void closePass(std::span<const BatchSequence> batch);

  std::vector<Pass> m_passes;
  std::vector<Prefill> m_prefills;
  std::vector<Slice> m_slices;   // of the pass being made
  std::vector<int> m_firstRows;  // of each slice, in the pass
  bool m_decode = false;
};

}  // namespace vitrine::engine::cuda

#include "engine/backend/cuda/step_plan.h"

#include <algorithm>

namespace vitrine::engine::cuda {

void StepPlan::make(std::span<const BatchSequence> batch) {
  for (auto* list : {&tokens, &positions, &sequences, &wanted, &best}) list->clear();
  m_passes.clear();
  m_prefills.clear();
  m_slices.clear();
  m_decode = !batch.empty() && batch.size() <= static_cast<std::size_t>(kGraphRows);
  int room = kPassRows;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const BatchSequence& s = batch[i];
    const int total = static_cast<int>(s.tokens.size());
    m_decode = m_decode && total == 1 && s.logitRows == 1;
    for (int first = 0; first < total;) {
      const int count = std::min(room, total - first);
      const int end = first + count;
      m_slices.push_back(
          {static_cast<int>(i), first, count, std::clamp(end - (total - s.logitRows), 0, count)});
      room -= count;
      first = end;
      if (room > 0) continue;
      closePass(batch);
      room = kPassRows;
    }
  }
  if (!m_slices.empty()) closePass(batch);
}

void StepPlan::closePass(std::span<const BatchSequence> batch) {
  Pass pass;
  pass.firstRow = rows();
  pass.firstPrefill = static_cast<int>(m_prefills.size());
  pass.firstWanted = static_cast<int>(wanted.size());
  m_firstRows.assign(m_slices.size(), 0);
  for (const bool decode : {true, false}) {
    for (std::size_t i = 0; i < m_slices.size(); ++i) {
      const Slice& slice = m_slices[i];
      if ((slice.count <= kDecodeTokens) != decode) continue;
      const BatchSequence& s = batch[static_cast<std::size_t>(slice.sequence)];
      const int position = s.firstPosition + slice.first;
      m_firstRows[i] = pass.rows;
      for (int t = 0; t < slice.count; ++t) {
        tokens.push_back(s.tokens[static_cast<std::size_t>(slice.first + t)]);
        positions.push_back(position + t);
        sequences.push_back(slice.sequence);
      }
      if (decode) {
        pass.decodeRows += slice.count;
        pass.longest = std::max(pass.longest, position + slice.count);
      } else {
        m_prefills.push_back({pass.rows, slice.count, position});
      }
      pass.rows += slice.count;
    }
  }
  for (std::size_t i = 0; i < m_slices.size(); ++i) {
    const Slice& slice = m_slices[i];
    for (int t = slice.count - slice.wanted; t < slice.count; ++t) {
      wanted.push_back(m_firstRows[i] + t);
      best.push_back(batch[static_cast<std::size_t>(slice.sequence)].best);
    }
  }
  pass.nPrefills = static_cast<int>(m_prefills.size()) - pass.firstPrefill;
  pass.nWanted = static_cast<int>(wanted.size()) - pass.firstWanted;
  m_passes.push_back(pass);
  m_slices.clear();
}

int StepPlan::widestPass() const {
  int rows = 0;
  for (const Pass& pass : m_passes) rows = std::max(rows, pass.rows);
  return rows;
}

}  // namespace vitrine::engine::cuda

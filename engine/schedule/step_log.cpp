#include "engine/schedule/step_log.h"

#include <algorithm>

namespace vitrine::engine {

StepLog::Step& StepLog::add() {
  Step& step = m_ring[m_count % kKept];
  step.number = ++m_count;
  step.rows.clear();
  return step;
}

std::vector<StepRecord> StepLog::records() const {
  std::vector<StepRecord> records;
  const std::uint64_t first = m_count - std::min<std::uint64_t>(m_count, kKept);
  records.reserve(static_cast<std::size_t>(m_count - first));
  for (std::uint64_t i = first; i < m_count; ++i) {
    const Step& step = m_ring[i % kKept];
    StepRecord& record = records.emplace_back();
    record.number = step.number;
    record.start = step.start;
    record.milliseconds = step.milliseconds;
    record.waiting = step.waiting;
    record.rows.reserve(step.rows.size());
    for (const Row& row : step.rows) {
      record.rows.push_back(StepRow{row.turn, row.name->conversation, row.name->branch,
                                    row.prefillTokens, row.decodeTokens});
    }
  }
  return records;
}

}  // namespace vitrine::engine

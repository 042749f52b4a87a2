#include "app/chat/message_positions.h"

#include <algorithm>

namespace vitrine::app {

int rowAtPosition(const std::vector<MessageRow>& rows, int position) {
  if (position < 0) return -1;
  const auto count = static_cast<int>(rows.size());
  const auto metricsOf = [&](int row) -> const TurnMetrics& {
    return rows[static_cast<std::size_t>(row)].metrics;
  };
  // Where a turn left out old messages, what it kept of them moved: its own question stands for all
  // that lies before its answer.
  int first = 0;
  for (int row = 0; row < count; ++row) {
    if (metricsOf(row).report.droppedMessages > 0) first = row;
  }
  int last = -1;
  for (int row = first; row < count; ++row) {
    const TurnMetrics& metrics = metricsOf(row);
    if (!metrics.known()) continue;
    if (position < metrics.report.promptTokens) return std::max(0, row - 1);
    if (position < metrics.contextUsed()) return row;
    last = row;
  }
  return last;
}

}  // namespace vitrine::app

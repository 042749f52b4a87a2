#include <utility>

#include "engine/schedule/scheduler.h"

// What a scheduler does with the archive of conversations on disk.

namespace vitrine::engine {

void Scheduler::setArchive(KvArchive* archive) {
  m_archive = archive;
  if (archive == nullptr) return;
  archive->setPrediction([this](int from, int tokens) { return predictPrefillMs(from, tokens); });
}

/// Where the disk holds more of a prompt than the pool, and reading is faster than computing, the
/// turn reads first; its restore is then set.
void Scheduler::lookOnDisk(Turn& turn) {
  if (m_archive == nullptr) return;
  auto found = m_archive->find(turn.sequence, turn.request().conversation);
  if (found && !found->file) {
    if (!turn.wasAdmitted()) turn.restored(found->report);
  } else {
    turn.restore = std::move(found);
  }
}

/// Reads a slice for each turn that waits for the disk; the others go on meanwhile.
void Scheduler::restoreSlices() {
  for (TurnPointer& turn : m_running) {
    if (!turn->restore) continue;
    if (m_archive != nullptr && m_archive->advance(*turn->restore, turn->sequence)) continue;
    const auto restore = std::move(turn->restore);
    // What could not be read is computed.
    restore->report.tokens -= restore->untilTokens - turn->sequence.computed;
    restore->report.restored = restore->report.tokens > 0;
    if (!turn->wasAdmitted()) turn->restored(restore->report);
    const std::string& conversation = turn->request().conversation;
    // After a new start the disk remembers what the conversation had.
    if (!m_records.history.knows(conversation))
      m_records.history.record(conversation, restore->cachedTokens, {});
    announce(*turn, restore->matching);
  }
}

}  // namespace vitrine::engine

#include "ui/inspector/memory_ledger.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>

namespace vitrine::ui {
namespace {

struct ProcessMemory {
  std::uint64_t anonymous = 0;   ///< heap, stacks, big allocations
  std::uint64_t modelFile = 0;   ///< mapped pages of the model
  std::uint64_t otherFiles = 0;  ///< code, libraries, fonts, shared memory
  bool known = false;
};

std::uint64_t kilobytes(std::string_view line) {
  const auto first = line.find_first_of("0123456789");
  std::uint64_t value = 0;
  if (first != std::string_view::npos) {
    std::from_chars(line.data() + first, line.data() + line.size(), value);
  }
  return value * 1024;
}

// /proc/self/smaps: for each mapping a line "from-to rights offset device inode path", then
// "Rss: n kB", "Anonymous: n kB" and others.
ProcessMemory readProcess(const std::string& modelPath) {
  ProcessMemory memory;
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool isModel = false;
  std::uint64_t rss = 0;
  while (std::getline(maps, line)) {
    const bool header =
        !line.empty() && (std::isdigit(line[0]) || (line[0] >= 'a' && line[0] <= 'f'));
    if (header) {
      isModel = !modelPath.empty() && line.size() > modelPath.size() &&
                line.compare(line.size() - modelPath.size(), modelPath.size(), modelPath) == 0;
    } else if (line.rfind("Rss:", 0) == 0) {
      rss = kilobytes(line);
      memory.known = true;
    } else if (line.rfind("Anonymous:", 0) == 0) {
      const std::uint64_t anonymous = kilobytes(line);
      const std::uint64_t file = rss > anonymous ? rss - anonymous : 0;
      memory.anonymous += anonymous;
      (isModel ? memory.modelFile : memory.otherFiles) += file;
    }
  }
  return memory;
}

}  // namespace

MemoryWatch::MemoryWatch() {
  m_baselineAnonymous = readProcess({}).anonymous;
}

MemoryLedger MemoryWatch::read(const engine::EngineSnapshot& snapshot,
                               const std::string& modelPath) {
  // The kernel names the file itself where we opened a link to it.
  std::error_code ignored;
  const auto canonical = std::filesystem::weakly_canonical(modelPath, ignored);
  const ProcessMemory process = readProcess(modelPath.empty() ? modelPath : canonical.string());
  // Still without a model: the program alone, its window drawn by now.
  if (snapshot.state == engine::EngineState::kEmpty) m_baselineAnonymous = process.anonymous;

  MemoryLedger ledger;
  ledger.known = process.known;
  ledger.rss = process.anonymous + process.modelFile + process.otherFiles;
  const engine::BackendMemory& backend = snapshot.memory;
  ledger.weights = backend.weightBytes;
  ledger.modelFile = process.modelFile;
  const std::uint64_t blocks =
      std::uint64_t(snapshot.blocksUsed) + std::uint64_t(snapshot.blocksCached);
  ledger.kvUsed = blocks * snapshot.bytesPerBlock;
  ledger.kvFree =
      backend.kvAllocatedBytes > ledger.kvUsed ? backend.kvAllocatedBytes - ledger.kvUsed : 0;
  ledger.workspace = backend.workspaceBytes;
  ledger.program = process.otherFiles + std::min(m_baselineAnonymous, process.anonymous);
  const std::uint64_t explained =
      ledger.weights + ledger.modelFile + ledger.kvUsed + ledger.workspace + ledger.program;
  const std::uint64_t rest = ledger.rss > explained ? ledger.rss - explained : 0;
  ledger.kvFreeResident = std::min(rest, ledger.kvFree);
  ledger.unexplained = rest - ledger.kvFreeResident;
  return ledger;
}

}  // namespace vitrine::ui

#include "engine/measure/process_memory.h"

#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "engine/measure/machine.h"

namespace vitrine::engine {
namespace {

constexpr std::uint64_t kHeapAlignment = std::uint64_t{64} << 20;  // HEAP_MAX_SIZE of glibc
constexpr std::uint64_t kLargestGuard = 64 << 10;

std::uint64_t kilobytes(std::string_view line) {
  const auto first = line.find_first_of("0123456789");
  std::uint64_t value = 0;
  if (first != std::string_view::npos) {
    std::from_chars(line.data() + first, line.data() + line.size(), value);
  }
  return value * 1024;
}

struct Mapping {
  std::uint64_t from = 0, to = 0;
  std::string rights, name;
  std::uint64_t rss = 0, anonymous = 0;
  bool known = false;  // a header was read

  std::uint64_t bytes() const { return to - from; }
  bool isFile() const { return !name.empty() && name.front() == '/'; }
};

/// "7f1c2a000000-7f1c2a021000 rw-p 00000000 00:00 0    [heap]"
bool readHeader(std::string_view line, Mapping& mapping) {
  const auto dash = line.find('-');
  const auto space = line.find(' ');
  if (dash == std::string_view::npos || space == std::string_view::npos || dash > space)
    return false;
  Mapping made;
  const auto from = std::from_chars(line.data(), line.data() + dash, made.from, 16);
  const auto to = std::from_chars(line.data() + dash + 1, line.data() + space, made.to, 16);
  if (from.ptr != line.data() + dash || to.ptr != line.data() + space) return false;
  made.rights = line.substr(space + 1, 4);
  std::string_view rest = line.substr(space + 1);
  for (int field = 0; field < 4; ++field) {  // rights, offset, device, inode
    const auto next = rest.find(' ');
    rest = next == std::string_view::npos ? std::string_view{} : rest.substr(next + 1);
  }
  const auto name = rest.find_first_not_of(' ');
  if (name != std::string_view::npos) made.name = rest.substr(name);
  made.known = true;
  mapping = std::move(made);
  return true;
}

/// Puts one mapping after the other where it belongs.
class Sorter {
 public:
  Sorter(const std::string& modelPath, std::uint64_t stackBytes,
         const std::vector<AddressRange>& variables)
      : m_modelPath(modelPath), m_stackBytes(stackBytes), m_variables(variables) {}

  void add(const Mapping& mapping) {
    const bool adjoins = m_before.known && m_before.to == mapping.from;
    const std::uint64_t file =
        mapping.rss > mapping.anonymous ? mapping.rss - mapping.anonymous : 0;
    memory.known = true;
    memory.mapped += mapping.rss;
    const bool isModel = !m_modelPath.empty() && mapping.name == m_modelPath;
    (isModel ? memory.modelFile : memory.otherFiles) += file;
    if (mapping.isFile()) {
      memory.programData += mapping.anonymous;
    } else if (has(mapping, "[heap]") || has(mapping, "[anon: glibc: malloc") ||
               (mapping.name.empty() && mapping.from % kHeapAlignment == 0 &&
                mapping.bytes() <= kHeapAlignment && mapping.rights.starts_with("rw"))) {
      memory.heaps += mapping.anonymous;
    } else if (has(mapping, "[stack") || has(mapping, "[anon: glibc: pthread stack")) {
      memory.stacks += mapping.anonymous;
    } else if (adjoins && m_before.rights.starts_with("---") && m_before.bytes() <= kLargestGuard &&
               mapping.rights.starts_with("rw") && mapping.bytes() <= m_stackBytes) {
      memory.stacks += mapping.anonymous;
    } else {
      const std::uint64_t data = std::min(mapping.anonymous, bytesOfVariables(mapping));
      memory.programData += data;
      memory.otherAnonymous += mapping.anonymous - data;
    }
    m_before = mapping;
  }

  ProcessMemory memory;

 private:
  static bool has(const Mapping& mapping, std::string_view beginning) {
    return std::string_view(mapping.name).starts_with(beginning);
  }

  std::uint64_t bytesOfVariables(const Mapping& mapping) const {
    std::uint64_t bytes = 0;
    for (const AddressRange& range : m_variables) {
      const std::uint64_t from = std::max(range.from, mapping.from);
      const std::uint64_t to = std::min(range.to, mapping.to);
      if (from < to) bytes += to - from;
    }
    return bytes;
  }

  const std::string& m_modelPath;
  std::uint64_t m_stackBytes;
  const std::vector<AddressRange>& m_variables;
  Mapping m_before;
};

std::uint64_t usualStackBytes() {
  std::uint64_t bytes = std::uint64_t{8} << 20;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) == 0) {
    std::size_t given = 0;
    if (pthread_attr_getstacksize(&attributes, &given) == 0 && given > 0) bytes = given;
    pthread_attr_destroy(&attributes);
  }
  return bytes;
}

}  // namespace

std::vector<AddressRange> zeroedVariables() {
  std::vector<AddressRange> ranges;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* out) {
        const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        const auto roundUp = [page](std::uint64_t at) { return (at + page - 1) / page * page; };
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& part = object->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || (part.p_flags & PF_W) == 0) continue;
          const std::uint64_t start = object->dlpi_addr + part.p_vaddr;
          const AddressRange range{roundUp(start + part.p_filesz), roundUp(start + part.p_memsz)};
          if (range.from < range.to) static_cast<std::vector<AddressRange>*>(out)->push_back(range);
        }
        return 0;
      },
      &ranges);
  return ranges;
}

ProcessMemory sortMappings(std::istream& smaps, const std::string& modelPath,
                           std::uint64_t stackBytes, const std::vector<AddressRange>& variables) {
  Sorter sorter(modelPath, stackBytes, variables);
  Mapping mapping;
  std::string line;
  while (std::getline(smaps, line)) {
    Mapping next;
    if (readHeader(line, next)) {
      if (mapping.known) sorter.add(mapping);
      mapping = std::move(next);
    } else if (line.starts_with("Rss:")) {
      mapping.rss = kilobytes(line);
    } else if (line.starts_with("Anonymous:")) {
      mapping.anonymous = kilobytes(line);
    }
  }
  if (mapping.known) sorter.add(mapping);
  return sorter.memory;
}

ProcessMemory readProcessMemory(const std::string& modelPath) {
  std::ifstream smaps("/proc/self/smaps");
  ProcessMemory memory = sortMappings(smaps, modelPath, usualStackBytes(), zeroedVariables());
  memory.rss = residentBytes();
  std::error_code ignored;
  for (auto task = std::filesystem::directory_iterator("/proc/self/task", ignored);
       task != std::filesystem::directory_iterator(); task.increment(ignored)) {
    ++memory.threads;
    if (ignored) break;
  }
  return memory;
}

AllocatorUse allocatorUse() {
  AllocatorUse use;
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  use.inHeaps = info.uordblks;
  use.freeInHeaps = info.fordblks;
  use.apart = info.hblkhd;
#endif
  return use;
}

}  // namespace vitrine::engine

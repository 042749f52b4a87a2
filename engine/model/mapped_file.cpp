#include "engine/model/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <system_error>

#include "engine/base/display_text.h"

namespace vitrine::engine {
namespace {

// What the signal handler knows of the living mappings. A slot is free while `begin` is 0.
struct Slot {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> lost{false};
};
constexpr std::size_t kSlots = 2048;  // files mapped at once; a split set has one a part
std::array<Slot, kSlots> g_slots;
std::mutex g_slotMutex;  // guards taking and giving back slots, and the handler's installation
struct sigaction g_previous = {};
std::uintptr_t g_pageBytes = 4096;

// Only async-signal-safe work: atomics that are lock-free, and the mmap system call.
void onBusError(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Slot& slot : g_slots) {
    const std::uintptr_t begin = slot.begin.load(std::memory_order_acquire);
    const std::uintptr_t end = slot.end.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= end) continue;
    const std::uintptr_t page = address & ~(g_pageBytes - 1);
    const int savedErrno = errno;
    // Everything from here to the end: a shrunk file has lost all of that, and one signal a page
    // would take long.
    void* zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = savedErrno;
    if (zeros == MAP_FAILED) break;
    slot.lost.store(true, std::memory_order_release);
    return;
  }
  if ((g_previous.sa_flags & SA_SIGINFO) != 0 && g_previous.sa_sigaction != nullptr) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN &&
             g_previous.sa_handler != nullptr) {
    g_previous.sa_handler(signal);
  } else {
    ::signal(SIGBUS, SIG_DFL);  // the faulting instruction runs again and ends the program
  }
}

void installHandlerOnce() {
  static bool installed = false;
  if (installed) return;
  installed = true;
  static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);
  g_pageBytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = onBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &g_previous);
}

int takeSlot(std::uintptr_t begin, std::size_t size) {
  const std::scoped_lock lock(g_slotMutex);
  installHandlerOnce();
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (g_slots[i].begin.load(std::memory_order_relaxed) != 0) continue;
    g_slots[i].lost.store(false, std::memory_order_relaxed);
    g_slots[i].end.store(begin + size, std::memory_order_release);
    g_slots[i].begin.store(begin, std::memory_order_release);
    return static_cast<int>(i);
  }
  return -1;
}

void giveBackSlot(int slot) {
  const std::scoped_lock lock(g_slotMutex);
  g_slots[static_cast<std::size_t>(slot)].begin.store(0, std::memory_order_release);
}

std::string errnoText(int error) {
  return std::generic_category().message(error);
}

struct FileDescriptor {
  int value = -1;
  ~FileDescriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) {
    const int error = errno;
    struct stat link = {};
    if (error == ENOENT && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
      return fail(ErrorCode::kNotFound, "{} is a link to a file that is not there",
                  displayPath(path));
    }
    const bool missing = error == ENOENT || error == ENOTDIR;
    return fail(missing ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot open {}: {}",
                displayPath(path), errnoText(error));
  }
  struct stat status = {};
  if (::fstat(file.value, &status) != 0) {
    return fail(ErrorCode::kIo, "cannot read {}: {}", displayPath(path), errnoText(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    return fail(ErrorCode::kInvalidFile, "{} is a folder; choose the model file in it",
                displayPath(path));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kInvalidFile, "{} is not a regular file", displayPath(path));
  }
  if (status.st_size == 0) {
    return fail(ErrorCode::kInvalidFile, "{} is empty (0 bytes); was its download interrupted?",
                displayPath(path));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value, 0);
  if (data == MAP_FAILED) {
    return fail(errno == ENOMEM ? ErrorCode::kOutOfMemory : ErrorCode::kIo,
                "cannot map {} ({} bytes): {}", displayPath(path), size, errnoText(errno));
  }
  const int slot = takeSlot(reinterpret_cast<std::uintptr_t>(data), size);
  if (slot < 0) {
    ::munmap(data, size);
    return fail(ErrorCode::kOutOfMemory, "cannot map {}: {} files are mapped already",
                displayPath(path), kSlots);
  }
  std::unique_ptr<MappedFile> mapped(new MappedFile);
  mapped->m_path = path;
  mapped->m_data = static_cast<const std::byte*>(data);
  mapped->m_size = size;
  mapped->m_slot = slot;
  return mapped;
}

MappedFile::~MappedFile() {
  if (m_slot >= 0) giveBackSlot(m_slot);
  if (m_data != nullptr) ::munmap(const_cast<std::byte*>(m_data), m_size);
}

bool MappedFile::lost() const {
  return g_slots[static_cast<std::size_t>(m_slot)].lost.load(std::memory_order_acquire);
}

}  // namespace vitrine::engine

#include "engine/cache/archive_catalog.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <system_error>
#include <vector>

#include <spdlog/spdlog.h>

namespace vitrine::engine {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kHashDigits = 16;
const char* const kExtension = ".kv";

std::string hashText(std::string_view text) {
  return fmt::format("{:016x}", archiveHash(text));
}

/// "0123456789abcdef-0123456789abcdef.kv"
bool isOurs(const std::string& name) {
  const auto isHex = [](std::string_view digits) {
    return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  };
  return name.size() == 2 * kHashDigits + 4 && name[kHashDigits] == '-' &&
         name.ends_with(kExtension) && isHex(std::string_view(name).substr(0, kHashDigits)) &&
         isHex(std::string_view(name).substr(kHashDigits + 1, kHashDigits));
}

/// Calls `what` for every snapshot in the folder; false if the folder cannot be read.
template <typename Function>
bool forEachFile(const fs::path& folder, Function what) {
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    what(it->path(), it->path().filename().string());
  }
  return !error;
}

void removeFile(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) spdlog::warn("cannot remove {}: {}", path.string(), error.message());
}

}  // namespace

fs::path ArchiveCatalog::pathOf(std::string_view conversation) const {
  return m_options.folder / (hashText(conversation) + "-" + hashText(m_settings) + kExtension);
}

void ArchiveCatalog::setLimit(std::uint64_t bytes) {
  m_options.limitBytes = bytes;
  makeRoom();
}

void ArchiveCatalog::open(std::string settings, int blockSize, std::uint64_t blockBytes) {
  m_settings = std::move(settings);
  m_blockSize = blockSize;
  m_blockBytes = blockBytes;
  m_entries.clear();
  m_bytes = 0;
  std::error_code error;
  if (!m_options.folder.parent_path().empty()) {
    fs::create_directories(m_options.folder.parent_path(), error);
  }
  if (mkdir(m_options.folder.c_str(), 0700) != 0 && errno != EEXIST) {
    spdlog::warn("KV is not kept on disk: cannot make {}: {}", m_options.folder.string(),
                 std::strerror(errno));
    return;
  }
  const bool read =
      forEachFile(m_options.folder, [&](const fs::path& path, const std::string& name) {
        if (isOurs(name)) {
          add(path);
        } else if (name.starts_with(kTemporaryPrefix) && isAbandoned(path)) {
          removeFile(path);
        }
      });
  if (!read) spdlog::warn("cannot read the folder {}", m_options.folder.string());
  makeRoom();
}

/// Opens a file that bears our name for the settings in force, and has what the name promises.
Result<std::shared_ptr<const ArchiveFile>> ArchiveCatalog::openChecked(const fs::path& path) {
  VITRINE_ASSIGN(auto file, ArchiveFile::open(path));
  const ArchiveHeader& header = file->header();
  if (header.settings != m_settings || header.blockBytes != m_blockBytes ||
      header.tree.blockSize() != m_blockSize) {
    return fail(ErrorCode::kUnsupported, "{} is of another model or other settings", path.string());
  }
  if (pathOf(header.conversation) != path) {
    return fail(ErrorCode::kUnsupported, "{} is of another conversation", path.string());
  }
  return file;
}

void ArchiveCatalog::add(const fs::path& path) {
  std::error_code error;
  Entry entry;
  entry.bytes = fs::file_size(path, error);
  if (!error) entry.used = fs::last_write_time(path, error);
  if (error) return;  // gone meanwhile, or no file
  const bool ofSettings =
      path.filename().string().substr(kHashDigits + 1, kHashDigits) == hashText(m_settings);
  if (ofSettings) {
    const auto file = openChecked(path);
    if (!file && file.error().code == ErrorCode::kInvalidFile) {
      failed(path, file.error());
      return;
    }
    if (file) {
      entry.conversation = (*file)->header().conversation;
      entry.prefillMsPerToken = (*file)->header().prefillMsPerToken;
      entry.tree = std::make_shared<ArchiveTree>((*file)->tree());
    } else {
      spdlog::warn("a KV snapshot is not used: {}", file.error().message);
    }
  }
  Entry& place = m_entries[path];
  m_bytes += entry.bytes - place.bytes;
  place = std::move(entry);
}

void ArchiveCatalog::failed(const fs::path& path, const Error& error) {
  spdlog::warn("a KV snapshot is not used: {}", error.message);
  if (error.code == ErrorCode::kInvalidFile) removeFile(path);
  if (const auto entry = m_entries.find(path); entry != m_entries.end()) {
    m_bytes -= entry->second.bytes;
    m_entries.erase(entry);
  }
}

ArchiveCatalog::Longest ArchiveCatalog::longest(std::span<const TokenId> prompt) const {
  Longest best;
  for (const auto& [path, entry] : m_entries) {
    if (!entry.tree) continue;
    const int tokens = entry.tree->match(prompt).tokens;
    if (tokens > best.tokens) best = {tokens, entry.prefillMsPerToken};
  }
  return best;
}

ArchiveCatalog::Found ArchiveCatalog::find(std::span<const TokenId> prompt,
                                           const std::string& conversation) {
  while (true) {
    const fs::path* best = nullptr;
    int bestTokens = 0;
    bool bestIsOwn = false;
    for (const auto& [path, entry] : m_entries) {
      if (!entry.tree) continue;
      const int tokens = entry.tree->match(prompt).tokens;
      const bool isOwn = entry.conversation == conversation;
      if (tokens > bestTokens || (tokens == bestTokens && tokens > 0 && isOwn && !bestIsOwn)) {
        best = &path;
        bestTokens = tokens;
        bestIsOwn = isOwn;
      }
    }
    if (best == nullptr) return {};
    auto file = openChecked(*best);
    if (file) {
      // Matched again: another process may have put a new file there.
      auto match = (*file)->tree().match(prompt);
      return {std::move(*file), std::move(match)};
    }
    failed(fs::path(*best), file.error());
  }
}

std::shared_ptr<const ArchiveFile> ArchiveCatalog::openFile(const std::string& conversation) {
  const fs::path path = pathOf(conversation);
  if (!m_entries.contains(path)) return nullptr;
  auto file = openChecked(path);
  if (file) return *file;
  failed(path, file.error());
  return nullptr;
}

int ArchiveCatalog::tokensOf(const std::string& conversation) const {
  const auto entry = m_entries.find(pathOf(conversation));
  return entry == m_entries.end() || !entry->second.tree ? 0 : entry->second.tree->tokens();
}

void ArchiveCatalog::written(const std::string& conversation) {
  add(pathOf(conversation));
  makeRoom();
}

void ArchiveCatalog::used(const ArchiveFile& file) {
  file.touch();
  if (const auto entry = m_entries.find(file.path()); entry != m_entries.end()) {
    entry->second.used = fs::file_time_type::clock::now();
  }
}

/// The least recently used files go until the rest fits.
void ArchiveCatalog::makeRoom() {
  while (m_bytes > m_options.limitBytes && !m_entries.empty()) {
    const auto oldest = std::min_element(
        m_entries.begin(), m_entries.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    spdlog::info("the KV archive is full: {} ({} bytes) makes room", oldest->first.string(),
                 oldest->second.bytes);
    removeFile(oldest->first);
    m_bytes -= oldest->second.bytes;
    m_entries.erase(oldest);
  }
}

void ArchiveCatalog::forget(const std::string& conversation) {
  removeConversations(m_options.folder, {conversation});
  const std::string prefix = hashText(conversation) + "-";
  std::erase_if(m_entries, [&](const auto& item) {
    if (!item.first.filename().string().starts_with(prefix)) return false;
    m_bytes -= item.second.bytes;
    return true;
  });
}

void ArchiveCatalog::removeAll() {
  removeAll(m_options.folder);
  m_entries.clear();
  m_bytes = 0;
}

void ArchiveCatalog::describe(EngineSnapshot& snapshot) const {
  snapshot.archiveBytes = m_bytes;
  snapshot.archiveLimitBytes = m_options.limitBytes;
  for (const auto& [path, entry] : m_entries) {
    if (!entry.tree) continue;
    snapshot.archived.push_back({entry.conversation, entry.tree->tokens(), entry.bytes});
  }
}

// ---------------------------------------------------------------- without an engine

void ArchiveCatalog::removeConversations(const fs::path& folder,
                                         const std::vector<std::string>& names) {
  std::set<std::string> hashes;
  for (const std::string& name : names) hashes.insert(hashText(name));
  std::vector<fs::path> gone;
  forEachFile(folder, [&](const fs::path& path, const std::string& file) {
    if (isOurs(file) && hashes.contains(file.substr(0, kHashDigits))) gone.push_back(path);
  });
  for (const fs::path& path : gone) removeFile(path);
}

void ArchiveCatalog::removeAll(const fs::path& folder) {
  std::vector<fs::path> gone;
  forEachFile(folder, [&](const fs::path& path, const std::string& file) {
    if (isOurs(file)) gone.push_back(path);
  });
  for (const fs::path& path : gone) removeFile(path);
}

std::uint64_t ArchiveCatalog::bytesIn(const fs::path& folder) {
  std::uint64_t bytes = 0;
  forEachFile(folder, [&](const fs::path& path, const std::string& file) {
    std::error_code error;
    const auto size = isOurs(file) ? fs::file_size(path, error) : 0;
    if (!error) bytes += size;
  });
  return bytes;
}

}  // namespace vitrine::engine

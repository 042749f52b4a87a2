#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/cache/archive_file.h"
#include "engine/engine_types.h"

namespace vitrine::engine {

/// The files of an archive's folder: which conversations are there for the settings in force, and
/// how much all files take, those of other models and settings too. Files are named
/// "<hash of the conversation>-<hash of the settings>.kv"; any other name is left alone, except
/// what a killed writer left behind. Nothing in the folder is trusted: a file that is damaged is
/// removed, one that does not belong here ignored, both with a line in the log. One thread.
class ArchiveCatalog final {
 public:
  explicit ArchiveCatalog(ArchiveOptions options) : m_options(std::move(options)) {}

  const ArchiveOptions& options() const { return m_options; }
  void setLimit(std::uint64_t bytes);

  /// Looks at the folder (made with mode 0700 where it is missing) for files of these settings.
  void open(std::string settings, int blockSize, std::uint64_t blockBytes);
  const std::string& settings() const { return m_settings; }
  std::uint64_t blockBytes() const { return m_blockBytes; }

  struct Longest {
    int tokens = 0;
    double prefillMsPerToken = 0;  ///< as the file says
  };
  /// The longest beginning of a prompt that some file holds, by what is known of the files.
  Longest longest(std::span<const TokenId> prompt) const;

  struct Found {
    std::shared_ptr<const ArchiveFile> file;  ///< null: nothing
    ArchiveTree::Match match;
  };
  /// The file that holds the longest beginning of a prompt; the conversation's own among equals.
  Found find(std::span<const TokenId> prompt, const std::string& conversation);
  /// A conversation's file, opened; null where there is none.
  std::shared_ptr<const ArchiveFile> openFile(const std::string& conversation);
  /// Positions that are on disk of a conversation; 0: none.
  int tokensOf(const std::string& conversation) const;

  std::filesystem::path pathOf(std::string_view conversation) const;
  /// A file was written for the conversation: takes note of it, and makes room.
  void written(const std::string& conversation);
  void used(const ArchiveFile& file);
  /// Reading failed: the file is not used any more, and removed if it is damaged.
  void failed(const std::filesystem::path& path, const Error& error);
  void forget(const std::string& conversation);
  void removeAll();

  void describe(EngineSnapshot& snapshot) const;

  // Without an engine, for whoever deletes conversations while no model is loaded.
  static void removeConversations(const std::filesystem::path& folder,
                                  const std::vector<std::string>& names);
  static void removeAll(const std::filesystem::path& folder);
  static std::uint64_t bytesIn(const std::filesystem::path& folder);

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    std::filesystem::file_time_type used;
    std::string conversation;                 // of these settings; else empty
    std::shared_ptr<const ArchiveTree> tree;  // the same
    double prefillMsPerToken = 0;
  };

  void add(const std::filesystem::path& path);
  void makeRoom();
  Result<std::shared_ptr<const ArchiveFile>> openChecked(const std::filesystem::path& path);

  ArchiveOptions m_options;
  std::string m_settings;
  int m_blockSize = 16;
  std::uint64_t m_blockBytes = 0;
  std::map<std::filesystem::path, Entry> m_entries;
  std::uint64_t m_bytes = 0;
};

}  // namespace vitrine::engine

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/result.h"
#include "engine/cache/archive_tree.h"

namespace vitrine::engine {

/// Everything about a file but its blocks.
struct ArchiveHeader {
  std::string settings;  ///< all that decides the bytes of a block; compared as text
  std::string conversation;
  std::uint64_t blockBytes = 0;
  /// What the writing process took to prefill, milliseconds a token; 0: it did not measure.
  double prefillMsPerToken = 0;
  ArchiveTree tree;
};

/// A conversation's blocks on disk, read only. The format is drawn in README.md. Everything that is
/// read is checked before it is used: a file that was cut, changed or is none of ours gives
/// kInvalidFile (corrupt: remove it), another one that cannot be read kIo. The file stays readable
/// through this object when it is replaced or removed.
class ArchiveFile final {
 public:
  /// Reads header and index.
  static Result<std::shared_ptr<const ArchiveFile>> open(const std::filesystem::path& path);
  ~ArchiveFile();
  ArchiveFile(const ArchiveFile&) = delete;
  ArchiveFile& operator=(const ArchiveFile&) = delete;

  const std::filesystem::path& path() const { return m_path; }
  const ArchiveHeader& header() const { return m_header; }
  const ArchiveTree& tree() const { return m_header.tree; }
  std::uint64_t fileBytes() const { return m_fileBytes; }

  /// Reads a block and verifies its checksum. Requires: bytes has blockBytes elements.
  Result<void> readBlock(int block, std::span<std::byte> bytes) const;
  /// Copies blocks that lie together into another file, unverified (their checksums go with them).
  Result<void> copyBlocks(int first, int count, int toFd, std::uint64_t toOffset) const;
  /// Now is when it was last used.
  void touch() const;

 private:
  ArchiveFile(std::filesystem::path path, int fd) : m_path(std::move(path)), m_fd(fd) {}
  Result<void> readHeader();
  std::uint64_t offsetOf(int block) const {
    return m_dataOffset + static_cast<std::uint64_t>(block) * m_header.blockBytes;
  }

  std::filesystem::path m_path;
  int m_fd = -1;
  std::uint64_t m_fileBytes = 0, m_dataOffset = 0;
  ArchiveHeader m_header;
};

/// Writes a file of that kind beside its final place and puts it there when all of it is safe on
/// disk: whoever is killed before leaves what was there. Blocks come in the order of the tree.
class ArchiveWriter final {
 public:
  static Result<std::unique_ptr<ArchiveWriter>> create(const std::filesystem::path& path,
                                                       ArchiveHeader header);
  ~ArchiveWriter();  ///< removes what was not published
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  Result<void> append(std::span<const std::byte> blocks);
  /// The next `count` blocks are those of another file, from `first` on.
  Result<void> appendFrom(const ArchiveFile& from, int first, int count);
  /// Writes the index and waits until all of it is on disk (the long part).
  Result<void> finish();
  /// Puts the finished file in its place.
  Result<void> publish();

 private:
  ArchiveWriter(std::filesystem::path path, std::filesystem::path temporary, int fd,
                ArchiveHeader header);

  std::filesystem::path m_path, m_temporary;
  int m_fd = -1;
  ArchiveHeader m_header;
  std::uint64_t m_dataOffset = 0;
  int m_next = 0;  // block that append() expects
};

/// Name of the temporary files of a folder, and whether a file is one that nobody writes any more.
extern const char* const kTemporaryPrefix;
bool isAbandoned(const std::filesystem::path& temporary);

/// XXH3 of a text, for file names.
std::uint64_t archiveHash(std::string_view text);

}  // namespace vitrine::engine

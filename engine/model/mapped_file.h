#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "engine/base/result.h"

namespace vitrine::engine {

/// A regular file mapped for reading.
///
/// A file that shrinks (or whose disk fails) while it is mapped would kill the program with SIGBUS
/// at the next touch of a lost page. While any MappedFile lives, a SIGBUS handler replaces the lost
/// part with zeros instead and marks the file: the reader goes on, sees zeros, and finds out by
/// asking lost(). Other SIGBUS signals go to the handler that was there before.
class MappedFile {
 public:
  /// Refuses at once, without blocking: missing files, broken links, directories, pipes, devices,
  /// and empty files.
  static Result<std::unique_ptr<MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return m_path; }
  std::span<const std::byte> bytes() const { return {m_data, m_size}; }
  /// Whether a part of the file could not be read any more and now reads as zeros. Any thread.
  bool lost() const;

 private:
  MappedFile() = default;
  std::filesystem::path m_path;
  const std::byte* m_data = nullptr;
  std::size_t m_size = 0;
  int m_slot = -1;  // of the table that the signal handler reads
};

}  // namespace vitrine::engine

#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "engine/base/types.h"
#include "engine/engine_types.h"

namespace vitrine::engine {

class ArchiveFile;

/// A prompt's beginning on its way from disk into the blocks of its sequence; made and driven by
/// KvArchive.
struct Restore {
  std::shared_ptr<const ArchiveFile> file;  ///< null: computing is faster, only the report counts
  std::vector<int> blocks;                  ///< of the file, from the prompt's first on
  int untilTokens = 0;                      ///< positions of the prompt that they hold
  std::vector<TokenId> cachedTokens;        ///< what the file holds of this branch
  RestoreReport report;
  std::chrono::steady_clock::duration matching{};  ///< what finding the beginning took
};

}  // namespace vitrine::engine

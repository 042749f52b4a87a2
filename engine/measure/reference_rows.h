#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/measure/scored_windows.h"

namespace vitrine::engine {

/// A reference that several modes are compared with over one text. Its logits are kept in memory,
/// or, where they would take more than a limit, computed again beside each mode. Never on disk.
class ReferenceRows final {
 public:
  /// Requires: the windows outlive it.
  explicit ReferenceRows(const ScoredWindows& windows) : m_windows(windows) {}

  /// Takes the reference: reads the text with it and lets it go, or keeps it.
  Result<void> take(std::unique_ptr<Backend> reference, KvType kv, std::uint64_t mostBytes,
                    const std::string& stage, const Progress& progress,
                    const std::stop_token& stop);
  /// What evaluate() says about a mode. Requires: take() went well.
  Result<EvaluationReport> compare(Backend& backend, KvType kv, const std::string& stage,
                                   const Progress& progress, const std::stop_token& stop) const;

  bool keepsLogits() const { return m_backend == nullptr; }
  /// BackendMemory::weightBytes of the reference.
  std::uint64_t weightBytes() const { return m_weightBytes; }

 private:
  const ScoredWindows& m_windows;
  std::unique_ptr<Backend> m_backend;  // null: m_logits
  KvType m_kv = KvType::kFp16;
  std::vector<float> m_logits;  // [rows, vocabSize]
  std::size_t m_vocab = 0;
  std::uint64_t m_weightBytes = 0;
};

}  // namespace vitrine::engine

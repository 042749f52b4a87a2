#include "engine/measure/reference_rows.h"

#include <utility>

namespace vitrine::engine {

Result<void> ReferenceRows::take(std::unique_ptr<Backend> reference, KvType kv,
                                 std::uint64_t mostBytes, const std::string& stage,
                                 const Progress& progress, const std::stop_token& stop) {
  m_weightBytes = reference->memory().weightBytes;
  m_vocab = static_cast<std::size_t>(reference->config().vocabSize);
  m_kv = kv;
  const auto rows = static_cast<std::size_t>(m_windows.rows());
  if (rows * m_vocab * sizeof(float) > mostBytes) {
    m_backend = std::move(reference);
    return {};
  }
  m_logits.reserve(rows * m_vocab);
  const ScoredWindows::Side side{reference.get(), kv};
  return m_windows.run(
      {&side, 1},
      [&](std::span<const std::span<const float>> logits, TokenId) {
        m_logits.insert(m_logits.end(), logits[0].begin(), logits[0].end());
      },
      stage, progress, stop);
}

Result<EvaluationReport> ReferenceRows::compare(Backend& backend, KvType kv,
                                                const std::string& stage, const Progress& progress,
                                                const std::stop_token& stop) const {
  EvaluationSums sums;
  std::vector<ScoredWindows::Side> sides = {{&backend, kv}};
  if (m_backend) sides.push_back({m_backend.get(), m_kv});
  std::size_t at = 0;
  VITRINE_TRY(m_windows.run(
      sides,
      [&](std::span<const std::span<const float>> logits, TokenId next) {
        const std::span<const float> reference =
            m_backend ? logits[1] : std::span(m_logits).subspan(at++ * m_vocab, m_vocab);
        sums.add(logits[0], reference, next);
      },
      stage, progress, stop));
  return sums.report();
}

}  // namespace vitrine::engine

#include "engine/measure/evaluate.h"

#include <algorithm>
#include <vector>

#include "engine/measure/scored_windows.h"

namespace vitrine::engine {

Result<EvaluationReport> evaluate(Backend& backend, Backend* reference, const ModelConfig& config,
                                  std::span<const TokenId> tokens, const EvaluationOptions& options,
                                  const Progress& progress, std::stop_token stop) {
  VITRINE_ASSIGN(
      const ScoredWindows windows,
      ScoredWindows::make(config, tokens, {options.context, options.chunk, options.bos}));
  std::vector<ScoredWindows::Side> sides = {{&backend, options.kv}};
  if (reference != nullptr) sides.push_back({reference, options.referenceKv});
  EvaluationSums sums;
  const auto onRow = [&](std::span<const std::span<const float>> logits, TokenId next) {
    if (logits.size() == 1) {
      sums.add(logits[0], next);
    } else {
      sums.add(logits[0], logits[1], next);
    }
  };
  VITRINE_TRY(windows.run(sides, onRow, "Evaluating", progress, stop));
  return sums.report();
}

Result<std::vector<float>> nextTokenLogits(Backend& backend, const ModelConfig& config,
                                           std::span<const TokenId> tokens, KvType kv, int chunk) {
  if (tokens.empty() || tokens.size() > static_cast<std::size_t>(config.contextLength)) {
    return fail(ErrorCode::kInvalidArgument, "a text of {} tokens; the model takes 1 to {}",
                tokens.size(), config.contextLength);
  }
  VITRINE_ASSIGN(const std::vector<BlockId> table,
                 makeSequenceCache(backend, kv, static_cast<int>(tokens.size())));
  for (std::size_t begin = 0; begin < tokens.size(); begin += static_cast<std::size_t>(chunk)) {
    const std::size_t end = std::min(tokens.size(), begin + static_cast<std::size_t>(chunk));
    BatchSequence sequence;
    sequence.tokens = tokens.subspan(begin, end - begin);
    sequence.firstPosition = static_cast<int>(begin);
    sequence.blockTable = table;
    sequence.logitRows = end == tokens.size() ? 1 : 0;
    VITRINE_ASSIGN(const LogitsView logits, backend.forward({&sequence, 1}));
    if (end == tokens.size()) {
      const auto row = logits.row(0);
      return std::vector<float>(row.begin(), row.end());
    }
  }
  return fail(ErrorCode::kInternal, "no step produced logits");
}

}  // namespace vitrine::engine

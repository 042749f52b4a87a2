#include "engine/schedule/warm_up.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

namespace vitrine::engine {
namespace {

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct TrialStep {
  int tokens, firstPosition;
  bool logits;
};

}  // namespace

Result<void> warmUp(Backend& backend, StepCost& cost, double budgetMs) {
  // From what says most to what says least: a decode step, a prompt, a decode step far back, a
  // longer prompt. The first is run twice: once for caches and working memory.
  constexpr TrialStep kSteps[] = {
      {1, 0, true}, {1, 1, true}, {16, 0, false}, {1, 1023, true}, {64, 0, true}};
  const ModelConfig& model = backend.config();
  const KvShape shape = backend.cacheShape();
  std::vector<BlockId> table(static_cast<std::size_t>(shape.nBlocks));
  std::iota(table.begin(), table.end(), 0);
  const int room = std::min(shape.nBlocks * shape.blockSize, model.contextLength);
  const auto start = Clock::now();
  backend.setActive(true);
  StepWork firstWork;
  double firstMs = -1;
  for (const TrialStep& step : kSteps) {
    if (step.firstPosition + step.tokens > room) continue;
    StepWork work;
    work.add(step.tokens, step.firstPosition, step.logits);
    const double expected = cost.isReady() ? cost.predictMs(work) : firstMs;
    if (firstMs >= 0 && millisecondsSince(start) + expected > budgetMs) break;
    std::vector<TokenId> tokens(static_cast<std::size_t>(step.tokens));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<TokenId>(i % static_cast<std::size_t>(model.vocabSize));
    }
    BatchSequence sequence;
    sequence.tokens = tokens;
    sequence.firstPosition = step.firstPosition;
    sequence.blockTable = table;
    sequence.logitRows = step.logits ? 1 : 0;
    const auto begun = Clock::now();
    if (!backend.forward({&sequence, 1})) break;  // the first turn will say why
    const double took = millisecondsSince(begun);
    if (firstMs < 0) {
      firstWork = work;
      firstMs = took;
    } else {
      cost.learn(work, took);
    }
  }
  backend.setActive(false);
  if (!cost.isReady() && firstMs >= 0) cost.learn(firstWork, firstMs);
  return backend.configureCache(shape);
}

}  // namespace vitrine::engine

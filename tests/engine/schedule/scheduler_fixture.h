#pragma once

#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.h"
#include "tests/engine/test_backend.h"
#include "tests/engine/test_tokenizer.h"

namespace vitrine::engine::test {

/// Tokens of the test backend's vocabulary that differ from one to the next.
inline std::vector<TokenId> counted(int count, TokenId first = 1) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<TokenId>((static_cast<std::size_t>(first) + i * 7) % 60) + 1;
  }
  return tokens;
}

/// A scheduler over a TestBackend, driven step by step, with what its events said.
class SchedulerFixture {
 public:
  struct Outcome {
    std::optional<TurnReport> report;
    std::optional<Error> error;
    std::string streamed;  ///< all texts of TokensReady
    std::vector<TokenId> streamedIds;
    std::vector<int> prefillDone;
    std::vector<double> prefillRemaining;
    int started = 0;

    bool ended() const { return report.has_value() || error.has_value(); }
  };

  explicit SchedulerFixture(int nBlocks, const Scheduler::Options& given = {})
      : backend(nBlocks), options(given) {
    if (options.contextTokens == 0) options.contextTokens = nBlocks * 16;
    scheduler =
        std::make_unique<Scheduler>(backend, options, records, [this](const Event& e) { hear(e); });
  }

  RequestId submit(std::vector<TokenId> prompt, GenerateRequest request = {}) {
    const RequestId id = ++m_lastId;
    BuiltPrompt built;
    built.tokens = std::move(prompt);
    scheduler->submit(std::make_unique<Turn>(id, std::move(request), std::move(built),
                                             Turn::Language{&tokenizer, &endTokens},
                                             Turn::Clock::now(), stops[id].get_token()));
    return id;
  }

  /// Steps until nothing is left to do; false if that takes more than `most` steps.
  bool drain(int most = 10000) {
    while (!scheduler->isIdle()) {
      if (most-- == 0) return false;
      scheduler->step();
      if (problem.empty()) problem = scheduler->checkInvariants();
    }
    return true;
  }

  /// What the request answers when nothing else exists: no blocks, no batch, no cache.
  static std::vector<TokenId> expectedAnswer(std::vector<TokenId> tokens,
                                             const GenerateRequest& request, int contextTokens) {
    Sampler sampler(request.sampling, request.sampling.seed.value_or(0));
    std::vector<TokenId> answer;
    while (true) {
      auto logits = TestBackend::logitsAfter(tokens);
      const TokenId id = sampler.sample(logits, tokens).id;
      if (id == 0 && !request.ignoreEnd) return answer;
      answer.push_back(id);
      tokens.push_back(id);
      if (static_cast<int>(answer.size()) == request.maxTokens ||
          static_cast<int>(tokens.size()) >= contextTokens) {
        return answer;
      }
    }
  }

  static GenerateRequest greedy(int maxTokens, bool ignoreEnd = false,
                                std::string conversation = "c") {
    GenerateRequest request;
    request.sampling.temperature = 0;
    request.maxTokens = maxTokens;
    request.ignoreEnd = ignoreEnd;
    request.conversation = std::move(conversation);
    return request;
  }

  TestBackend backend;
  TestTokenizer tokenizer;
  std::vector<TokenId> endTokens{0};
  Scheduler::Options options;
  Records records;
  std::unique_ptr<Scheduler> scheduler;
  std::map<RequestId, Outcome> outcomes;
  std::map<RequestId, std::stop_source> stops;
  std::vector<RequestId> finishOrder;
  std::string problem;  ///< the first broken promise

 private:
  void hear(const Event& event) {
    if (const auto* started = std::get_if<TurnStarted>(&event)) ++outcomes[started->id].started;
    if (const auto* progress = std::get_if<PrefillProgressed>(&event)) {
      outcomes[progress->id].prefillDone.push_back(progress->done);
      outcomes[progress->id].prefillRemaining.push_back(progress->remainingMs);
    }
    if (const auto* ready = std::get_if<TokensReady>(&event)) {
      Outcome& outcome = outcomes[ready->id];
      outcome.streamed += ready->text;
      for (const GeneratedToken& token : ready->tokens) outcome.streamedIds.push_back(token.id);
    }
    if (const auto* finished = std::get_if<TurnFinished>(&event)) {
      outcomes[finished->id].report = finished->report;
      finishOrder.push_back(finished->id);
    }
    if (const auto* failed = std::get_if<TurnFailed>(&event)) {
      outcomes[failed->id].error = failed->error;
      finishOrder.push_back(failed->id);
    }
  }

  RequestId m_lastId = 0;
};

}  // namespace vitrine::engine::test

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/backend/backend.h"

namespace vitrine::engine {

struct EvaluationOptions {
  int context = 512;  ///< tokens of a window
  int chunk = 128;    ///< most tokens of one step
  KvType kv = KvType::kFp16;
  KvType referenceKv = KvType::kFp16;
  std::optional<TokenId>
      bos = std::nullopt;  ///< replaces the first token of each window, where the model wants it
};

struct EvaluationReport {
  std::int64_t tokens = 0;  ///< tokens whose probability was taken
  double perplexity = 0.0;
  // Against the reference, where there is one:
  double referencePerplexity = 0.0;
  double klMean = 0.0;  ///< KL(reference ‖ backend), nats a token
  double klP99 = 0.0;
  double top1Agreement = 0.0;  ///< share of tokens where both have the same best token
};

/// How well a backend predicts a text and, with `reference`, how far it is from another backend
/// (same model, other precision). The text is cut into windows of `context` tokens, each computed
/// from an empty cache; the second half of each is scored, so that every scored token has at least
/// half a window before it (as llama.cpp's perplexity). A text shorter than a window is one window,
/// scored from its second token on; a last window that is not full is left out.
///
/// Both backends run side by side, chunk after chunk: no logits are kept. Configures (and so
/// empties) their caches. Errors: kInvalidArgument for fewer than 2 tokens or a context out of
/// range; what the backends report; kCancelled.
Result<EvaluationReport> evaluate(Backend& backend, Backend* reference, const ModelConfig& config,
                                  std::span<const TokenId> tokens, const EvaluationOptions& options,
                                  const Progress& progress = {}, std::stop_token stop = {});

/// Logits of the token after `tokens`, [vocabSize]. Configures the backend's cache.
Result<std::vector<float>> nextTokenLogits(Backend& backend, const ModelConfig& config,
                                           std::span<const TokenId> tokens,
                                           KvType kv = KvType::kFp16, int chunk = 256);

}  // namespace vitrine::engine

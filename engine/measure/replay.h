#pragma once

#include <array>
#include <span>
#include <stop_token>
#include <vector>

#include "engine/backend/backend.h"

namespace vitrine::engine {

/// One of the two ways in which a conversation is replayed.
struct ReplaySide {
  Backend* backend = nullptr;
  KvType kv = KvType::kFp16;
};

/// Tokens [begin, end).
struct TokenRange {
  int begin = 0, end = 0;
};

/// A token of the conversation and what the two ways thought of it before they saw it.
struct ReplayToken {
  TokenId id = 0;
  bool scored = false;      ///< part of an answer; the rest is only read
  float divergence = 0.0F;  ///< KL(first ‖ second), nats
  std::array<TokenId, 2> best{};
  std::array<float, 2> logprob{};  ///< of `id`
};

struct ReplayReport {
  std::vector<ReplayToken> tokens;
  int scoredTokens = 0;
  int firstDivergence =
      -1;  ///< index of the first scored token where the best tokens differ; −1: none
  double klMean = 0.0, klP99 = 0.0, top1Agreement = 0.0;
  struct Side {
    double perplexity = 0.0;  ///< of the scored tokens
    double prefillMs = 0.0;   ///< of the whole conversation
    double decodeTps = 0.0;   ///< at its end, one token a step
    std::uint64_t weightBytes = 0, kvBytes = 0;
  };
  std::array<Side, 2> sides;
};

/// Reads a conversation's tokens twice, chunk by chunk side by side, and compares. `scored`: the
/// answers' tokens, ascending (the first token of all cannot be scored). Configures (and so
/// empties) both caches.
Result<ReplayReport> replay(const std::array<ReplaySide, 2>& sides, const ModelConfig& config,
                            std::span<const TokenId> tokens, std::span<const TokenRange> scored,
                            const Progress& progress = {}, std::stop_token stop = {});

}  // namespace vitrine::engine

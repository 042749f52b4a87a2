#pragma once

#include <QJsonObject>
#include <QString>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/engine_types.h"

namespace vitrine::engine {
class Tokenizer;
}

namespace vitrine::app {

/// How one of the two answers of a comparison is made.
struct CompareSide {
  engine::EngineConfig config;
  engine::SamplingParams sampling;  ///< the seed is CompareSetup's
};

struct CompareSetup {
  std::vector<engine::ChatMessage> messages;  ///< what both are asked
  QString question;                           ///< of those, the last, for reports
  std::array<CompareSide, 2> sides;
  int maxTokens = 128;
  std::optional<std::uint64_t> seed;  ///< for both; none: each draws its own
  /// Two engines work at the same time (and slow each other down) instead of one after the other.
  bool atOnce = false;
};

/// How the two answers are made.
enum class CompareOrder {
  kOneBatch,       ///< at once, as two sequences of the loaded engine's batch
  kOwnBatch,       ///< at once, as two sequences of a second engine's batch
  kOneAfterOther,  ///< on two engines, or on one that is switched in between
  kTwoEngines,     ///< at once, on an engine each
};

struct CompareAnswer {
  bool waiting = false, running = false, ended = false;
  QString text;
  std::vector<engine::TokenId> tokenIds;
  QString error;                ///< not empty: it failed
  engine::TurnReport report;    ///< once ended
  engine::EngineConfig config;  ///< that it ran with
  int promptTokens = 0, prefillDone = 0;
  std::uint64_t weightBytes = 0, kvBytesPerToken = 0;
};

/// Where two answers part.
struct FirstDifference {
  int token = -1;  ///< index of the first token that differs, or that only one has; −1: none yet
  std::array<qsizetype, 2> offset{};  ///< in each text, where that token begins
  std::array<qsizetype, 2> length{};  ///< of its text; 0: this answer has ended there
};

/// Of two answers by one tokenizer, which may still grow.
FirstDifference firstDifference(const engine::Tokenizer& tokenizer, const CompareAnswer& a,
                                const CompareAnswer& b);

/// Whether two configurations compute the same: weights, activations, KV cache, heads.
bool computesTheSame(const engine::EngineConfig& a, const engine::EngineConfig& b);

/// What a second engine would take for this configuration and so many sequences: weights as the CPU
/// holds them, a KV pool for a whole context each, and what the loaded engine works in.
std::uint64_t memoryForSecondEngine(const engine::Model& model, const engine::ModelInfo& info,
                                    const engine::EngineConfig& config, int sequences);

/// "weights fp16, activations fp16, KV int8, 3 KV heads".
QString configText(const engine::EngineConfig& config, const engine::ModelInfo* model);
/// "temperature 0.8, top-k 40, …": what is not off.
QString samplingText(const engine::SamplingParams& sampling);

/// The comparison as Markdown: what was asked, how, both texts and all figures.
QString compareMarkdown(const CompareSetup& setup, const std::array<CompareAnswer, 2>& answers,
                        CompareOrder order, const FirstDifference& difference,
                        const engine::ModelInfo* model);

}  // namespace vitrine::app

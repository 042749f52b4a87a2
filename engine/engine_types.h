#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/result.h"
#include "engine/base/types.h"
#include "engine/model/model.h"
#include "engine/sample/sampler.h"

// The values that cross between the engine's thread and the rest of a program. Plain structs,
// copied or shared as const; nothing mutable is shared.

namespace vitrine::engine {

enum class KvLayout { kPaged, kContiguous };
const char* toString(KvLayout layout);  // "paged", "contiguous"

struct CacheOptions {
  bool enabled = true;             ///< false: every token recomputes the whole sequence
  bool reuse = true;               ///< false: a turn never starts from cached blocks
  KvType type = KvType::kFp16;
  KvLayout layout = KvLayout::kPaged;
  int blockSize = 16;
  std::uint64_t budgetBytes = 0;   ///< 0: a share of the memory that is free

  bool operator==(const CacheOptions&) const = default;
};

/// Everything about how a loaded model is run; switching a field takes effect on it.
struct EngineConfig {
  BackendKind backend = BackendKind::kAuto;
  WeightPrecision precision;
  CacheOptions cache;
  int threads = 0;        ///< 0: physical cores
  int contextTokens = 0;  ///< 0: the model's
  int prefillChunk = 256; ///< most prompt tokens of one step
  int maxSequences = 16;  ///< most sequences of one step

  bool operator==(const EngineConfig&) const = default;
};

enum class ContextPolicy {
  kStop,        ///< refuse a prompt that does not fit; an answer that reaches the limit ends
  kDropOldest,  ///< leave out the oldest turns (system prompt and last question stay), and say so
};

struct ChatPrompt {
  std::vector<ChatMessage> messages;
};
struct RawPrompt {
  std::string text;
  bool parseControlTokens = false;
};
using TokenPrompt = std::vector<TokenId>;

struct GenerateRequest {
  std::variant<ChatPrompt, RawPrompt, TokenPrompt> prompt;
  SamplingParams sampling;
  int maxTokens = 0;              ///< 0: until the model ends, or the context does
  std::vector<std::string> stop;  ///< texts that end the answer and are not shown
  bool ignoreEnd = false;         ///< go on past end tokens (benchmarks)
  int nLogprobs = -1;             ///< -1: none; 0: of the chosen token; n: and n alternatives
  ContextPolicy contextPolicy = ContextPolicy::kStop;
  std::string conversation;       ///< who owns the blocks, for the panels; any unique text
  std::string branch;
};

// ---------------------------------------------------------------- what comes back

struct GeneratedToken {
  TokenId id = 0;
  float milliseconds = 0.0F;  ///< since the token before (the first: since the request)
  float logprob = 0.0F;
  std::vector<TokenProbability> top;
};

enum class StopReason { kEnd, kStopText, kLength, kContext, kCancelled };
const char* toString(StopReason reason);  // "eos", "stop", "length", "context", "cancelled"

struct KvUse {
  std::uint64_t bytesUsed = 0;      ///< positions filled × bytes a position
  std::uint64_t bytesReserved = 0;  ///< blocks held × bytes a block
  std::uint64_t bytesFormula = 0;   ///< B × L × S × H_kv × D × 2 × bytes
  int blocksUsed = 0;
  int blocksTotal = 0;
  int blockSize = 0;
};

/// Where the time to the first token went, milliseconds.
struct TtftParts {
  float render = 0, tokenize = 0, match = 0, queue = 0, prefill = 0, sample = 0;
};

/// Why a prompt was not reused whole.
struct ReuseReport {
  int reusedTokens = 0;
  int firstNewPosition = 0;  ///< equals reusedTokens
  std::string reason;        ///< short phrase: "new conversation", "edited at token 57", "evicted", …
};

struct TurnReport {
  StopReason stopReason = StopReason::kEnd;
  std::string text;                 ///< all of the answer, whole characters
  std::vector<TokenId> tokenIds;    ///< generated ids, the end token left out
  int promptTokens = 0;
  int reusedTokens = 0;
  int prefilledTokens = 0;
  int generatedTokens = 0;          ///< the end token counted
  int droppedMessages = 0;          ///< left out by ContextPolicy::kDropOldest
  std::uint64_t seed = 0;
  double ttftMs = 0;                ///< request to first token
  double tpotMs = 0;                ///< (last − first) / (tokens − 1); 0 for fewer than two
  double tpotP50Ms = 0, tpotP95Ms = 0;
  double prefillTps = 0, decodeTps = 0;
  double bandwidthBytesPerToken = 0; ///< weights and KV that a decode step of this turn read
  TtftParts ttft;
  ReuseReport reuse;
  KvUse kv;
  std::vector<float> tokenMs;       ///< each generated token's latency
  std::string backend, weights, activations, kvType;
};

struct ModelInfo {
  std::string path, name, architecture, quantization, fingerprint;
  ModelConfig config;
  GenerationDefaults defaults;
  std::uint64_t parameters = 0, fileBytes = 0;
  int contextTokens = 0;            ///< in force: the model's, or what the user set
  std::vector<std::string> warnings;
  std::string templateSubstituteReason;
  bool acceptsSystemMessage = true;
  BackendInfo backend;
  EngineConfig running;             ///< the configuration in force
  BackendMemory memory;
};

// Events, in the order in which they happen; delivered on the engine's thread.
struct LoadProgressed { RequestId id; std::string stage; double fraction; };
struct ModelLoaded { RequestId id; std::shared_ptr<const ModelInfo> info; };
struct ModelUnloaded { RequestId id; };
/// Loading or switching failed; whatever was loaded before is still there if `kept`.
struct LoadFailed { RequestId id; Error error; bool kept; };
struct TurnStarted { RequestId id; int promptTokens; int reusedTokens; int droppedMessages; };
struct PrefillProgressed { RequestId id; int done; int total; };
/// Text that became whole, and the ids generated since the event before. Text may be empty.
struct TokensReady { RequestId id; std::string text; std::vector<GeneratedToken> tokens; };
struct TurnFinished { RequestId id; TurnReport report; };
struct TurnFailed { RequestId id; Error error; };

using Event = std::variant<LoadProgressed, ModelLoaded, ModelUnloaded, LoadFailed, TurnStarted,
                           PrefillProgressed, TokensReady, TurnFinished, TurnFailed>;
/// Called on the engine's thread; must return soon and not call back into the engine's waits.
using EventListener = std::function<void(const Event&)>;

// ---------------------------------------------------------------- a look at the engine

enum class EngineState { kEmpty, kLoading, kReady, kBusy };

enum class BlockState : std::uint8_t { kFree, kCached, kUsed };

/// One cell of the block map.
struct BlockCell {
  BlockState state = BlockState::kFree;
  std::uint8_t filled = 0;     ///< positions written (at most blockSize)
  std::uint16_t references = 0;
  std::int16_t owner = -1;     ///< index into EngineSnapshot::owners
};

struct CacheOwner {
  std::string conversation, branch;
  int tokens = 0;   ///< positions held
  int blocks = 0;
  std::uint64_t bytes = 0;
};

/// The state of the engine a few times a second; the panels draw it.
struct EngineSnapshot {
  EngineState state = EngineState::kEmpty;
  std::chrono::steady_clock::time_point time;
  int runningSequences = 0, waitingSequences = 0;
  KvShape shape;
  std::uint64_t bytesPerBlock = 0;
  int blocksFree = 0, blocksCached = 0, blocksUsed = 0;
  std::vector<BlockCell> blocks;
  std::vector<CacheOwner> owners;
  BackendMemory memory;
  std::uint64_t prefixQueries = 0, prefixHits = 0;  ///< tokens asked for, tokens found
  std::uint64_t promptTokens = 0, generatedTokens = 0;  ///< since the start
};

}  // namespace vitrine::engine

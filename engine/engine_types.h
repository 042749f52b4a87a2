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
const char* nameOf(KvLayout layout);  // "paged", "contiguous"

/// How waiting turns join those that run.
enum class Batching {
  kContinuous,  ///< at every step
  kStatic,      ///< only when the whole batch before has ended (how servers did it before 2022)
};
const char* nameOf(Batching batching);  // "continuous", "static"

/// Where the KV of idle conversations is kept between runs.
struct ArchiveOptions {
  std::filesystem::path folder;                       ///< empty: nothing is kept on disk
  std::uint64_t limitBytes = std::uint64_t{2} << 30;  ///< the least recently used goes first

  bool operator==(const ArchiveOptions&) const = default;
};

struct CacheOptions {
  bool enabled = true;  ///< false: every token recomputes the whole sequence
  bool reuse = true;    ///< false: a turn never starts from cached blocks
  KvType type = KvType::kFp16;
  KvLayout layout = KvLayout::kPaged;
  int blockSize = 16;
  std::uint64_t budgetBytes = 0;  ///< 0: a share of the memory that is free (of the device's)
  /// Host memory for blocks of idle conversations that had to leave a device; 0: a share of what is
  /// free. Without a device: not used.
  std::uint64_t hostBudgetBytes = 0;

  bool operator==(const CacheOptions&) const = default;
};

/// Everything about how a loaded model is run; switching a field takes effect on it.
struct EngineConfig {
  BackendKind backend = BackendKind::kAuto;
  WeightPrecision precision;
  /// KV heads that the model is run with: 0 its own number, a multiple of it (heads are repeated,
  /// exact) or a divisor (heads are averaged, approximate); must divide the query heads.
  int kvHeads = 0;
  CacheOptions cache;
  ArchiveOptions archive;
  Batching batching = Batching::kContinuous;
  int threads = 0;         ///< 0: physical cores
  int device = 0;          ///< which GPU, where the backend is cuda
  int contextTokens = 0;   ///< 0: the model's
  int prefillChunk = 256;  ///< most prompt tokens of one step
  int maxSequences = 16;   ///< most sequences of one step

  bool operator==(const EngineConfig&) const = default;
  BackendOptions backendOptions() const { return {precision, threads, kvHeads, device}; }
};

enum class ContextPolicy {
  kStop,        ///< refuse a prompt that does not fit; an answer that reaches the limit ends
  kDropOldest,  ///< leave out the oldest turns (system prompt and last question stay), and say so
  kKeepPinned,  ///< the same, but pinned messages stay (see ChatMessage::pinned)
};
const char* nameOf(ContextPolicy policy);  // "stop", "drop_oldest", "keep_pinned"

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
  std::string conversation;  ///< who owns the blocks, for the panels; any unique text
  bool keepOnDisk = true;    ///< its K and V may go to the archive, if the conversation has a name
  std::string branch;
};

// ---------------------------------------------------------------- what comes back

/// What made a token take longer than a step of its own sequence alone would.
enum class StallCause : std::uint8_t {
  kNone,
  kOthersPrefill,  ///< a step also computed prompt tokens of others
  kLargerBatch,    ///< more sequences decoded in the step
  kPutBack,        ///< its blocks went to an older sequence; it was computed again
  kSystem,         ///< nothing of ours: the step itself took long
};
const char* nameOf(StallCause cause);  // "none", "prefill", "batch", "put back", "system"

struct GeneratedToken {
  TokenId id = 0;
  float milliseconds = 0.0F;  ///< since the token before (the first: since the request)
  StallCause cause = StallCause::kNone;
  float logprob = 0.0F;
  std::vector<TokenProbability> top;
};

enum class StopReason { kEnd, kStopText, kLength, kContext, kCancelled };
const char* nameOf(StopReason reason);  // "eos", "stop", "length", "context", "cancelled"

struct KvUse {
  std::uint64_t bytesUsed = 0;      ///< positions filled × bytes a position
  std::uint64_t bytesReserved = 0;  ///< blocks held × bytes a block
  std::uint64_t bytesFormula = 0;   ///< B × L × S × H_kv × D × 2 × bytes
  int blocksUsed = 0;
  int blocksTotal = 0;
  int blockSize = 0;
};

/// Where the time to the first token went, milliseconds, in the order in which it passes.
struct TtftParts {
  float render = 0, tokenize = 0, match = 0, queue = 0, restore = 0, prefill = 0, sample = 0,
        detokenize = 0;
};

/// One step of a prompt's prefill.
struct PrefillChunk {
  int tokens = 0;
  float milliseconds = 0;  ///< of the whole step
  int othersTokens = 0;    ///< that the step computed for other sequences
};

enum class ReuseCause {
  kNone,       ///< continued: all that could be reused was
  kNew,        ///< nothing is known of this conversation
  kChanged,    ///< the prompt differs from what was cached, at firstNewPosition
  kEvicted,    ///< the blocks had to make room
  kPrecision,  ///< model, precision, KV type or KV heads changed
  kOff,        ///< cache or reuse is off
};
const char* nameOf(ReuseCause cause);  // "none", "new", "changed", "evicted", "precision", "off"

/// Why a prompt was not reused whole.
struct ReuseReport {
  int reusedTokens = 0;
  int firstNewPosition = 0;  ///< equals reusedTokens
  ReuseCause cause = ReuseCause::kNone;
  std::string reason;  ///< short phrase: "new conversation", "edited at token 57", "evicted", …
  /// kChanged: up to 24 tokens from the first difference, as text: cached then, asked for now.
  std::string cachedText, promptText;
};

/// A prompt's beginning that came back from disk, or was computed because that is faster.
struct RestoreReport {
  int tokens = 0;  ///< found on disk beyond what the pool held; 0: none
  std::uint64_t bytes = 0;
  double milliseconds = 0;  ///< what reading took, or would take by estimate
  double recomputeMs = 0;   ///< what prefilling the same tokens would take, by estimate
  bool restored = false;    ///< false: recomputing was faster
};

/// What a turn will cost, told before it is sent.
struct Forecast {
  int promptTokens = 0;
  int reusedTokens = 0;    ///< in the pool
  int restoredTokens = 0;  ///< would come from disk
  int newTokens = 0;
  double ttftMs = -1;  ///< −1: nothing was measured yet
  int newBlocks = 0;
  std::uint64_t newBytes = 0;
  int evictedBlocks = 0;  ///< of idle conversations that would have to go
  int contextTokens = 0;
  int droppedMessages = 0;   ///< that the context policy would leave out
  std::vector<int> dropped;  ///< which: indices into ChatPrompt::messages, ascending
  bool fits = true;         ///< the prompt and one token of the answer
};

/// A conversation's cached K and V against those of a cold prefill of the same tokens.
struct CacheProof {
  int tokens = 0;  ///< positions compared
  int blocks = 0;
  int differentBlocks = 0;            ///< blocks whose bytes are not equal
  double largestLogitDifference = 0;  ///< over the continued positions
  double klMean = 0;                  ///< KL(cold ‖ cached), nats
  int continuedTokens = 0;            ///< greedy tokens generated from each
  int firstDifferentToken = -1;       ///< among those; −1: none
  double coldMs = 0, cachedMs = 0;
};

/// What one block of the pool holds.
struct BlockContent {
  BlockId block = -1;
  int firstPosition = 0;  ///< of its first token in its sequence
  std::vector<TokenId> tokens;
  int references = 0;
  struct Holder {
    std::string conversation, branch;
  };
  std::vector<Holder> holders;  ///< every branch whose cached history goes through it
};

struct TurnReport {
  StopReason stopReason = StopReason::kEnd;
  std::string text;               ///< all of the answer, whole characters
  std::vector<TokenId> tokenIds;  ///< generated ids, the end token left out
  int promptTokens = 0;
  int reusedTokens = 0;
  int prefilledTokens = 0;
  int generatedTokens = 0;  ///< the end token counted
  int droppedMessages = 0;   ///< left out by the context policy
  std::vector<int> dropped;  ///< which: indices into ChatPrompt::messages, ascending
  std::uint64_t seed = 0;
  double ttftMs = 0;  ///< request to first token
  double tpotMs = 0;  ///< (last − first) / (tokens − 1); 0 for fewer than two
  double tpotP50Ms = 0, tpotP95Ms = 0;
  double prefillTps = 0, decodeTps = 0;
  double bandwidthBytesPerToken = 0;  ///< weights and KV that a decode step of this turn read
  TtftParts ttft;
  std::vector<PrefillChunk> chunks;
  ReuseReport reuse;
  RestoreReport restore;
  double forecastTtftMs = -1;  ///< made when the turn was submitted; −1: none
  KvUse kv;
  std::vector<float> tokenMs;           ///< each generated token's latency
  std::vector<StallCause> tokenCauses;  ///< one a generated token
  std::vector<int> tokenRows;           ///< positions computed for each generated token
  std::string backend, weights, activations, kvType;
  std::string precision;  ///< what the precision is beyond these: see precisionDetails()
};

struct ModelInfo {
  std::string path, name, architecture, quantization, fingerprint;
  ModelConfig config;  ///< as it runs: nKvHeads is the number in force
  int ownKvHeads = 0;  ///< the model's own number of KV heads
  GenerationDefaults defaults;
  std::uint64_t parameters = 0, fileBytes = 0;
  int contextTokens = 0;  ///< in force: the model's, or what the user set
  std::vector<std::string> warnings;
  std::string templateSubstituteReason;
  bool acceptsSystemMessage = true;
  BackendInfo backend;
  EngineConfig running;  ///< the configuration in force
  BackendMemory memory;
};

// Events, in the order in which they happen; delivered on the engine's thread.
struct LoadProgressed {
  RequestId id;
  std::string stage;
  double fraction;
};
struct ModelLoaded {
  RequestId id;
  std::shared_ptr<const ModelInfo> info;
};
struct ModelUnloaded {
  RequestId id;
};
/// Loading or switching failed; whatever was loaded before is still there if `kept`.
struct LoadFailed {
  RequestId id;
  Error error;
  bool kept;
};
struct TurnStarted {
  RequestId id;
  int promptTokens;
  int reusedTokens;
  std::vector<int> dropped;  ///< by the context policy: indices into ChatPrompt::messages
};
/// `remainingMs` until the first token, by estimate; −1: not known.
struct PrefillProgressed {
  RequestId id;
  int done;
  int total;
  double remainingMs = -1;
};
/// Text that became whole, and the ids generated since the event before. Text may be empty.
struct TokensReady {
  RequestId id;
  std::string text;
  std::vector<GeneratedToken> tokens;
};
struct TurnFinished {
  RequestId id;
  TurnReport report;
};
struct TurnFailed {
  RequestId id;
  Error error;
};
// Answers to questions about the cache; TurnFailed where there is none.
struct ForecastReady {
  RequestId id;
  Forecast forecast;
};
struct CacheVerified {
  RequestId id;
  CacheProof proof;
};
struct BlockInspected {
  RequestId id;
  BlockContent content;
};

using Event = std::variant<LoadProgressed, ModelLoaded, ModelUnloaded, LoadFailed, TurnStarted,
                           PrefillProgressed, TokensReady, TurnFinished, TurnFailed, ForecastReady,
                           CacheVerified, BlockInspected>;
/// Called on the engine's thread; must return soon and not call back into the engine's waits.
using EventListener = std::function<void(const Event&)>;

// ---------------------------------------------------------------- a look at the engine

enum class EngineState { kEmpty, kLoading, kReady, kBusy };

enum class BlockState : std::uint8_t { kFree, kCached, kUsed };

/// One cell of the block map.
struct BlockCell {
  BlockState state = BlockState::kFree;
  std::uint8_t filled = 0;  ///< positions written (at most blockSize)
  std::uint16_t references = 0;
  std::int16_t owner = -1;     ///< index into EngineSnapshot::owners
  std::uint16_t sharers = 0;   ///< branches whose history goes through it
  std::int32_t position = -1;  ///< of its first token in its sequence; −1: free
};

/// A branch of a conversation in the pool.
struct CacheOwner {
  std::string conversation, branch;
  int tokens = 0;  ///< positions of the blocks that are labelled with it
  int blocks = 0;
  std::uint64_t bytes = 0;
  std::vector<BlockId> chain;  ///< its whole cached history in order, shared blocks included
  int sharedBlocks = 0;        ///< of the chain, those that other branches hold, too
};

/// A conversation whose KV is on disk (it may be in the pool as well).
struct ArchivedConversation {
  std::string conversation;
  int tokens = 0;
  std::uint64_t bytes = 0;
};

/// Part of one sequence in a step.
struct StepRow {
  RequestId turn = 0;
  std::string conversation, branch;
  int prefillTokens = 0, decodeTokens = 0;
};

/// One batch that was computed.
struct StepRecord {
  std::uint64_t number = 0;  ///< since the start, from 1
  std::chrono::steady_clock::time_point start;
  float milliseconds = 0;
  int waiting = 0;  ///< turns that were not in it
  std::vector<StepRow> rows;
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
  std::uint64_t prefixQueries = 0, prefixHits = 0;      ///< tokens asked for, tokens found
  std::uint64_t promptTokens = 0, generatedTokens = 0;  ///< since the start
  std::vector<StepRecord> steps;                        ///< the latest 256, oldest first
  std::vector<ArchivedConversation> archived;
  std::uint64_t archiveBytes = 0, archiveLimitBytes = 0;
  std::vector<SiteUse> activationUse;  ///< under static scales: since they are in force
  std::uint64_t contiguousBytes = 0;  ///< what the chains would reserve in the contiguous layout
};

}  // namespace vitrine::engine

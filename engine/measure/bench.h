#pragma once

#include <stop_token>
#include <string>

#include "engine/backend/backend.h"

namespace vitrine::engine {

/// One measurement: a prompt of `nPrompt` tokens, or `nGen` tokens generated one after the other
/// (the other is 0), with `depth` tokens in the cache beforehand, for `sequences` sequences at
/// once.
struct BenchCase {
  int nPrompt = 0;
  int nGen = 0;
  int depth = 0;
  int sequences = 1;

  bool operator==(const BenchCase&) const = default;
};

struct BenchOptions {
  int repeats = 5;
  int chunk = 256;  ///< most prompt tokens of one step
  KvType kv = KvType::kFp16;
  int blockSize = 16;
  /// What the machine reads at most, bytes a second (probeReadBandwidth()); 0: not known.
  double readBandwidth = 0.0;
};

/// Tokens a second of all sequences together, over the repeats.
struct BenchReport {
  std::string test;  ///< "pp512", "tg128", "tg128 @ d4096", "tg128 x 4"
  BenchCase what;
  double tpsMedian = 0.0, tpsMin = 0.0, tpsMax = 0.0;
  /// Decode: bytes of weights and of KV (at the middle of the run) that were read for one token,
  /// weights shared out over the sequences. 0 for prefill, which arithmetic limits.
  double bytesPerToken = 0.0;
  double bandwidthShare = 0.0;  ///< bytesPerToken · tpsMedian / readBandwidth; 0: not known
};

/// Measures a backend, one warming run first. The tokens are arbitrary (a fixed sequence), logits
/// of the last token are computed each step, and nothing is sampled. Configures (and so empties)
/// the cache. Errors: kInvalidArgument; what the backend reports; kCancelled.
Result<BenchReport> runBench(Backend& backend, const ModelConfig& config, const BenchCase& what,
                             const BenchOptions& options = {}, std::stop_token stop = {});

}  // namespace vitrine::engine

#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/lab/lab_types.h"
#include "engine/engine_types.h"

namespace vitrine::app::lab {

class LabEngine;

/// Both ends included; a length is drawn evenly between them.
struct LengthRange {
  int least = 16, most = 48;
};

/// Synthetic chats: how long, how many, and how they come.
struct LoadSpec {
  LengthRange prompt{16, 48};
  LengthRange answer{24, 72};
  /// Chats that are there at once: each asks again as soon as it has its answer. Used where
  /// `arrivalsPerSecond` is 0.
  int concurrency = 1;
  /// Chats that come on their own, at intervals of a Poisson process; 0: the number is fixed.
  double arrivalsPerSecond = 0;
  int requests = 16;  ///< in all
  engine::Batching batching = engine::Batching::kContinuous;
  std::uint64_t seed = 1;

  /// A sentence about the first value without meaning.
  engine::Result<void> check() const;
};

/// One synthetic request.
struct LoadRequest {
  double arrivalSeconds = 0;  ///< after the start; 0 with a fixed number of chats
  std::vector<engine::TokenId> prompt;
  int answerTokens = 0;
};
/// The same seed gives the same requests on every machine. Requires: spec.check().
std::vector<LoadRequest> makeRequests(const LoadSpec& spec, int vocabSize);

/// What a load came to.
struct LoadResult {
  int concurrency = 0;  ///< asked for; with arrivals, the most that were there at once
  engine::Batching batching = engine::Batching::kContinuous;
  int requests = 0;
  double seconds = 0;
  std::int64_t promptTokens = 0, generatedTokens = 0;
  double tokensPerSecond = 0;           ///< generated, over the whole time
  double ttftP50Ms = 0, ttftP95Ms = 0;  ///< over the requests, waiting included
  double tpotP50Ms = 0, tpotP95Ms = 0;  ///< over all tokens but each answer's first
};

/// Runs a load and waits for its end. The engine's configuration is switched where batching, the
/// most sequences or the pool differ. Cancels within a step. Errors: kInvalidArgument; the first
/// turn that failed; kCancelled.
engine::Result<LoadResult> runLoad(LabEngine& engine, const LoadSpec& spec, std::stop_token stop,
                                   const std::function<void(double)>& progress = {});

/// How an engine is set up for up to `sequences` chats of these lengths: no reuse, a pool that
/// holds all of them and no more.
engine::EngineConfig configFor(engine::EngineConfig base, const engine::ModelConfig& model,
                               const LoadSpec& spec, int sequences);

/// A series of loads that grow (1, 2, 4, 8, 16 chats), several times over; the medians.
struct LoadCurve {
  engine::Batching batching = engine::Batching::kContinuous;
  std::vector<LoadResult> levels;                ///< medians over the repeats
  std::vector<std::vector<LoadResult>> repeats;  ///< [repeat][level]
  int knee = -1;                                 ///< index into levels; −1: none
};
/// Finds the knee of tokens a second over the number of chats.
void markKnee(LoadCurve& curve);
/// The medians of `repeats`, level by level.
void takeMedians(LoadCurve& curve);

/// Throughput, TPOT and TTFT of curves over the number of chats, the knee marked.
std::vector<Chart> loadCharts(const std::vector<LoadCurve>& curves);

}  // namespace vitrine::app::lab

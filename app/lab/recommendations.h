#pragma once

#include <vector>

#include "app/lab/lab_types.h"

namespace vitrine::app::lab {

/// Interactive chat, offline batch, long documents: for each a whole configuration, chosen from
/// the rows' figures. Rules:
///  - Weights whose distance from FP16 is more than kMostDivergence or whose best token agrees less
///    than kLeastAgreement are left out; the file's own format is the model as it was given and
///    always takes part.
///  - Interactive: the weights with the least time for a prompt of 128 and an answer of 128 tokens;
///    INT8 KV only where decoding at depth is faster with it; reuse on.
///  - Batch: the weights with the most tokens a second of 8 chats together; as many sequences as
///    gave the highest throughput under load; the batching that was faster.
///  - Documents: INT8 KV unless it is too far from FP16; the weights with the fastest prefill.
/// `base` gives what the rows say nothing about. A recommendation whose rows are missing has an
/// empty choice and names them.
std::vector<Recommendation> recommend(const std::vector<LabRow>& rows,
                                      const engine::EngineConfig& base);

constexpr double kMostDivergence = 0.05;  ///< nats, mean
constexpr double kLeastAgreement = 90;    ///< per cent

}  // namespace vitrine::app::lab

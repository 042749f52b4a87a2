#pragma once

#include <cstdint>

#include "engine/backend/backend.h"

namespace vitrine::engine {

/// The part of kvBytesPerBlock() that is INT8 scales: one FP32 a token and KV head, for K and V of
/// every layer. 0 for FP16.
std::uint64_t kvScaleBytesPerBlock(const ModelConfig& config, const KvShape& shape);

}  // namespace vitrine::engine

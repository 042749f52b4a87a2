#pragma once

#include <vector>

#include "engine/backend/backend.h"
#include "kernels/cuda/types.h"

namespace vitrine::engine::cuda {

/// Where each layer lies in a block: one layer after another, of each the runs of
/// kernels/api/kv_cache.h. Together kvBytesPerBlock().
std::vector<kernels::cuda::KvLayer> kvLayers(const ModelConfig& config, const KvShape& shape);

}  // namespace vitrine::engine::cuda

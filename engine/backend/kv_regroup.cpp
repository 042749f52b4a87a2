#include "engine/backend/kv_regroup.h"

#include <algorithm>
#include <cstring>

#include "kernels/reference/dequantize.h"

namespace vitrine::engine {
namespace {

bool isPossible(int nHeads, int ownKvHeads, int kvHeads) {
  return kvHeads >= 1 && nHeads % kvHeads == 0 &&
         (kvHeads % ownKvHeads == 0 || ownKvHeads % kvHeads == 0);
}

bool isVector(const TensorView& view) {
  return view.rows == 1;
}

std::vector<float> widened(const TensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.rows * view.cols));
  for (std::int64_t r = 0; r < view.rows; ++r) {
    kernels::reference::dequantize(view.type, view.data + view.rowBytes() * r,
                                   values.data() + r * view.cols, view.cols);
  }
  return values;
}

/// to[h] = from[h / (to heads / from heads)], `headBytes` each.
void repeatHeads(const std::byte* from, int fromHeads, std::byte* to, int toHeads,
                 std::size_t headBytes) {
  const int times = toHeads / fromHeads;
  for (int h = 0; h < toHeads; ++h) {
    std::memcpy(to + headBytes * static_cast<std::size_t>(h),
                from + headBytes * static_cast<std::size_t>(h / times), headBytes);
  }
}

/// to[h] = mean of from[h · pooled … h · pooled + pooled − 1], `headValues` each.
void averageHeads(const float* from, int fromHeads, float* to, int toHeads,
                  std::size_t headValues) {
  const int pooled = fromHeads / toHeads;
  for (int h = 0; h < toHeads; ++h) {
    const float* first = from + headValues * static_cast<std::size_t>(h * pooled);
    float* out = to + headValues * static_cast<std::size_t>(h);
    for (std::size_t i = 0; i < headValues; ++i) {
      double sum = 0.0;
      for (int p = 0; p < pooled; ++p) sum += first[headValues * static_cast<std::size_t>(p) + i];
      out[i] = static_cast<float>(sum / pooled);
    }
  }
}

}  // namespace

KvGrouping kvGrouping(int ownKvHeads, int kvHeads) {
  if (kvHeads == 0 || kvHeads == ownKvHeads) return KvGrouping::kOwn;
  return kvHeads > ownKvHeads ? KvGrouping::kRepeated : KvGrouping::kPooled;
}

std::vector<int> possibleKvHeads(int nHeads, int ownKvHeads) {
  std::vector<int> numbers;
  for (int n = 1; n <= nHeads; ++n) {
    if (isPossible(nHeads, ownKvHeads, n)) numbers.push_back(n);
  }
  return numbers;
}

Result<ModelConfig> regroupedConfig(const ModelConfig& model, int kvHeads) {
  ModelConfig config = model;
  if (kvHeads == 0) return config;
  if (!isPossible(model.nHeads, model.nKvHeads, kvHeads)) {
    std::string possible;
    for (int n : possibleKvHeads(model.nHeads, model.nKvHeads)) {
      possible += fmt::format("{}{}", possible.empty() ? "" : ", ", n);
    }
    return fail(ErrorCode::kInvalidArgument,
                "{} KV heads are not possible for this model of {} query heads and {} KV heads; it "
                "may be {}",
                kvHeads, model.nHeads, model.nKvHeads, possible);
  }
  config.nKvHeads = kvHeads;
  return config;
}

TensorView regroupedShape(const TensorView& from, int ownKvHeads, int kvHeads) {
  TensorView shape = from;
  shape.data = nullptr;
  const KvGrouping grouping = kvGrouping(ownKvHeads, kvHeads);
  if (from.data == nullptr || grouping == KvGrouping::kOwn) return shape;
  std::int64_t& outputs = isVector(from) ? shape.cols : shape.rows;
  outputs = outputs / ownKvHeads * kvHeads;
  if (isVector(from) || grouping == KvGrouping::kPooled) shape.type = kernels::TensorType::kF32;
  return shape;
}

WeightMode regroupedMode(kernels::TensorType type, WeightMode mode, KvGrouping grouping) {
  if (grouping != KvGrouping::kPooled || mode != WeightMode::kNative) return mode;
  if (type == kernels::TensorType::kF32) return WeightMode::kNative;
  return type == kernels::TensorType::kBF16 ? WeightMode::kBf16 : WeightMode::kFp16;
}

RegroupedTensor RegroupedTensor::make(const TensorView& from, int ownKvHeads, int kvHeads) {
  RegroupedTensor tensor;
  tensor.m_view = from;
  const KvGrouping grouping = kvGrouping(ownKvHeads, kvHeads);
  if (!from || grouping == KvGrouping::kOwn) return tensor;
  tensor.m_view = regroupedShape(from, ownKvHeads, kvHeads);
  tensor.m_bytes.resize(tensor.m_view.bytes());
  const auto own = static_cast<std::size_t>(ownKvHeads);
  if (grouping == KvGrouping::kPooled) {
    const std::vector<float> values = widened(from);
    averageHeads(values.data(), ownKvHeads, reinterpret_cast<float*>(tensor.m_bytes.data()),
                 kvHeads, values.size() / own);
  } else if (isVector(from)) {
    const std::vector<float> values = widened(from);
    repeatHeads(reinterpret_cast<const std::byte*>(values.data()), ownKvHeads,
                tensor.m_bytes.data(), kvHeads, values.size() / own * sizeof(float));
  } else {
    repeatHeads(from.data, ownKvHeads, tensor.m_bytes.data(), kvHeads, from.bytes() / own);
  }
  tensor.m_view.data = tensor.m_bytes.data();
  return tensor;
}

}  // namespace vitrine::engine

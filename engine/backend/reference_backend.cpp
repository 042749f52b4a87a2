#include "engine/backend/reference_backend.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/backend/batch_check.h"
#include "engine/backend/kv_bytes.h"
#include "engine/backend/kv_regroup.h"
#include "engine/backend/model_math.h"
#include "engine/backend/plan_queries.h"
#include "engine/measure/machine.h"
#include "kernels/api/quantize.h"
#include "kernels/reference/reference.h"

namespace vitrine::engine {

namespace ref = kernels::reference;

ReferenceBackend::ReferenceBackend(std::shared_ptr<const Model> model, ModelConfig config,
                                   const WeightPrecision& precision,
                                   std::unique_ptr<const ReferenceWeights> weights)
    : m_model(std::move(model)),
      m_config(std::move(config)),
      m_precision(precision),
      m_weights(std::move(weights)),
      m_use(staticSites(m_weights->plan, m_config.nLayers)) {}

BackendInfo ReferenceBackend::info() const {
  return {BackendKind::kReference, "reference", "plain FP32 loops", processorName(), 1, ""};
}

Result<void> ReferenceBackend::configureCache(const KvShape& shape) {
  VITRINE_TRY(checkKvShape(shape, m_config));
  m_pool.reset();
  m_shape = KvShape{};
  for (SiteUse& use : m_use) use.values = use.clipped = 0, use.largest = 0.0F;
  m_blockBytes = 0;
  const std::uint64_t blockBytes = kvBytesPerBlock(m_config, shape);
  const std::uint64_t wanted = blockBytes * static_cast<std::uint64_t>(shape.nBlocks);
  const std::uint64_t available = availableMemoryBytes();
  // calloc: pages that are never written never take RAM.
  auto* pool = wanted <= available
                   ? static_cast<std::byte*>(std::calloc(static_cast<std::size_t>(shape.nBlocks),
                                                         static_cast<std::size_t>(blockBytes)))
                   : nullptr;
  if (pool == nullptr) {
    return fail(ErrorCode::kOutOfMemory,
                "the KV cache needs {} MiB ({} blocks of {} bytes); {} MiB are free", wanted >> 20,
                shape.nBlocks, blockBytes, available >> 20);
  }
  m_pool.reset(pool);
  m_shape = shape;
  m_blockBytes = static_cast<std::size_t>(blockBytes);
  m_written.assign(static_cast<std::size_t>(shape.nBlocks), false);
  return {};
}

kernels::KvLayerView ReferenceBackend::layerView(int layer) const {
  const bool int8 = m_shape.type == KvType::kInt8;
  const std::size_t rows = static_cast<std::size_t>(m_shape.nKvHeads) * m_shape.blockSize;
  const std::size_t valueBytes = rows * m_config.headDim * (int8 ? 1 : 2);
  const std::size_t scaleBytes = int8 ? rows * sizeof(float) : 0;
  const std::size_t first = static_cast<std::size_t>(layer) * 2 * (valueBytes + scaleBytes);
  kernels::KvLayerView view;
  view.base = m_pool.get();
  view.blockStride = m_blockBytes;
  view.kOffset = first;
  view.vOffset = first + valueBytes;
  view.kScaleOffset = first + 2 * valueBytes;
  view.vScaleOffset = view.kScaleOffset + scaleBytes;
  view.element = int8 ? kernels::KvElement::kInt8 : kernels::KvElement::kFp16;
  view.blockSize = m_shape.blockSize;
  view.nKvHeads = m_shape.nKvHeads;
  view.headDim = m_config.headDim;
  return view;
}

void ReferenceBackend::roundRow(int site, float* row, int width) {
  std::vector<std::int8_t> q(static_cast<std::size_t>(width));
  const float fixed = m_weights->plan.staticScale(site);
  if (fixed > 0.0F) {
    kernels::Int8Use met;
    const float scale = kernels::quantizeInt8Static(row, q.data(), width, fixed, &met);
    for (int i = 0; i < width; ++i) row[i] = scale * static_cast<float>(q[i]);
    for (SiteUse& use : m_use) {
      if (use.site != site) continue;
      use.values += met.values - m_weights->plan.outliers(site).size();  // zeros in their place
      use.clipped += met.clipped;
      use.largest = std::max(use.largest, met.largest);
    }
    return;
  }
  const bool groups = m_precision.weightScales == WeightScales::kGroup;
  const int group = groups ? m_precision.groupSize : width;
  for (int first = 0; first < width; first += group) {
    const int count = std::min(group, width - first);
    const float scale = kernels::quantizeInt8(row + first, q.data(), count);
    for (int i = 0; i < count; ++i) row[first + i] = scale * static_cast<float>(q[i]);
  }
}

void ReferenceBackend::enter(int site, const std::vector<float>& x, int rows, int width) {
  const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  if (m_observer != nullptr) {
    for (int r = 0; r < rows; ++r) {
      m_observer->row(site, std::span(x).subspan(static_cast<std::size_t>(r) * width, width), 0);
    }
  }
  if (m_precision.activations != ActivationMode::kInt8) return;
  if (!isReadByInt8(m_weights->plan, site, m_config.nLayers)) return;
  m_rounded.assign(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count));
  m_outliers.clear();
  for (int r = 0; r < rows; ++r) {
    float* row = m_rounded.data() + static_cast<std::size_t>(r) * width;
    for (int column : m_weights->plan.outliers(site)) {
      m_outliers.push_back(row[column]);
      row[column] = 0.0F;
    }
    roundRow(site, row, width);
  }
}

void ReferenceBackend::linear(const std::vector<float>& x, const ReferenceMatrix& weight,
                              const ReferenceMatrix* bias, std::vector<float>& y, int rows) {
  y.resize(static_cast<std::size_t>(rows) * weight.rows);
  const bool rounded = weight.int8 && m_precision.activations == ActivationMode::kInt8;
  ref::linear(rounded ? m_rounded.data() : x.data(), weight.data(),
              bias != nullptr ? bias->data() : nullptr, y.data(), rows, weight.rows, weight.cols);
  if (weight.outliers.empty()) return;
  const int count = static_cast<int>(weight.outliers.size()) / weight.rows;
  std::vector<float> part(y.size());
  ref::linear(m_outliers.data(), weight.outliers.data(), nullptr, part.data(), rows, weight.rows,
              count);
  ref::add(y.data(), part.data(), y.size());
}

void ReferenceBackend::attend(int layerIndex, std::span<const BatchSequence> batch, int rows) {
  const ReferenceLayer& layer = m_weights->layers[layerIndex];
  const ModelConfig& c = m_config;
  ref::rmsNorm(m_x.data(), layer.attentionNorm.data(), m_normed.data(), rows, c.dModel, c.normEps);
  enter(siteIndex(layerIndex, LinearInput::kAttention), m_normed, rows, c.dModel);
  linear(m_normed, layer.wq, &layer.bq, m_q, rows);
  linear(m_normed, layer.wk, &layer.bk, m_k, rows);
  linear(m_normed, layer.wv, &layer.bv, m_v, rows);
  if (layer.qNorm.data() != nullptr) {
    ref::rmsNorm(m_q.data(), layer.qNorm.data(), m_q.data(), rows * c.nHeads, c.headDim, c.normEps);
  }
  if (layer.kNorm.data() != nullptr) {
    ref::rmsNorm(m_k.data(), layer.kNorm.data(), m_k.data(), rows * c.nKvHeads, c.headDim,
                 c.normEps);
  }
  kernels::RopeParams rope;
  rope.rows = rows;
  rope.nHeads = c.nHeads;
  rope.headDim = c.headDim;
  rope.dims = c.rope.dims;
  rope.halves = c.rope.style == RopeStyle::kHalves;
  rope.base = c.rope.base;
  rope.linearScale = c.rope.linearScale;
  rope.freqFactors = c.rope.freqFactors.empty() ? nullptr : c.rope.freqFactors.data();
  ref::rope(m_q.data(), m_positions.data(), rope);
  rope.nHeads = c.nKvHeads;
  ref::rope(m_k.data(), m_positions.data(), rope);
  for (int r = 0; r < rows && m_observer != nullptr; ++r) {
    const auto width = static_cast<std::size_t>(c.kvDim());
    m_observer->keys(layerIndex, std::span(m_k).subspan(static_cast<std::size_t>(r) * width, width),
                     0);
  }
  if (m_shape.type == KvType::kInt8) {
    ref::hadamard(m_q.data(), rows * c.nHeads, c.headDim);
    ref::hadamard(m_k.data(), rows * c.nKvHeads, c.headDim);
  }

  const kernels::KvLayerView cache = layerView(layerIndex);
  m_attention.resize(m_q.size());
  kernels::AttentionParams params;
  params.nHeads = c.nHeads;
  params.scale = attentionScale(c);
  params.softcap = c.attentionSoftcap;
  params.window = c.slidingWindow;
  std::size_t row = 0;
  for (const BatchSequence& s : batch) {
    params.rows = static_cast<int>(s.tokens.size());
    params.firstPosition = s.firstPosition;
    params.blockTable = s.blockTable.data();
    ref::kvAppend(cache, params.blockTable, s.firstPosition, m_k.data() + row * c.kvDim(),
                  m_v.data() + row * c.kvDim(), params.rows);
    ref::attention(m_q.data() + row * c.qDim(), cache, m_attention.data() + row * c.qDim(), params);
    row += s.tokens.size();
  }
  enter(siteIndex(layerIndex, LinearInput::kAttentionOut), m_attention, rows, c.qDim());
  linear(m_attention, layer.wo, nullptr, m_delta, rows);
  ref::add(m_x.data(), m_delta.data(), m_x.size());
}

void ReferenceBackend::feedForward(int layerIndex, int rows) {
  const ReferenceLayer& layer = m_weights->layers[static_cast<std::size_t>(layerIndex)];
  const ModelConfig& c = m_config;
  ref::rmsNorm(m_x.data(), layer.ffnNorm.data(), m_normed.data(), rows, c.dModel, c.normEps);
  enter(siteIndex(layerIndex, LinearInput::kFfn), m_normed, rows, c.dModel);
  linear(m_normed, layer.wGate, nullptr, m_gate, rows);
  linear(m_normed, layer.wUp, nullptr, m_up, rows);
  if (c.activation == Activation::kGeluTanh) {
    ref::geglu(m_gate.data(), m_up.data(), m_gate.data(), m_gate.size());
  } else {
    ref::swiglu(m_gate.data(), m_up.data(), m_gate.data(), m_gate.size());
  }
  enter(siteIndex(layerIndex, LinearInput::kDown), m_gate, rows, c.dFfn);
  linear(m_gate, layer.wDown, nullptr, m_delta, rows);
  ref::add(m_x.data(), m_delta.data(), m_x.size());
}

Result<LogitsView> ReferenceBackend::logits(std::span<const BatchSequence> batch) {
  const ModelConfig& c = m_config;
  std::size_t end = 0;
  int wanted = 0;
  for (const BatchSequence& s : batch) {
    end += s.tokens.size();
    const auto first = (end - static_cast<std::size_t>(s.logitRows)) * c.dModel;
    std::copy_n(m_x.data() + first, static_cast<std::size_t>(s.logitRows) * c.dModel,
                m_normed.data() + static_cast<std::size_t>(wanted) * c.dModel);
    wanted += s.logitRows;
  }
  ref::rmsNorm(m_normed.data(), m_weights->outputNorm.data(), m_normed.data(), wanted, c.dModel,
               c.normEps);
  enter(outputSite(c.nLayers), m_normed, wanted, c.dModel);
  linear(m_normed, m_weights->output, nullptr, m_logits, wanted);
  if (c.logitSoftcap > 0.0F) ref::softcap(m_logits.data(), c.logitSoftcap, m_logits.size());
  return LogitsView{m_logits, c.vocabSize};
}

Result<LogitsView> ReferenceBackend::forward(std::span<const BatchSequence> batch) {
  VITRINE_TRY(checkBatch(batch, m_config, m_shape));
  try {
    const ModelConfig& c = m_config;
    std::vector<TokenId> tokens;
    m_positions.clear();
    for (const BatchSequence& s : batch) {
      tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
      for (std::size_t i = 0; i < s.tokens.size(); ++i) {
        const int position = s.firstPosition + static_cast<int>(i);
        m_positions.push_back(position);
        m_written[static_cast<std::size_t>(s.blockTable[position / m_shape.blockSize])] = true;
      }
    }
    const int rows = static_cast<int>(tokens.size());
    m_x.resize(tokens.size() * static_cast<std::size_t>(c.dModel));
    m_normed.resize(m_x.size());
    const TensorView& table = m_model->weights().tokenEmbedding;
    ref::embedding(table.type, table.data, table.rowBytes(), tokens.data(), rows, c.dModel,
                   c.embeddingScale, m_x.data());
    VITRINE_TRY(m_model->checkFile());
    for (int layer = 0; layer < c.nLayers; ++layer) {
      attend(layer, batch, rows);
      feedForward(layer, rows);
    }
    return logits(batch);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "no memory for the activations of this step");
  }
}

Result<void> ReferenceBackend::copyBlock(BlockId from, BlockId to, int tokens) {
  VITRINE_TRY(checkBlock(from, m_shape));
  VITRINE_TRY(checkBlock(to, m_shape));
  const int slots = std::clamp(tokens, 0, m_shape.blockSize);
  const int elementBytes = m_shape.type == KvType::kInt8 ? 1 : 2;
  const std::size_t rowBytes = static_cast<std::size_t>(m_config.headDim) * elementBytes;
  const auto copyRuns = [&](std::size_t offset, std::size_t slotBytes) {
    for (int head = 0; head < m_shape.nKvHeads; ++head) {
      const std::size_t first = offset + slotBytes * head * m_shape.blockSize;
      std::memcpy(m_pool.get() + m_blockBytes * to + first,
                  m_pool.get() + m_blockBytes * from + first, slotBytes * slots);
    }
  };
  if (from == to) return {};
  m_written[static_cast<std::size_t>(to)] = true;
  for (int layer = 0; layer < m_config.nLayers; ++layer) {
    const kernels::KvLayerView view = layerView(layer);
    copyRuns(view.kOffset, rowBytes);
    copyRuns(view.vOffset, rowBytes);
    if (m_shape.type == KvType::kInt8) {
      copyRuns(view.kScaleOffset, sizeof(float));
      copyRuns(view.vScaleOffset, sizeof(float));
    }
  }
  return {};
}

Result<void> ReferenceBackend::readBlock(BlockId block, std::span<std::byte> bytes) const {
  VITRINE_TRY(checkBlockBytes(block, bytes.size(), m_blockBytes, m_shape));
  std::memcpy(bytes.data(), m_pool.get() + m_blockBytes * block, m_blockBytes);
  return {};
}

Result<void> ReferenceBackend::writeBlock(BlockId block, std::span<const std::byte> bytes) {
  VITRINE_TRY(checkBlockBytes(block, bytes.size(), m_blockBytes, m_shape));
  m_written[static_cast<std::size_t>(block)] = true;
  std::memcpy(m_pool.get() + m_blockBytes * block, bytes.data(), m_blockBytes);
  return {};
}

BackendMemory ReferenceBackend::memory() const {
  BackendMemory memory;
  memory.weightBytes = m_weights->bytes();
  memory.mappedBytes = m_model->weights().tokenEmbedding.bytes();
  if (m_pool) {
    memory.kvBytesPerBlock = m_blockBytes;
    memory.kvScaleBytesPerBlock = kvScaleBytesPerBlock(m_config, m_shape);
    const auto written = std::count(m_written.begin(), m_written.end(), true);
    memory.kvAllocatedBytes = m_blockBytes * static_cast<std::uint64_t>(written);
  }
  for (const std::vector<float>* v : {&m_x, &m_normed, &m_q, &m_k, &m_v, &m_attention, &m_gate,
                                      &m_up, &m_delta, &m_rounded, &m_outliers, &m_logits}) {
    memory.workspaceBytes += v->capacity() * sizeof(float);
  }
  memory.weightBytesPerToken = memory.weightBytes + m_model->weights().tokenEmbedding.rowBytes();
  return memory;
}

Result<std::unique_ptr<Backend>> makeReferenceBackend(std::shared_ptr<const Model> model,
                                                      const BackendOptions& options,
                                                      const Progress& progress,
                                                      std::stop_token stop) {
  VITRINE_ASSIGN(ModelConfig config, regroupedConfig(model->config(), options.kvHeads));
  VITRINE_ASSIGN(auto weights, ReferenceWeights::make(*model, config, options.precision, progress,
                                                      std::move(stop)));
  return std::make_unique<ReferenceBackend>(std::move(model), std::move(config), options.precision,
                                            std::move(weights));
}

}  // namespace vitrine::engine

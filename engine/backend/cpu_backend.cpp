#include "engine/backend/cpu_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "engine/backend/batch_check.h"
#include "engine/backend/cpu_pass.h"
#include "engine/backend/kv_bytes.h"
#include "engine/backend/kv_regroup.h"
#include "engine/backend/model_math.h"
#include "engine/backend/plan_queries.h"
#include "engine/measure/machine.h"
#include "kernels/reference/reference.h"

namespace vitrine::engine {

namespace cpu = kernels::cpu;

namespace {

constexpr std::size_t kTouchBytes = std::size_t{2} << 20;  // a huge page

Result<cpu::Isa> chooseIsa() {
  const char* forced = std::getenv("VITRINE_ISA");
  if (forced == nullptr || *forced == '\0') return cpu::bestIsa();
  for (cpu::Isa isa : {cpu::Isa::kAvx512, cpu::Isa::kAvx2, cpu::Isa::kPortable}) {
    if (std::string_view(forced) != cpu::shortName(isa)) continue;
    if (cpu::isSupported(isa)) return isa;
    return fail(ErrorCode::kUnsupported,
                "VITRINE_ISA asks for {}, which this processor does not have; the best here is {}",
                forced, cpu::shortName(cpu::bestIsa()));
  }
  return fail(ErrorCode::kInvalidArgument,
              "VITRINE_ISA is \"{}\"; it may be avx512, avx2 or portable", forced);
}

unsigned formatsOf(const cpu::CpuKernels& kernels, const CpuWeights& weights, bool int8) {
  unsigned formats = 0;
  const auto add = [&](const CpuMatrix& m) {
    formats |= 1U << static_cast<unsigned>(cpu::activationFormat(kernels, m.weights, int8));
  };
  for (const CpuLayer& l : weights.layers) {
    for (const auto* m : {&l.wq, &l.wk, &l.wv, &l.wo, &l.wGate, &l.wUp, &l.wDown}) add(*m);
  }
  add(weights.output);
  return formats;
}

}  // namespace

CpuBackend::CpuBackend(std::shared_ptr<const Model> model, ModelConfig config,
                       const WeightPrecision& precision, const cpu::CpuKernels& kernels,
                       std::unique_ptr<cpu::ThreadPool> pool,
                       std::unique_ptr<const CpuWeights> weights, std::string note)
    : m_model(std::move(model)),
      m_config(std::move(config)),
      m_precision(precision),
      m_note(std::move(note)),
      m_kernels(kernels),
      m_pool(std::move(pool)),
      m_weights(std::move(weights)),
      m_activationFormats(
          formatsOf(kernels, *m_weights, precision.activations == ActivationMode::kInt8)),
      m_ropeFrequencies(ropeFrequencies(m_config.rope)) {
  const int sites = siteCount(m_config.nLayers);
  for (int site = 0; site < sites; ++site) {
    const auto outliers = m_weights->plan.outliers(site).size();
    m_mostOutliers = std::max(m_mostOutliers, static_cast<int>(outliers));
  }
  if (m_precision.activations == ActivationMode::kInt8 &&
      m_precision.activationScales == ActivationScales::kStatic) {
    m_use.assign(static_cast<std::size_t>(m_pool->threads()),
                 std::vector<kernels::Int8Use>(static_cast<std::size_t>(sites)));
  }
}

BackendInfo CpuBackend::info() const {
  return {BackendKind::kCpu, "cpu", cpu::nameOf(m_kernels.isa), processorName(),
          m_pool->threads(), m_note};
}

Result<void> CpuBackend::configureCache(const KvShape& shape) {
  VITRINE_TRY(checkKvShape(shape, m_config));
  m_kv = HostMemory();
  m_shape = KvShape{};
  m_blockBytes = 0;
  m_touched.clear();
  for (auto& thread : m_use) thread.assign(thread.size(), {});
  const std::uint64_t blockBytes = kvBytesPerBlock(m_config, shape);
  // Vectors of 16 values may read past the last head of the last block.
  VITRINE_ASSIGN(m_kv, HostMemory::map(blockBytes * static_cast<std::uint64_t>(shape.nBlocks) + 64,
                                       "the blocks of the KV cache", MemoryUse::kKvCache));
  m_shape = shape;
  m_blockBytes = static_cast<std::size_t>(blockBytes);
  m_touched.assign((m_kv.bytes() + kTouchBytes - 1) / kTouchBytes, 0);
  return {};
}

void CpuBackend::touch(BlockId block) {
  const std::size_t first = m_blockBytes * static_cast<std::size_t>(block);
  for (std::size_t at = first / kTouchBytes; at <= (first + m_blockBytes - 1) / kTouchBytes; ++at) {
    m_touched[at] = 1;
  }
}

Result<LogitsView> CpuBackend::forward(std::span<const BatchSequence> batch) {
  VITRINE_TRY(checkBatch(batch, m_config, m_shape));
  std::size_t wanted = 0;
  std::size_t rows = 0;
  for (const BatchSequence& s : batch) {
    wanted += static_cast<std::size_t>(s.logitRows);
    rows += s.tokens.size();
    const std::size_t end = static_cast<std::size_t>(s.firstPosition) + s.tokens.size();
    const auto size = static_cast<std::size_t>(m_shape.blockSize);
    for (std::size_t b = static_cast<std::size_t>(s.firstPosition) / size; b * size < end; ++b) {
      touch(s.blockTable[b]);
    }
  }
  const auto vocab = static_cast<std::size_t>(m_config.vocabSize);
  try {
    if (m_logits.size() < wanted * vocab) m_logits.resize(wanted * vocab);
    m_workspace.resize(m_config, m_activationFormats, m_mostOutliers,
                       static_cast<int>(std::min<std::size_t>(rows, kPassRows)), m_pool->threads());
    float* logits = m_logits.data();
    std::vector<CpuPass::Slice> slices;
    int room = kPassRows;
    const auto flush = [&] {
      std::size_t passLogits = 0;
      for (const CpuPass::Slice& s : slices) passLogits += static_cast<std::size_t>(s.logitRows);
      CpuPass pass(*this, std::move(slices), logits);
      m_pool->run([&](int thread) { pass.run(thread); });
      logits += passLogits * vocab;
      slices.clear();
      room = kPassRows;
    };
    for (const BatchSequence& s : batch) {
      const int total = static_cast<int>(s.tokens.size());
      for (int first = 0; first < total;) {
        const int count = std::min(room, total - first);
        const int end = first + count;
        CpuPass::Slice slice;
        slice.tokens =
            s.tokens.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
        slice.firstPosition = s.firstPosition + first;
        slice.blockTable = s.blockTable;
        slice.logitRows = std::clamp(end - (total - s.logitRows), 0, count);
        slices.push_back(slice);
        room -= count;
        first = end;
        if (room == 0) flush();
      }
    }
    if (!slices.empty()) flush();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "no memory for the activations of this step of {} rows",
                rows);
  }
  VITRINE_TRY(m_model->checkFile());  // the embedding is read from the mapped file
  const std::span<float> values(m_logits.data(), wanted * vocab);
  if (m_config.logitSoftcap > 0.0F) {
    kernels::reference::softcap(values.data(), m_config.logitSoftcap, values.size());
  }
  return LogitsView{values, m_config.vocabSize};
}

Result<void> CpuBackend::copyBlock(BlockId from, BlockId to, int tokens) {
  VITRINE_TRY(checkBlock(from, m_shape));
  VITRINE_TRY(checkBlock(to, m_shape));
  if (from == to || tokens <= 0) return {};
  // All of it: positions beyond `tokens` are written before they are read.
  touch(to);
  std::memcpy(m_kv.data() + m_blockBytes * static_cast<std::size_t>(to),
              m_kv.data() + m_blockBytes * static_cast<std::size_t>(from), m_blockBytes);
  return {};
}

Result<void> CpuBackend::readBlock(BlockId block, std::span<std::byte> bytes) const {
  VITRINE_TRY(checkBlockBytes(block, bytes.size(), m_blockBytes, m_shape));
  std::memcpy(bytes.data(), m_kv.data() + m_blockBytes * static_cast<std::size_t>(block),
              m_blockBytes);
  return {};
}

Result<void> CpuBackend::writeBlock(BlockId block, std::span<const std::byte> bytes) {
  VITRINE_TRY(checkBlockBytes(block, bytes.size(), m_blockBytes, m_shape));
  touch(block);
  std::memcpy(m_kv.data() + m_blockBytes * static_cast<std::size_t>(block), bytes.data(),
              m_blockBytes);
  return {};
}

std::vector<SiteUse> CpuBackend::activationUse() const {
  if (m_use.empty()) return {};
  std::vector<SiteUse> sites = staticSites(m_weights->plan, m_config.nLayers);
  for (SiteUse& sum : sites) {
    for (const std::vector<kernels::Int8Use>& thread : m_use) {
      const kernels::Int8Use& one = thread[static_cast<std::size_t>(sum.site)];
      sum.values += one.values;
      sum.clipped += one.clipped;
      sum.largest = std::max(sum.largest, one.largest);
    }
  }
  return sites;
}

BackendMemory CpuBackend::memory() const {
  const TensorView& embedding = m_model->weights().tokenEmbedding;
  BackendMemory memory;
  memory.weightBytes = m_weights->matrixBytes() + m_weights->vectorBytes();
  memory.mappedBytes = embedding.bytes();
  if (m_kv) {
    memory.kvBytesPerBlock = m_blockBytes;
    memory.kvScaleBytesPerBlock = kvScaleBytesPerBlock(m_config, m_shape);
    const auto pieces = static_cast<std::size_t>(std::count(m_touched.begin(), m_touched.end(), 1));
    memory.kvAllocatedBytes = std::min(pieces * kTouchBytes, m_kv.bytes());
  }
  memory.workspaceBytes = m_workspace.bytes() + m_logits.capacity() * sizeof(float);
  memory.weightBytesPerToken = memory.weightBytes + embedding.rowBytes();
  return memory;
}

Result<std::unique_ptr<Backend>> makeCpuBackend(std::shared_ptr<const Model> model,
                                                const BackendOptions& options,
                                                const Progress& progress, std::stop_token stop) {
  VITRINE_ASSIGN(const cpu::Isa isa, chooseIsa());
  VITRINE_ASSIGN(ModelConfig config, regroupedConfig(model->config(), options.kvHeads));
  if (config.headDim > 1024) {
    return fail(ErrorCode::kUnsupported, "heads of {} elements; the cpu backend takes up to 1024",
                config.headDim);
  }
  if (config.groupSize() > cpu::kAttentionRows) {
    return fail(ErrorCode::kUnsupported,
                "{} query heads for each KV head; the cpu backend takes up to {}",
                config.groupSize(), cpu::kAttentionRows);
  }
  try {
    auto pool = std::make_unique<cpu::ThreadPool>(options.threads > 0 ? options.threads
                                                                      : cpu::usableCores());
    VITRINE_ASSIGN(auto weights, CpuWeights::make(*model, config, options.precision, *pool,
                                                  progress, std::move(stop)));
    return std::make_unique<CpuBackend>(std::move(model), std::move(config), options.precision,
                                        cpu::kernelsFor(isa), std::move(pool), std::move(weights),
                                        options.note);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "no memory for the tables of the packed weights");
  }
}

}  // namespace vitrine::engine

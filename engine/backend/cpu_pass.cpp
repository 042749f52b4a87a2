#include "engine/backend/cpu_pass.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/model_math.h"
#include "kernels/reference/reference.h"

namespace vitrine::engine {

namespace cpu = kernels::cpu;

namespace {

// A slice of fewer rows has its attention cut by positions, so that all threads work at depth; a
// longer one by rows. The results are the same bits.
constexpr int kManyRows = 4;
// Up to here every thread prepares the rows of a product for itself instead of waiting for others.
constexpr int kOwnRows = 2;

thread_local int t_thread = 0;  // index of this thread in the task that runs

constexpr int groupsOf(int columns) {
  return (columns + cpu::kGroup - 1) / cpu::kGroup;
}

}  // namespace

CpuPass::CpuPass(CpuBackend& backend, std::vector<Slice> slices, float* logits)
    : m_backend(backend),
      m_config(backend.m_config),
      m_kernels(backend.m_kernels),
      m_pool(*backend.m_pool),
      m_work(backend.m_workspace),
      m_slices(std::move(slices)),
      m_logits(logits) {
  for (Slice& s : m_slices) {
    s.firstRow = static_cast<int>(m_rows.size());
    const int count = static_cast<int>(s.tokens.size());
    for (int i = 0; i < count; ++i) {
      if (i >= count - s.logitRows) m_wanted.push_back(static_cast<int>(m_rows.size()));
      m_rows.push_back({&s, s.firstPosition + i});
    }
  }
  planAttention();
}

void CpuPass::planAttention() {
  const int kvHeads = m_config.nKvHeads;
  const int group = m_config.groupSize();
  const int tileRows = std::max(1, cpu::kAttentionRows / group);
  const auto partial = static_cast<std::size_t>(cpu::partialFloats(m_config.headDim));
  std::size_t floats = 0;
  m_partials.resize(m_slices.size());
  for (std::size_t i = 0; i < m_slices.size(); ++i) {
    const Slice& s = m_slices[i];
    const int count = static_cast<int>(s.tokens.size());
    if (count >= kManyRows) {
      for (int first = (count - 1) / tileRows * tileRows; first >= 0; first -= tileRows) {
        for (int h = 0; h < kvHeads; ++h) {
          m_items.push_back({&s, h, first, std::min(tileRows, count - first), -1, 0});
        }
      }
      continue;
    }
    SlicePartials& p = m_partials[i];
    p.offset = floats;
    const int window = m_config.slidingWindow;
    if (window > 0) p.firstRange = std::max(0, s.firstPosition + 1 - window) / cpu::kAttentionRange;
    p.ranges = (s.firstPosition + count - 1) / cpu::kAttentionRange + 1 - p.firstRange;
    const std::size_t rangeFloats = static_cast<std::size_t>(count) * group * partial;
    for (int h = 0; h < kvHeads; ++h) {
      for (int r = 0; r < p.ranges; ++r, floats += rangeFloats) {
        m_items.push_back({&s, h, 0, count, p.firstRange + r, floats});
      }
    }
  }
  if (m_work.partials.size() < floats) m_work.partials.resize(floats);
}

void CpuPass::run(int thread) {
  t_thread = thread;
  embed();
  for (int i = 0; i < m_config.nLayers; ++i) layer(i);
  if (!m_wanted.empty()) wantedLogits();
}

void CpuPass::embed() {
  const TensorView& table = m_backend.m_model->weights().tokenEmbedding;
  const int pairs = m_config.rope.dims / 2;
  const bool halves = m_config.rope.style == RopeStyle::kHalves;
  const int rows = static_cast<int>(m_rows.size());
  for (std::int64_t r; (r = m_pool.claim(1)) < rows;) {
    const Row& row = m_rows[static_cast<std::size_t>(r)];
    const TokenId token =
        row.slice->tokens[static_cast<std::size_t>(row.position - row.slice->firstPosition)];
    kernels::reference::embedding(table.type, table.data, table.rowBytes(), &token, 1,
                                  m_config.dModel, m_config.embeddingScale,
                                  m_work.x.data() + r * m_config.dModel);
    float* cosines = m_work.cosines.data() + r * m_config.rope.dims;
    float* sines = m_work.sines.data() + r * m_config.rope.dims;
    for (int i = 0; i < pairs; ++i) {
      const double angle = row.position * m_backend.m_ropeFrequencies[static_cast<std::size_t>(i)];
      const auto cosine = static_cast<float>(std::cos(angle));
      const auto sine = static_cast<float>(std::sin(angle));
      const int first = halves ? i : 2 * i;
      const int second = halves ? i + pairs : 2 * i + 1;
      cosines[first] = cosines[second] = cosine;
      sines[first] = -sine;
      sines[second] = sine;
    }
  }
  m_pool.barrier();
}

cpu::ActivationFormat CpuPass::formatOf(const Product& product) const {
  return cpu::activationFormat(m_kernels, product.matrix->weights,
                               m_backend.m_precision.activations == ActivationMode::kInt8);
}

void CpuPass::prepareRow(int site, std::span<const Product> products, const PreparedRows& to,
                         int row, std::span<const float> x, bool first) {
  const auto width = static_cast<int>(x.size());
  if (first && m_backend.m_observer != nullptr) m_backend.m_observer->row(site, x, t_thread);
  const float* rest = x.data();  // what the integers hold
  const auto outliers = m_backend.m_weights->plan.outliers(site);
  if (!outliers.empty()) {
    float* part = m_work.threads[static_cast<std::size_t>(t_thread)].part.data();
    for (std::size_t i = 0; i < outliers.size(); ++i) {
      part[i] = x[static_cast<std::size_t>(outliers[i])];
    }
    const int count = static_cast<int>(outliers.size());
    m_kernels.prepare(part, count, to.outliers.view(ActivationFormat::kF32, groupsOf(count)), row);
    std::copy(x.begin(), x.end(), part);
    for (int column : outliers) part[column] = 0.0F;
    rest = part;
  }
  unsigned done = 0;
  for (const Product& p : products) {
    const ActivationFormat format = formatOf(p);
    const unsigned bit = 1U << static_cast<unsigned>(format);
    if ((done & bit) != 0) continue;
    done |= bit;
    Activations view = to.rows.view(format, groupsOf(width));
    if (format < ActivationFormat::kInt16) {
      m_kernels.prepare(x.data(), width, view, row);
      continue;
    }
    if (format != ActivationFormat::kInt16)
      view.fixedScale = m_backend.m_weights->plan.staticScale(site);
    if (first && view.fixedScale > 0.0F) {
      view.use =
          &m_backend.m_use[static_cast<std::size_t>(t_thread)][static_cast<std::size_t>(site)];
      view.use->values -= outliers.size();  // zeros in their place
    }
    m_kernels.prepare(rest, width, view, row);
  }
}

void CpuPass::computeTiles(const Product& p, int begin, int end, const PreparedRows& from,
                           int rows) {
  float* panel = m_work.threads[static_cast<std::size_t>(t_thread)].panel.data();
  const Activations x = from.rows.view(formatOf(p), p.matrix->weights.groups);
  m_kernels.matmul({&p.matrix->weights, begin, end, &x, rows, p.y, p.yStride, p.accumulate, panel});
  if (p.matrix->outliers.rows == 0) return;
  const Activations part = from.outliers.view(ActivationFormat::kF32, p.matrix->outliers.groups);
  m_kernels.matmul({&p.matrix->outliers, begin, end, &part, rows, p.y, p.yStride, true, panel});
}

template <typename RowSource>
void CpuPass::multiply(int site, std::span<const Product> products, int rows, int width,
                       RowSource source) {
  ThreadWorkspace& mine = m_work.threads[static_cast<std::size_t>(t_thread)];
  const bool own = rows <= kOwnRows;
  const PreparedRows& prepared = own ? mine.prepared : m_work.prepared;
  const auto prepare = [&](int row, bool first) {
    const std::span<const float> x(source(row, mine.row.data()), static_cast<std::size_t>(width));
    prepareRow(site, products, prepared, row, x, first);
  };
  if (own) {
    for (int r = 0; r < rows; ++r) prepare(r, t_thread == 0);
  } else {
    for (std::int64_t r; (r = m_pool.claim(1)) < rows;) prepare(static_cast<int>(r), true);
    m_pool.barrier();
  }

  int tiles = 0;
  for (const Product& p : products) tiles += p.matrix->weights.tiles;
  // Small enough that the threads end together, and a multiple of 4 tiles where there are many.
  const int share = tiles / (m_pool.threads() * 8);
  const int chunk = share < 4 ? 2 : share / 4 * 4;
  for (std::int64_t first; (first = m_pool.claim(chunk)) < tiles;) {
    int begin = static_cast<int>(first);
    int left = std::min(chunk, tiles - begin);
    for (const Product& p : products) {
      if (left <= 0) break;
      if (begin >= p.matrix->weights.tiles) {
        begin -= p.matrix->weights.tiles;
        continue;
      }
      const int end = std::min(begin + left, p.matrix->weights.tiles);
      computeTiles(p, begin, end, prepared, rows);
      left -= end - begin;
      begin = 0;
    }
  }
  m_pool.barrier();
}

void CpuPass::layer(int index) {
  const CpuLayer& w = m_backend.m_weights->layers[static_cast<std::size_t>(index)];
  const ModelConfig& c = m_config;
  const int rows = static_cast<int>(m_rows.size());
  const auto normed = [&](const std::vector<float>& weight) {
    return [this, &c, &weight](int row, float* scratch) -> const float* {
      m_kernels.rmsNorm(m_work.x.data() + static_cast<std::ptrdiff_t>(row) * c.dModel,
                        weight.data(), scratch, c.dModel, c.normEps);
      return scratch;
    };
  };

  const Product qkv[] = {{&w.wq, m_work.q.data(), c.qDim()},
                         {&w.wk, m_work.k.data(), c.kvDim()},
                         {&w.wv, m_work.v.data(), c.kvDim()}};
  multiply(siteIndex(index, LinearInput::kAttention), qkv, rows, c.dModel, normed(w.attentionNorm));
  rotateAndStore(index);
  // Nothing after the last layer's K and V is wanted of a chunk that is not a prompt's last; an
  // observer wants to see it all.
  if (index + 1 == c.nLayers && m_wanted.empty() && m_backend.m_observer == nullptr) return;
  attend(index);
  const Product out[] = {{&w.wo, m_work.x.data(), c.dModel, true}};
  multiply(siteIndex(index, LinearInput::kAttentionOut), out, rows, c.qDim(),
           [this](int row, float* scratch) { return mergedRow(row, scratch); });

  const Product gateUp[] = {{&w.wGate, m_work.gate.data(), c.dFfn},
                            {&w.wUp, m_work.up.data(), c.dFfn}};
  multiply(siteIndex(index, LinearInput::kFfn), gateUp, rows, c.dModel, normed(w.ffnNorm));
  const Product down[] = {{&w.wDown, m_work.x.data(), c.dModel, true}};
  multiply(siteIndex(index, LinearInput::kDown), down, rows, c.dFfn,
           [this, &c](int row, float* scratch) -> const float* {
             const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(row) * c.dFfn;
             const auto gated =
                 c.activation == Activation::kSilu ? m_kernels.swiglu : m_kernels.geglu;
             gated(m_work.gate.data() + first, m_work.up.data() + first, scratch, c.dFfn);
             return scratch;
           });
}

cpu::KvHead CpuPass::kvHead(int layer, int head, const Slice& slice) const {
  const KvShape& shape = m_backend.m_shape;
  const bool int8 = shape.type == KvType::kInt8;
  const std::size_t index = static_cast<std::size_t>(layer) * shape.nKvHeads + head;
  return {m_backend.m_kv.data(),
          m_backend.m_blockBytes,
          index * cpu::kvHeadBytes(m_config.headDim, shape.blockSize, int8),
          slice.blockTable.data(),
          shape.blockSize,
          m_config.headDim,
          int8};
}

void CpuPass::rotateAndStore(int layerIndex) {
  const CpuLayer& w = m_backend.m_weights->layers[static_cast<std::size_t>(layerIndex)];
  const ModelConfig& c = m_config;
  const bool halves = c.rope.style == RopeStyle::kHalves;
  const int rows = static_cast<int>(m_rows.size());

  const auto addBias = [](float* x, const std::vector<float>& bias) {
    for (std::size_t i = 0; i < bias.size(); ++i) x[i] += bias[i];
  };
  const auto rotate = [&](float* heads, int count, const std::vector<float>& norm, int row) {
    for (int h = 0; h < count; ++h) {
      float* head = heads + static_cast<std::ptrdiff_t>(h) * c.headDim;
      if (!norm.empty()) m_kernels.rmsNorm(head, norm.data(), head, c.headDim, c.normEps);
      m_kernels.rope(head, m_work.cosines.data() + static_cast<std::ptrdiff_t>(row) * c.rope.dims,
                     m_work.sines.data() + static_cast<std::ptrdiff_t>(row) * c.rope.dims,
                     c.rope.dims, halves);
    }
  };

  const auto transform = [&](float* heads, int count) {
    if (m_backend.m_shape.type != KvType::kInt8) return;
    for (int h = 0; h < count; ++h) {
      m_kernels.hadamard(heads + static_cast<std::ptrdiff_t>(h) * c.headDim, c.headDim);
    }
  };

  for (std::int64_t item; (item = m_pool.claim(1)) < 2 * rows;) {
    const int row = static_cast<int>(item / 2);
    if (item % 2 == 0) {
      float* q = m_work.q.data() + static_cast<std::ptrdiff_t>(row) * c.qDim();
      addBias(q, w.bq);
      rotate(q, c.nHeads, w.qNorm, row);
      transform(q, c.nHeads);
      continue;
    }
    float* k = m_work.k.data() + static_cast<std::ptrdiff_t>(row) * c.kvDim();
    float* v = m_work.v.data() + static_cast<std::ptrdiff_t>(row) * c.kvDim();
    addBias(k, w.bk);
    addBias(v, w.bv);
    rotate(k, c.nKvHeads, w.kNorm, row);
    if (m_backend.m_observer != nullptr) {
      m_backend.m_observer->keys(layerIndex, {k, static_cast<std::size_t>(c.kvDim())}, t_thread);
    }
    transform(k, c.nKvHeads);
    const Row& r = m_rows[static_cast<std::size_t>(row)];
    for (int h = 0; h < c.nKvHeads; ++h) {
      const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(h) * c.headDim;
      m_kernels.kvStore(kvHead(layerIndex, h, *r.slice), r.position, k + first, v + first);
    }
  }
  m_pool.barrier();
}

void CpuPass::attend(int layerIndex) {
  const ModelConfig& c = m_config;
  const int group = c.groupSize();
  ThreadWorkspace& mine = m_work.threads[static_cast<std::size_t>(t_thread)];
  const auto count = static_cast<std::int64_t>(m_items.size());
  for (std::int64_t i; (i = m_pool.claim(1)) < count;) {
    const AttentionItem& item = m_items[static_cast<std::size_t>(i)];
    const std::ptrdiff_t row = item.slice->firstRow + item.firstRow;
    const std::ptrdiff_t first =
        row * c.qDim() + static_cast<std::ptrdiff_t>(item.kvHead) * group * c.headDim;
    cpu::AttentionTask task;
    task.kv = kvHead(layerIndex, item.kvHead, *item.slice);
    task.q = m_work.q.data() + first;
    task.qStride = c.qDim();
    task.rows = item.rows;
    task.heads = group;
    task.firstPosition = item.slice->firstPosition + item.firstRow;
    task.scale = attentionScale(c);
    task.softcap = c.attentionSoftcap;
    task.window = c.slidingWindow;
    task.scratch = mine.attention.data();
    if (item.range >= 0) {
      m_kernels.attendRange(task, item.range, m_work.partials.data() + item.partials);
    } else {
      m_kernels.attend(task, m_work.attention.data() + first, c.qDim());
    }
  }
  m_pool.barrier();
}

const float* CpuPass::mergedRow(int row, float* scratch) const {
  const ModelConfig& c = m_config;
  const Slice& slice = *m_rows[static_cast<std::size_t>(row)].slice;
  const SlicePartials& p = m_partials[static_cast<std::size_t>(&slice - m_slices.data())];
  if (p.ranges == 0) return m_work.attention.data() + static_cast<std::ptrdiff_t>(row) * c.qDim();
  const int group = c.groupSize();
  const int partial = cpu::partialFloats(c.headDim);
  const std::ptrdiff_t stride = static_cast<std::ptrdiff_t>(slice.tokens.size()) * group * partial;
  for (int h = 0; h < c.nHeads; ++h) {
    const std::ptrdiff_t at = (row - slice.firstRow) * group + h % group;
    const float* partials =
        m_work.partials.data() + p.offset + stride * p.ranges * (h / group) + at * partial;
    m_kernels.mergeRanges(partials, stride, p.ranges, c.headDim,
                          scratch + static_cast<std::ptrdiff_t>(h) * c.headDim);
  }
  return scratch;
}

void CpuPass::wantedLogits() {
  const ModelConfig& c = m_config;
  const CpuWeights& w = *m_backend.m_weights;
  const Product head[] = {{&w.output, m_logits, c.vocabSize}};
  const int wanted = static_cast<int>(m_wanted.size());
  multiply(outputSite(c.nLayers), head, wanted, c.dModel,
           [&](int i, float* scratch) -> const float* {
             const std::ptrdiff_t row = m_wanted[static_cast<std::size_t>(i)];
             m_kernels.rmsNorm(m_work.x.data() + row * c.dModel, w.outputNorm.data(), scratch,
                               c.dModel, c.normEps);
             return scratch;
           });
}

}  // namespace vitrine::engine

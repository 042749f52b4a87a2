// A step of the CUDA backend, from its batch to its logits.
#include <algorithm>

#include "engine/backend/cuda/cuda_backend.h"
#include "kernels/cuda/attention.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

static_assert(sizeof(gpu::Candidate) == sizeof(TokenLogit));

namespace {

/// Most rows whose logits lie on the device at the same time.
constexpr int kHeadRows = 64;
/// Contexts are rounded up to this and then to a power of two for the choice of splits, so that a
/// chat that grows seldom needs another graph.
constexpr int kShortestContext = 256;

/// Workspaces come in few sizes, so that they are seldom taken anew.
int capacityFor(int rows) {
  for (int capacity : {StepPlan::kGraphRows, 64, 256}) {
    if (rows <= capacity) return capacity;
  }
  return StepPlan::kPassRows;
}

int roundedContext(int longest) {
  int context = kShortestContext;
  while (context < longest) context *= 2;
  return context;
}

}  // namespace

/// How many of its best tokens come back of a wanted row; 0: the whole row.
int CudaBackend::bestOf(std::size_t wanted) const {
  const int best = m_plan.best[wanted];
  return best <= std::min(gpu::kMostCandidates, m_config.vocabSize) ? std::max(best, 0) : 0;
}

int CudaBackend::splitsOf(const StepPlan::Pass& pass, int rows) const {
  if (rows == 0) return 1;
  return gpu::decodeSplits({m_config.nHeads, m_config.nKvHeads, m_config.headDim}, rows,
                           roundedContext(pass.longest), m_device.multiprocessors);
}

WorkspaceNeeds CudaBackend::needsOf(const StepPlan& plan) const {
  const gpu::Heads heads{m_config.nHeads, m_config.nKvHeads, m_config.headDim};
  WorkspaceNeeds needs;
  int mostWanted = 0;
  const bool byGraph = runsByGraph();
  for (const StepPlan::Pass& pass : plan.passes()) {
    const int rows = byGraph ? CudaGraphs::bucket(pass.rows) : pass.rows;
    const int decodeRows = byGraph ? rows : pass.decodeRows;
    const int wanted = byGraph ? rows : std::min(pass.nWanted, kHeadRows);
    needs = needs.with(m_workspace.needs(rows, wanted));
    needs = needs.with(m_workspace.needs(rows, pass.nWanted % kHeadRows));
    if (decodeRows > 0) {
      needs.partialBytes =
          std::max(needs.partialBytes,
                   gpu::decodePartialBytes(heads, decodeRows, splitsOf(pass, decodeRows)));
    }
    mostWanted = std::max(mostWanted, wanted);
  }
  needs.rows = capacityFor(needs.rows);
  needs.headRows = std::min(capacityFor(mostWanted), kHeadRows);
  for (std::size_t i = 0; i < plan.wanted.size(); ++i) {
    const int best = bestOf(i);
    if (best == 0) continue;
    needs.candidates += static_cast<std::size_t>(best);
    needs.scratchBytes = std::max(
        needs.scratchBytes, gpu::bestTokensScratchBytes(needs.headRows, m_config.vocabSize, best));
  }
  return needs;
}

/// Takes device memory; where there is none left, the KV pool gives some back.
template <typename Take>
void CudaBackend::withRoom(std::size_t bytes, Take&& take) {
  try {
    return take();
  } catch (const gpu::CudaError& error) {
    if (!error.isOutOfMemory()) throw;
    if (m_pool->giveBack(bytes) == 0) throw;
    notePool();
  }
  take();
}

void CudaBackend::makeRoom(std::span<const BatchSequence> batch) {
  const WorkspaceNeeds needs = needsOf(m_plan);
  if (!m_workspace.held().covers(needs)) {
    const WorkspaceNeeds wanted = m_workspace.held().with(needs);
    withRoom(m_workspace.bytesFor(wanted), [&] { m_workspace.take(wanted, m_stream.get()); });
    m_workspaceBytes = m_workspace.bytes();
  }
  if (m_tap.isOn()) {
    const int width = std::max(m_workspace.widestRows(), m_config.kvDim());
    withRoom(m_tap.missingBytes(m_plan.widestPass(), width),
             [&] { m_tap.reserve(m_plan.widestPass(), width); });
  }
  int blocks = 0;
  for (const BatchSequence& s : batch) {
    const int end = s.firstPosition + static_cast<int>(s.tokens.size());
    blocks = std::max(blocks, (end + m_shape.blockSize - 1) / m_shape.blockSize);
  }
  const int rows = m_plan.rows();
  const int sequences = static_cast<int>(batch.size());
  withRoom(m_inputs.missingBytes(rows, sequences, blocks),
           [&] { m_inputs.reserve(rows, sequences, blocks); });

  m_nWhole = m_nCandidates = 0;
  for (std::size_t i = 0; i < m_plan.wanted.size(); ++i) {
    const int best = bestOf(i);
    m_nCandidates += static_cast<std::size_t>(best);
    m_nWhole += best == 0 ? 1 : 0;
  }
  const std::size_t values = m_nWhole * static_cast<std::size_t>(m_config.vocabSize);
  if (m_rows.size() < values) {
    m_rows = {};
    m_rows = gpu::PinnedBuffer<float>(values);
  }
  if (m_bestTokens.size() < m_nCandidates) {
    m_bestTokens = {};
    m_bestTokens = gpu::PinnedBuffer<gpu::Candidate>(
        std::max<std::size_t>(m_nCandidates, gpu::kMostCandidates));
  }
}

Result<void> CudaBackend::prepareBlocks(std::span<const BatchSequence> batch) {
  m_read.clear();
  m_written.clear();
  m_fresh.clear();
  for (const BatchSequence& s : batch) {
    const int end = s.firstPosition + static_cast<int>(s.tokens.size());
    for (int b = 0; b * m_shape.blockSize < end; ++b) {
      const BlockId block = s.blockTable[static_cast<std::size_t>(b)];
      if ((b + 1) * m_shape.blockSize <= s.firstPosition) {
        m_read.push_back(block);
        continue;
      }
      m_written.push_back(block);
      if (b * m_shape.blockSize >= s.firstPosition) m_fresh.push_back(block);
    }
  }
  const bool fit = m_pool->prepare(m_read, m_written, m_fresh);
  notePool();
  if (fit) return {};
  return fail(
      ErrorCode::kOutOfMemory,
      "this step reads and writes up to {} blocks of the KV cache at once, and {} fit on {}",
      m_read.size() + m_written.size(), m_pool->deviceCapacity(), m_device.name);
}

void CudaBackend::queueStep(std::span<const BatchSequence> batch) {
  if (m_workspaceOfGraphs != m_workspace.generation() ||
      m_inputsOfGraphs != m_inputs.generation()) {
    m_graphs.drop();
    m_workspaceOfGraphs = m_workspace.generation();
    m_inputsOfGraphs = m_inputs.generation();
  }
  const int graphRows = runsByGraph() ? CudaGraphs::bucket(m_plan.rows()) : 0;
  m_inputs.upload(m_plan, graphRows);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const BatchSequence& s = batch[i];
    const int end = s.firstPosition + static_cast<int>(s.tokens.size());
    const auto needed = static_cast<std::size_t>((end + m_shape.blockSize - 1) / m_shape.blockSize);
    m_inputs.setLine(static_cast<int>(i), s.blockTable.first(needed), m_pool->generation(),
                     [this](BlockId block) { return m_pool->address(block); });
  }
  m_wholeDone = m_candidatesDone = 0;
  const CudaPass queued{m_config,   *m_weights, m_workspace,    m_inputs,
                        m_kvLayers, m_blas,     m_stream.get(), m_tap.isOn() ? &m_tap : nullptr};
  if (runsByGraph()) {
    queueDecode(queued, graphRows);
  } else {
    for (const StepPlan::Pass& pass : m_plan.passes()) queuePass(queued, pass);
  }
  if (m_nCandidates > 0) {
    gpu::copyToHost(m_stream.get(), m_bestTokens.data(), m_workspace.candidates,
                    m_nCandidates * sizeof(gpu::Candidate));
  }
}

/// One new token a sequence, by graph. Rows beyond the sequences are padding.
void CudaBackend::queueDecode(const CudaPass& queued, int rows) {
  StepPlan::Pass pass = m_plan.passes().front();
  const int splits = splitsOf(pass, rows);
  const int wanted = pass.nWanted;
  pass.rows = pass.decodeRows = pass.nWanted = rows;
  m_graphs.run({rows, splits}, m_stream.get(), [&] {
    queued.layers(pass, {}, splits);
    queued.head(pass, nullptr, rows);
  });
  bringBack(0, wanted);
}

void CudaBackend::queuePass(const CudaPass& queued, const StepPlan::Pass& pass) {
  queued.layers(pass, m_plan.prefills(pass), splitsOf(pass, pass.decodeRows));
  for (int done = 0; done < pass.nWanted; done += kHeadRows) {
    const int first = pass.firstWanted + done;
    const int count = std::min(kHeadRows, pass.nWanted - done);
    queued.head(pass, m_inputs.wanted(first), count);
    bringBack(first, count);
  }
}

/// Queues the way back of the logits that lie on the device: wanted rows firstWanted and on.
void CudaBackend::bringBack(int firstWanted, int count) {
  const auto vocab = static_cast<std::size_t>(m_config.vocabSize);
  for (int done = 0; done < count;) {
    const int best = bestOf(static_cast<std::size_t>(firstWanted + done));
    int run = 1;
    while (done + run < count &&
           bestOf(static_cast<std::size_t>(firstWanted + done + run)) == best) {
      ++run;
    }
    const float* logits = m_workspace.logits + static_cast<std::size_t>(done) * vocab;
    if (best == 0) {
      const auto rows = static_cast<std::size_t>(run);
      gpu::copyToHost(m_stream.get(), m_rows.data() + m_wholeDone * vocab, logits,
                      rows * vocab * sizeof(float));
      m_wholeDone += rows;
    } else {
      gpu::bestTokens(m_stream.get(), logits, run, m_config.vocabSize, best,
                      m_workspace.candidates + m_candidatesDone, m_workspace.scratch);
      m_candidatesDone += static_cast<std::size_t>(run) * static_cast<std::size_t>(best);
    }
    done += run;
  }
}

LogitsView CudaBackend::collect() {
  m_stream.synchronize();
  const auto vocab = static_cast<std::size_t>(m_config.vocabSize);
  if (m_nCandidates == 0) {
    return LogitsView(std::span(m_rows.data(), m_nWhole * vocab), m_config.vocabSize);
  }
  m_best.clear();
  for (std::size_t i = 0; i < m_nCandidates; ++i) {
    m_best.push_back({m_bestTokens[i].logit, m_bestTokens[i].id});
  }
  m_views.clear();
  std::size_t whole = 0, at = 0;
  for (std::size_t i = 0; i < m_plan.wanted.size(); ++i) {
    const auto best = static_cast<std::size_t>(bestOf(i));
    LogitsView::Row row;
    if (best == 0) {
      row.logits = std::span(m_rows.data() + whole++ * vocab, vocab);
    } else {
      row.best = std::span<const TokenLogit>(m_best).subspan(at, best);
      at += best;
    }
    m_views.push_back(row);
  }
  return LogitsView(m_views);
}

}  // namespace vitrine::engine::cuda

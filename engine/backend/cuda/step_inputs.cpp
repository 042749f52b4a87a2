#include "engine/backend/cuda/step_inputs.h"

#include <algorithm>
#include <bit>

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

namespace {

constexpr int kArrays = 4;  // tokens, positions, sequences, wanted rows
constexpr int kFewestBlocks = 64;

int spreadFor(int rows) {
  return gpu::roundUp(std::max(rows, StepPlan::kGraphRows), StepPlan::kGraphRows);
}

/// The next power of two, so that growing is rare.
int grown(int wanted, int least) {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(wanted, least))));
}

}  // namespace

void StepInputs::reserve(int rows, int sequences, int blocksOfASequence) {
  const std::size_t ints = static_cast<std::size_t>(kArrays) * spreadFor(rows);
  if (ints > m_device.size()) {
    const auto size = std::bit_ceil(ints);
    ++m_generation;
    m_device = {};
    m_host = {};
    gpu::DeviceBuffer<std::int32_t> device(size);
    m_host = gpu::PinnedBuffer<std::int32_t>(size);
    m_device = std::move(device);
  }
  const int nLines = static_cast<int>(m_lines.size());
  if (sequences > nLines || blocksOfASequence > m_maxBlocks) {
    const int lines = std::max(nLines, grown(sequences, StepPlan::kGraphRows));
    const int blocks = std::max(m_maxBlocks, grown(blocksOfASequence, kFewestBlocks));
    const auto size = static_cast<std::size_t>(lines) * static_cast<std::size_t>(blocks);
    ++m_generation;
    m_lines.clear();
    m_maxBlocks = 0;
    m_table = {};
    m_hostTable = {};
    gpu::DeviceBuffer<std::byte*> table(size);
    m_hostTable = gpu::PinnedBuffer<std::byte*>(size);
    m_table = std::move(table);
    m_lines.resize(static_cast<std::size_t>(lines));
    m_maxBlocks = blocks;
  }
}

std::size_t StepInputs::missingBytes(int rows, int sequences, int blocksOfASequence) const {
  std::size_t bytes = 0;
  const std::size_t ints = static_cast<std::size_t>(kArrays) * spreadFor(rows);
  if (ints > m_device.size()) bytes += std::bit_ceil(ints) * sizeof(std::int32_t);
  if (sequences > static_cast<int>(m_lines.size()) || blocksOfASequence > m_maxBlocks) {
    bytes +=
        static_cast<std::size_t>(grown(sequences, StepPlan::kGraphRows)) *
        static_cast<std::size_t>(std::max(m_maxBlocks, grown(blocksOfASequence, kFewestBlocks))) *
        sizeof(std::byte*);
  }
  return bytes;
}

void StepInputs::upload(const StepPlan& plan, int graphRows) {
  const int padded = std::max(plan.rows(), graphRows);
  m_spread = spreadFor(padded);
  const auto fill = [&](int array, const std::vector<std::int32_t>& values, std::int32_t rest) {
    std::int32_t* to = m_host.data() + static_cast<std::ptrdiff_t>(array) * m_spread;
    std::fill(std::copy(values.begin(), values.end(), to), to + m_spread, rest);
  };
  fill(0, plan.tokens, 0);
  fill(1, plan.positions, -1);
  fill(2, plan.sequences, 0);
  fill(3, plan.wanted, 0);
  gpu::copyToDevice(m_stream, m_device.data(), m_host.data(),
                    static_cast<std::size_t>(kArrays) * m_spread * sizeof(std::int32_t));
}

void StepInputs::setLine(int line, std::span<const BlockId> blocks, std::uint64_t generation,
                         const std::function<std::byte*(BlockId)>& address) {
  Line& known = m_lines[static_cast<std::size_t>(line)];
  std::size_t same = 0;
  if (known.generation == generation) {
    const auto ends =
        std::mismatch(blocks.begin(), blocks.end(), known.blocks.begin(), known.blocks.end());
    same = static_cast<std::size_t>(ends.first - blocks.begin());
  }
  known.generation = generation;
  known.blocks.assign(blocks.begin(), blocks.end());
  if (same == blocks.size()) return;
  const std::size_t at = static_cast<std::size_t>(line) * static_cast<std::size_t>(m_maxBlocks);
  for (std::size_t i = same; i < blocks.size(); ++i) m_hostTable[at + i] = address(blocks[i]);
  gpu::copyToDevice(m_stream, m_table.data() + at + same, m_hostTable.data() + at + same,
                    (blocks.size() - same) * sizeof(std::byte*));
}

void StepInputs::forget() {
  for (Line& line : m_lines) line.blocks.clear();
}

gpu::StepRows StepInputs::rows(int firstRow, int count) const {
  gpu::StepRows step;
  step.rows = count;
  step.positions = m_device.data() + m_spread + firstRow;
  step.sequences = m_device.data() + 2 * m_spread + firstRow;
  step.blocks = m_table.data();
  step.maxBlocks = m_maxBlocks;
  return step;
}

}  // namespace vitrine::engine::cuda

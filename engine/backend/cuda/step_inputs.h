#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/step_plan.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/types.h"

namespace vitrine::engine::cuda {

/// What the kernels of a step read beside weights and activations: tokens, positions, lines of the
/// block table, wanted rows, and the table itself. It lies in device memory at addresses that stay,
/// so that a captured graph finds the next step's in the same place. Of the table only what changed
/// is copied. Throws CudaError.
class StepInputs final {
 public:
  explicit StepInputs(cudaStream_t stream) : m_stream(stream) {}

  /// Room for a step.
  void reserve(int rows, int sequences, int blocksOfASequence);
  /// Bytes that reserve() would take beyond what is held.
  std::size_t missingBytes(int rows, int sequences, int blocksOfASequence) const;

  /// Queues the copies of a step. Requires: reserve(), and the stream done with the step before.
  /// A decode batch is filled up to `graphRows` rows with padding (position −1).
  void upload(const StepPlan& plan, int graphRows);
  /// Line `line` of the block table. `address` gives a block's place while `generation` holds.
  void setLine(int line, std::span<const BlockId> blocks, std::uint64_t generation,
               const std::function<std::byte*(BlockId)>& address);
  /// The copies of a failed step may never have arrived: nothing counts as uploaded.
  void forget();

  /// The rows of a pass from `firstRow` of the step on.
  kernels::cuda::StepRows rows(int firstRow, int count) const;
  const std::int32_t* tokens(int firstRow) const { return m_device.data() + firstRow; }
  const std::int32_t* wanted(int first) const { return m_device.data() + 3 * m_spread + first; }

  /// Changes with the addresses: graphs captured before are void.
  std::uint64_t generation() const { return m_generation; }
  std::size_t bytes() const { return m_device.bytes() + m_table.bytes(); }

 private:
  struct Line {
    std::vector<BlockId> blocks;  // whose addresses the device has
    std::uint64_t generation = 0;
  };

  cudaStream_t m_stream;
  std::uint64_t m_generation = 0;
  kernels::cuda::DeviceBuffer<std::int32_t> m_device;  // [4, m_spread]
  kernels::cuda::PinnedBuffer<std::int32_t> m_host;
  int m_spread = StepPlan::kGraphRows;              // elements from an array to the next
  kernels::cuda::DeviceBuffer<std::byte*> m_table;  // [lines, m_maxBlocks]
  kernels::cuda::PinnedBuffer<std::byte*> m_hostTable;
  int m_maxBlocks = 0;
  std::vector<Line> m_lines;
};

}  // namespace vitrine::engine::cuda

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/slab_arena.h"
#include "engine/backend/host_memory.h"
#include "kernels/cuda/handles.h"
#include "kernels/cuda/types.h"

namespace vitrine::engine::cuda {

/// Host memory that blocks lie in: ours, so that the memory ledger finds it, and page-locked where
/// the driver allows it (elsewhere copies wait for each other).
class HostSlab final {
 public:
  HostSlab() = default;
  explicit HostSlab(std::size_t bytes);
  HostSlab(HostSlab&& other) noexcept
      : m_memory(std::move(other.m_memory)), m_locked(std::exchange(other.m_locked, false)) {}
  HostSlab& operator=(HostSlab&& other) noexcept {
    std::swap(m_memory, other.m_memory);
    std::swap(m_locked, other.m_locked);
    return *this;
  }
  ~HostSlab();
  std::byte* data() const { return m_memory.data(); }
  std::size_t size() const { return m_memory.bytes(); }

 private:
  HostMemory m_memory;
  bool m_locked = false;
};

/// The KV blocks of the CUDA backend. A block lies on the device or, while nobody computes with it,
/// in page-locked host memory; whoever names it by its BlockId does not see which. A block holds
/// all layers one after another, so that moving it is one large copy.
///
/// Blocks that a batch needs are brought to the device before it; others, least recently used
/// first, make room. Copies run on two streams beside the compute stream, one for each direction;
/// each stream waits for just the copies and kernels that it depends on (kv_pool_moves.cpp draws
/// that). Device memory is taken in slabs, so that some can be given back.
///
/// Engine's thread only. Throws CudaError; every block then still holds what it held.
class KvPool final {
 public:
  /// Takes the memory of shape.nBlocks − shape.hostBlocks blocks. `layers`: where each layer lies
  /// in a block of `blockBytes`. `compute`: the stream of the kernels that read and write blocks.
  KvPool(const KvShape& shape, std::size_t blockBytes, std::vector<kernels::cuda::KvLayer> layers,
         cudaStream_t compute);
  ~KvPool();
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  /// Makes blocks usable by what is queued next on the compute stream: those of `read` are only
  /// read, those of `written` change. `fresh`: of `written`, those whose old content nobody needs.
  /// A block may be named more than once. False, and nothing changes, if they do not fit on the
  /// device together.
  bool prepare(std::span<const BlockId> read, std::span<const BlockId> written,
               std::span<const BlockId> fresh = {});
  /// Where a block lies on the device. Requires: prepared for the latest batch.
  std::byte* address(BlockId block) const;
  /// Changes whenever a block has got another address: tables of addresses must be made anew.
  std::uint64_t generation() const { return m_generation; }

  /// The first `positions` of a block, all layers; what `to` held behind them is lost.
  void copy(BlockId from, BlockId to, int positions);
  /// A block's bytes; zeros where nothing was written. Waits for it.
  void read(BlockId block, std::span<std::byte> bytes) const;
  void write(BlockId block, std::span<const std::byte> bytes);

  /// Turns pause: the least recently used blocks that changed are copied to host memory meanwhile,
  /// until half of the device could be had at once; host memory that nothing lies in is given back.
  void idle();
  /// Gives device memory back, at least `bytes` if possible: blocks move together or to host
  /// memory (beyond the shape's hostBlocks if need be). At least one slab stays. Returns what was
  /// freed. What was given back is taken again when blocks need it and it is there.
  std::size_t giveBack(std::size_t bytes);

  std::size_t deviceBytes() const { return m_device.bytes(); }  ///< held on the device
  std::size_t hostBytes() const { return m_host.bytes(); }      ///< of blocks in host memory
  int deviceCapacity() const { return m_device.size(); }  ///< blocks that fit on the device now
  int writtenBlocks() const;  ///< blocks on the device that hold something
  /// Bytes copied to the host and back since the pool was made.
  std::uint64_t bytesOut() const { return m_bytesOut; }
  std::uint64_t bytesIn() const { return m_bytesIn; }

  /// "" when slots, blocks and marks fit together. For tests.
  std::string checkInvariants() const;

 private:
  using Event = kernels::cuda::Event;
  /// The end of a copy that something else must wait for; null: nothing to wait for.
  using Mark = std::shared_ptr<const Event>;

  struct Block {
    int slot = -1;         // on the device
    int hostSlot = -1;     // of a copy in host memory
    bool holds = false;    // it has a content
    bool changed = false;  // the device has a newer content than the host slot, or there is none
    std::uint64_t lastUse = 0;
    Mark arriving;  // the copy to the device that nothing has waited for yet
    Mark leaving;   // the copy that fills the host slot
  };

  Block& at(BlockId block) { return m_blocks[static_cast<std::size_t>(block)]; }
  const Block& at(BlockId block) const { return m_blocks[static_cast<std::size_t>(block)]; }
  int plannedSlots() const { return m_nBlocks - m_hostBlocks; }

  int stamp(std::span<const BlockId> blocks, std::vector<BlockId>& missing);
  bool growDevice();
  std::vector<BlockId> evictionOrder() const;
  void bring(BlockId block, bool fresh, std::span<const BlockId> candidates, std::size_t& next);
  void waitForArrivals(std::span<const BlockId> blocks);
  void markWritten(std::span<const BlockId> blocks);
  bool emptySlab(int slab);

  // kv_pool_moves.cpp
  Mark markOn(cudaStream_t stream) const;
  const Mark& computeDone();
  void copyOut(BlockId block);
  void copyIn(BlockId block, int slot);
  void evict(BlockId block);
  void moveTo(BlockId block, int slot);
  void dropHostCopy(Block& block);
  int takeHostSlot();
  int hostLimit() const;
  void trimHost();
  void settle() const;

  int m_nBlocks;
  int m_hostBlocks;
  std::size_t m_blockBytes;
  std::vector<kernels::cuda::KvLayer> m_layers;
  cudaStream_t m_compute;
  kernels::cuda::Stream m_out, m_in;  // device → host, host → device
  SlabArena<kernels::cuda::DeviceBuffer<std::byte>> m_device;
  SlabArena<HostSlab> m_host;
  std::vector<Block> m_blocks;
  std::vector<BlockId> m_blockIn;  // by device slot: who lies there, or −1
  std::vector<Mark> m_vacated;     // by device slot: the last copy from it
  std::vector<Mark> m_readBack;    // by host slot: the last copy from it
  Mark m_computeDone;              // of what was queued on the compute stream until this call
  std::uint64_t m_batch = 0;       // counts preparations
  std::uint64_t m_generation = 0;
  int m_noGrowth = 0;  // evictions until device memory is asked for again
  std::uint64_t m_bytesOut = 0, m_bytesIn = 0;
};

}  // namespace vitrine::engine::cuda

#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/backend.h"
#include "kernels/cuda/types.h"

namespace vitrine::engine::cuda {

/// The KV blocks of the CUDA backend. A block lies on the device or, while nobody computes with it,
/// in page-locked host memory; whoever names it by its BlockId does not see which. A block holds
/// all layers one after another, so that moving it is one large copy.
///
/// Blocks that a batch needs are brought to the device before it; others, least recently used
/// first, make room. Copies run on a stream of their own; the compute stream waits for those that
/// it needs. Device memory is taken in slabs, so that some can be given back. Throws CudaError.
class KvPool final {
 public:
  /// `layers`: where each layer lies in a block of `blockBytes`. `compute`: the stream on which the
  /// kernels run that read and write blocks.
  KvPool(const KvShape& shape, std::size_t blockBytes, std::vector<kernels::cuda::KvLayer> layers,
         cudaStream_t compute);
  ~KvPool();
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  /// Makes blocks usable by what is queued next on the compute stream: those of `read` are only
  /// read, those of `written` change. False, and nothing changes, if they do not fit on the device
  /// together.
  bool prepare(std::span<const BlockId> read, std::span<const BlockId> written);
  /// Where a block lies on the device. Requires: prepared for the latest batch.
  std::byte* address(BlockId block) const;
  /// Changes whenever a block has got another address: tables of addresses must be made anew.
  std::uint64_t generation() const;

  /// The first `slots` positions of a block, all layers.
  void copy(BlockId from, BlockId to, int slots);
  void read(BlockId block, std::span<std::byte> bytes) const;
  void write(BlockId block, std::span<const std::byte> bytes);

  /// Turns pause: blocks that changed are copied to host memory meanwhile, so that later they can
  /// leave the device at once.
  void idle();
  /// Gives device memory back, at least `bytes` if possible: blocks move to host memory (beyond the
  /// shape's hostBlocks if need be). Returns what was freed.
  std::size_t giveBack(std::size_t bytes);

  std::size_t deviceBytes() const;  ///< held on the device
  std::size_t hostBytes() const;    ///< page-locked
  int deviceCapacity() const;       ///< blocks that fit on the device now
  int writtenBlocks() const;        ///< blocks on the device that hold something
};

}  // namespace vitrine::engine::cuda

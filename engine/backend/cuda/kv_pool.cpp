#include "engine/backend/cuda/kv_pool.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "engine/base/check.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/rows.h"

namespace vitrine::engine::cuda {

using kernels::cuda::check;
using kernels::cuda::CudaError;
using kernels::cuda::DeviceBuffer;

namespace {

/// Slabs are large enough to be taken quickly and small enough to give back a part of the pool.
constexpr std::size_t kSlabBytes = std::size_t{64} << 20;
constexpr int kLeastSlabs = 8;
constexpr int kEvictionsUntilGrowth = 64;  // after device memory was refused or given back

int slabSlots(std::size_t blockBytes, int blocks) {
  const auto most = static_cast<int>(std::max<std::size_t>(1, kSlabBytes / blockBytes));
  return std::clamp((blocks + kLeastSlabs - 1) / kLeastSlabs, 1, most);
}

}  // namespace

HostSlab::HostSlab(std::size_t bytes) {
  auto memory = HostMemory::map(bytes, "KV blocks in host memory", MemoryUse::kKvCache);
  if (!memory) throw CudaError(cudaErrorMemoryAllocation, memory.error().message);
  m_memory = std::move(*memory);
  const cudaError_t code = cudaHostRegister(m_memory.data(), bytes, cudaHostRegisterDefault);
  m_locked = code == cudaSuccess;
  if (!m_locked) cudaGetLastError();  // copies are slower; an error that sticks comes again
}

HostSlab::~HostSlab() {
  if (m_locked && cudaHostUnregister(m_memory.data()) != cudaSuccess) cudaGetLastError();
}

KvPool::KvPool(const KvShape& shape, std::size_t blockBytes,
               std::vector<kernels::cuda::KvLayer> layers, cudaStream_t compute)
    : m_nBlocks(shape.nBlocks),
      m_hostBlocks(shape.hostBlocks),
      m_blockBytes(blockBytes),
      m_layers(std::move(layers)),
      m_compute(compute),
      m_out(kernels::cuda::Stream::make()),
      m_in(kernels::cuda::Stream::make()),
      m_device(blockBytes, slabSlots(blockBytes, shape.nBlocks - shape.hostBlocks)),
      m_host(blockBytes, slabSlots(blockBytes, std::max(1, shape.hostBlocks))),
      m_blocks(static_cast<std::size_t>(shape.nBlocks)) {
  VITRINE_CHECK(shape.hostBlocks >= 0 && shape.hostBlocks < shape.nBlocks,
                "a pool has at least one block on the device");
  while (m_device.size() < plannedSlots()) {
    if (!growDevice()) {
      throw CudaError(
          cudaErrorMemoryAllocation,
          fmt::format("the KV pool wants {} bytes of device memory for {} blocks; there "
                      "was room for {}",
                      static_cast<std::size_t>(plannedSlots()) * blockBytes, plannedSlots(),
                      m_device.size()));
    }
  }
}

KvPool::~KvPool() {
  // Nothing may still read or write what is freed. A lost device answers with errors.
  cudaStreamSynchronize(m_compute);
  cudaStreamSynchronize(m_out.get());
  cudaStreamSynchronize(m_in.get());
  cudaGetLastError();
}

// ---------------------------------------------------------------- before a batch

bool KvPool::prepare(std::span<const BlockId> read, std::span<const BlockId> written,
                     std::span<const BlockId> fresh) {
  m_computeDone.reset();
  ++m_batch;
  std::vector<BlockId> missing;
  const int needed = stamp(read, missing) + stamp(written, missing);
  while (needed > m_device.size()) {
    if (!growDevice()) return false;
  }
  if (!missing.empty()) {
    std::vector<BlockId> candidates;
    if (static_cast<int>(missing.size()) > m_device.freeSlots()) candidates = evictionOrder();
    std::size_t next = 0;
    std::vector<BlockId> anew(fresh.begin(), fresh.end());
    std::ranges::sort(anew);
    for (const BlockId block : missing) {
      bring(block, std::ranges::binary_search(anew, block), candidates, next);
    }
  }
  waitForArrivals(read);
  waitForArrivals(written);
  markWritten(written);
  return true;
}

/// Stamps blocks as used by this batch and returns how many were not yet.
int KvPool::stamp(std::span<const BlockId> blocks, std::vector<BlockId>& missing) {
  int count = 0;
  for (const BlockId block : blocks) {
    VITRINE_CHECK(block >= 0 && block < m_nBlocks, "a block of this pool");
    Block& wanted = at(block);
    if (wanted.lastUse == m_batch) continue;
    wanted.lastUse = m_batch;
    if (wanted.slot < 0) missing.push_back(block);
    ++count;
  }
  return count;
}

/// One slab more, up to what was planned; its memory begins with zeros. False if there is none.
bool KvPool::growDevice() {
  const int count = std::min(m_device.slotsPerSlab(), plannedSlots() - m_device.size());
  if (count <= 0) return false;
  try {
    DeviceBuffer<std::byte> memory(static_cast<std::size_t>(count) * m_blockBytes);
    check(cudaMemsetAsync(memory.data(), 0, memory.bytes(), m_compute), "clearing KV blocks");
    m_device.add(std::move(memory));
  } catch (const CudaError& error) {
    if (!error.isOutOfMemory()) throw;
    return false;
  }
  m_blockIn.resize(static_cast<std::size_t>(m_device.slotLimit()), -1);
  m_vacated.resize(static_cast<std::size_t>(m_device.slotLimit()));
  m_computeDone.reset();  // copies into the slab come behind its clearing
  return true;
}

/// The blocks on the device that this batch does not need, least recently used first.
std::vector<BlockId> KvPool::evictionOrder() const {
  std::vector<BlockId> order;
  for (BlockId block = 0; block < m_nBlocks; ++block) {
    if (at(block).slot >= 0 && at(block).lastUse != m_batch) order.push_back(block);
  }
  std::ranges::stable_sort(order, {}, [this](BlockId block) { return at(block).lastUse; });
  return order;
}

/// Gives a block a slot on the device and its content, if that is needed. Others leave for it.
void KvPool::bring(BlockId block, bool fresh, std::span<const BlockId> candidates,
                   std::size_t& next) {
  if (m_device.freeSlots() == 0 && m_noGrowth-- <= 0 && !growDevice()) {
    m_noGrowth = kEvictionsUntilGrowth;
  }
  if (m_device.freeSlots() == 0) {
    VITRINE_CHECK(next < candidates.size(), "the blocks of a batch were counted");
    evict(candidates[next++]);
  }
  Block& wanted = at(block);
  const int slot = m_device.take();
  try {
    if (wanted.holds && !fresh) {
      copyIn(block, slot);
    } else {
      // Kernels will write here: what still leaves from the slot must be gone.
      wanted.arriving = m_vacated[static_cast<std::size_t>(slot)];
      if (wanted.hostSlot >= 0) dropHostCopy(wanted);
      wanted.holds = false;
    }
  } catch (...) {
    cudaStreamSynchronize(m_in.get());  // a copy may be under way that nobody can wait for
    m_device.release(slot);
    throw;
  }
  wanted.slot = slot;
  m_blockIn[static_cast<std::size_t>(slot)] = block;
  ++m_generation;
}

void KvPool::waitForArrivals(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    Block& wanted = at(block);
    if (wanted.arriving) wanted.arriving->makeWait(m_compute);
    wanted.arriving.reset();
  }
}

void KvPool::markWritten(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    Block& written = at(block);
    written.holds = true;
    written.changed = true;
    if (written.hostSlot >= 0) dropHostCopy(written);
  }
}

std::byte* KvPool::address(BlockId block) const {
  VITRINE_CHECK(at(block).slot >= 0, "a block that was prepared lies on the device");
  return m_device.at(at(block).slot);
}

// ---------------------------------------------------------------- contents

void KvPool::copy(BlockId from, BlockId to, int positions) {
  if (from == to || positions <= 0) return;
  if (!prepare(std::span(&from, 1), std::span(&to, 1), std::span(&to, 1))) {
    std::vector<std::byte> bytes(m_blockBytes);  // the device has room for one block only
    read(from, bytes);
    write(to, bytes);
    return;
  }
  kernels::cuda::copyBlock(m_compute, address(from), address(to), m_layers.data(),
                           static_cast<int>(m_layers.size()), positions);
}

void KvPool::read(BlockId block, std::span<std::byte> bytes) const {
  VITRINE_CHECK(bytes.size() == m_blockBytes, "room for one block");
  const Block& wanted = at(block);
  if (!wanted.holds) {
    std::ranges::fill(bytes, std::byte{0});
  } else if (wanted.hostSlot >= 0 && !wanted.changed) {
    if (wanted.leaving) wanted.leaving->synchronize();
    std::memcpy(bytes.data(), m_host.at(wanted.hostSlot), m_blockBytes);
  } else {
    if (wanted.arriving) wanted.arriving->makeWait(m_compute);
    kernels::cuda::copyToHost(m_compute, bytes.data(), m_device.at(wanted.slot), m_blockBytes);
    check(cudaStreamSynchronize(m_compute), "reading a KV block");
  }
}

void KvPool::write(BlockId block, std::span<const std::byte> bytes) {
  VITRINE_CHECK(bytes.size() == m_blockBytes, "the bytes of one block");
  const bool fits = prepare({}, std::span(&block, 1), std::span(&block, 1));
  VITRINE_CHECK(fits, "the device has room for one block at least");
  kernels::cuda::copyToDevice(m_compute, address(block), bytes.data(), m_blockBytes);
  check(cudaStreamSynchronize(m_compute), "writing a KV block");
}

int KvPool::writtenBlocks() const {
  return static_cast<int>(std::ranges::count_if(
      m_blocks, [](const Block& block) { return block.slot >= 0 && block.holds; }));
}

// ---------------------------------------------------------------- between turns

void KvPool::idle() {
  m_computeDone.reset();
  std::vector<BlockId> changed;
  int ready = m_device.freeSlots();
  for (BlockId block = 0; block < m_nBlocks; ++block) {
    if (at(block).slot < 0) continue;
    if (at(block).holds && at(block).changed) {
      changed.push_back(block);
    } else {
      ++ready;
    }
  }
  std::ranges::stable_sort(changed, {}, [this](BlockId block) { return at(block).lastUse; });
  const int room = m_host.freeSlots() + std::max(0, hostLimit() - m_host.size());
  const int count = std::min({m_device.size() / 2 - ready, room, static_cast<int>(changed.size())});
  for (int i = 0; i < count; ++i) copyOut(changed[static_cast<std::size_t>(i)]);
  trimHost();
}

std::size_t KvPool::giveBack(std::size_t bytes) {
  m_computeDone.reset();
  std::size_t freed = 0;
  while (freed < bytes) {
    int slab = -1, others = -1;
    for (int i = 0; i < m_device.slabs(); ++i) {
      if (m_device.slotsIn(i) == 0) continue;
      ++others;
      if (slab < 0 || m_device.usedIn(i) < m_device.usedIn(slab)) slab = i;
    }
    if (others < 1 || !emptySlab(slab)) break;
    freed += static_cast<std::size_t>(m_device.slotsIn(slab)) * m_blockBytes;
    m_device.remove(slab);
    m_noGrowth = kEvictionsUntilGrowth;
  }
  return freed;
}

/// Moves what lies in a slab elsewhere, and waits for it. False where there is no host memory.
bool KvPool::emptySlab(int slab) {
  const auto isUsed = [this](int slot) { return m_blockIn[static_cast<std::size_t>(slot)] >= 0; };
  try {
    m_device.setAside(slab);
    for (int i = 0; i < m_device.slotsIn(slab); ++i) {
      const int slot = slab * m_device.slotsPerSlab() + i;
      if (!isUsed(slot)) continue;
      const BlockId block = m_blockIn[static_cast<std::size_t>(slot)];
      if (m_device.freeSlots() > 0) {
        moveTo(block, m_device.take());
      } else {
        evict(block);
      }
      m_device.setAside(slab);
    }
    settle();
    return true;
  } catch (const CudaError& error) {
    m_device.putBack(slab, isUsed);
    if (!error.isOutOfMemory()) throw;
    return false;
  }
}

std::string KvPool::checkInvariants() const {
  std::vector<bool> hostUsed(static_cast<std::size_t>(m_host.slotLimit()), false);
  int onDevice = 0, onHost = 0;
  for (BlockId block = 0; block < m_nBlocks; ++block) {
    const Block& one = at(block);
    if (one.slot >= 0) {
      ++onDevice;
      if (m_blockIn[static_cast<std::size_t>(one.slot)] != block) {
        return fmt::format("block {} is not in its slot {}", block, one.slot);
      }
    }
    if (one.hostSlot >= 0) {
      ++onHost;
      if (hostUsed[static_cast<std::size_t>(one.hostSlot)]) {
        return fmt::format("two blocks have host slot {}", one.hostSlot);
      }
      hostUsed[static_cast<std::size_t>(one.hostSlot)] = true;
    }
    if (one.changed && (one.slot < 0 || one.hostSlot >= 0)) {
      return fmt::format("block {} changed, but is not on the device alone", block);
    }
    if (one.holds && !one.changed && one.hostSlot < 0) {
      return fmt::format("block {} lost its content", block);
    }
  }
  if (onDevice != m_device.size() - m_device.freeSlots() ||
      onHost != m_host.size() - m_host.freeSlots()) {
    return fmt::format("{} blocks on the device, {} on the host, but {} and {} slots are taken",
                       onDevice, onHost, m_device.size() - m_device.freeSlots(),
                       m_host.size() - m_host.freeSlots());
  }
  return {};
}

}  // namespace vitrine::engine::cuda

// How blocks move. Three streams: compute (kernels), out (device → host), in (host → device). Each
// runs in order; between them, an arrow is an event that the stream at its head waits for:
//
//   compute ──► out      the kernels that wrote a block are done before it is copied away
//   compute ──► in       the kernels that used a slot are done before another block comes into it
//   out ──► in           a slot was copied away before it is filled; a host slot was filled before
//                        it is read back
//   in ──► out           a host slot was read back before another block is copied into it
//   in, out ──► compute  just the blocks that a batch needs: they have arrived, and their slots
//                        were copied away
#include <algorithm>
#include <utility>

#include "engine/backend/cuda/kv_pool.h"
#include "engine/base/check.h"

namespace vitrine::engine::cuda {

using kernels::cuda::check;

KvPool::Mark KvPool::markOn(cudaStream_t stream) const {
  auto event = std::make_shared<Event>(Event::make());
  event->record(stream);
  return event;
}

/// Everything that was queued on the compute stream before this call of the pool.
const KvPool::Mark& KvPool::computeDone() {
  if (!m_computeDone) m_computeDone = markOn(m_compute);
  return m_computeDone;
}

/// Copies a changed block to host memory; it stays where it is, too.
void KvPool::copyOut(BlockId block) {
  Block& leaver = at(block);
  const int hostSlot = takeHostSlot();
  try {
    computeDone()->makeWait(m_out.get());
    const Mark& readBack = m_readBack[static_cast<std::size_t>(hostSlot)];
    if (readBack) readBack->makeWait(m_out.get());
    kernels::cuda::copyToHost(m_out.get(), m_host.at(hostSlot), m_device.at(leaver.slot),
                              m_blockBytes);
    leaver.leaving = m_vacated[static_cast<std::size_t>(leaver.slot)] = markOn(m_out.get());
  } catch (...) {
    m_host.release(hostSlot);  // whoever gets it is filled by the same stream, so later
    throw;
  }
  leaver.hostSlot = hostSlot;
  leaver.changed = false;
  m_bytesOut += m_blockBytes;
}

/// Copies a block from host memory into a slot that nobody has.
void KvPool::copyIn(BlockId block, int slot) {
  Block& comer = at(block);
  VITRINE_CHECK(comer.hostSlot >= 0, "a block that is not on the device lies in host memory");
  computeDone()->makeWait(m_in.get());
  const Mark& vacated = m_vacated[static_cast<std::size_t>(slot)];
  if (vacated) vacated->makeWait(m_in.get());
  if (comer.leaving) comer.leaving->makeWait(m_in.get());
  kernels::cuda::copyToDevice(m_in.get(), m_device.at(slot), m_host.at(comer.hostSlot),
                              m_blockBytes);
  comer.arriving = m_readBack[static_cast<std::size_t>(comer.hostSlot)] = markOn(m_in.get());
  m_bytesIn += m_blockBytes;
}

void KvPool::evict(BlockId block) {
  Block& leaver = at(block);
  // Left over where a preparation failed: the copy into the slot must not come after the next
  // block's kernels.
  if (leaver.arriving) leaver.arriving->makeWait(m_compute);
  if (leaver.holds && leaver.changed) copyOut(block);
  leaver.arriving.reset();
  m_blockIn[static_cast<std::size_t>(leaver.slot)] = -1;
  m_device.release(leaver.slot);
  leaver.slot = -1;
}

/// Moves a block to another slot of the device, which nobody has.
void KvPool::moveTo(BlockId block, int slot) {
  Block& mover = at(block);
  try {
    if (mover.arriving) mover.arriving->makeWait(m_compute);
    const Mark& vacated = m_vacated[static_cast<std::size_t>(slot)];
    if (vacated) vacated->makeWait(m_compute);
    check(cudaMemcpyAsync(m_device.at(slot), m_device.at(mover.slot), m_blockBytes,
                          cudaMemcpyDeviceToDevice, m_compute),
          "moving a KV block");
  } catch (...) {
    m_device.release(slot);
    throw;
  }
  mover.arriving.reset();
  m_computeDone.reset();
  m_blockIn[static_cast<std::size_t>(mover.slot)] = -1;
  m_blockIn[static_cast<std::size_t>(slot)] = block;
  m_device.release(mover.slot);
  mover.slot = slot;
  ++m_generation;
}

// ---------------------------------------------------------------- host memory

void KvPool::dropHostCopy(Block& block) {
  m_host.release(block.hostSlot);
  block.hostSlot = -1;
  block.leaving.reset();
}

/// Blocks that may lie in host memory; more while the device has fewer than was planned. One more,
/// so that two blocks can change places.
int KvPool::hostLimit() const {
  const int most = std::max(m_hostBlocks, m_nBlocks - m_device.size());
  return most > 0 ? most + 1 : 0;
}

int KvPool::takeHostSlot() {
  if (m_host.freeSlots() > 0) return m_host.take();
  int count = std::min(m_host.slotsPerSlab(), hostLimit() - m_host.size());
  if (count <= 0) {
    // A block on the device that has a copy here as well gives it up; the latest used, which is
    // the last to leave.
    Block* richest = nullptr;
    for (Block& block : m_blocks) {
      if (block.slot < 0 || block.hostSlot < 0) continue;
      if (richest == nullptr || block.lastUse > richest->lastUse) richest = &block;
    }
    if (richest != nullptr) {
      richest->changed = true;
      dropHostCopy(*richest);
      return m_host.take();
    }
    count = 1;
  }
  m_host.add(HostSlab(static_cast<std::size_t>(count) * m_blockBytes));
  m_readBack.resize(static_cast<std::size_t>(m_host.slotLimit()));
  return m_host.take();
}

/// Gives back slabs in which nothing lies.
void KvPool::trimHost() {
  bool settled = false;
  for (int slab = 0; slab < m_host.slabs(); ++slab) {
    if (m_host.slotsIn(slab) == 0 || m_host.usedIn(slab) > 0) continue;
    if (!settled) settle();
    settled = true;
    m_host.remove(slab);
  }
}

/// Waits until no copy and no kernel is under way.
void KvPool::settle() const {
  check(cudaStreamSynchronize(m_compute), "waiting for the device");
  check(cudaStreamSynchronize(m_out.get()), "waiting for copies to the host");
  check(cudaStreamSynchronize(m_in.get()), "waiting for copies from the host");
}

}  // namespace vitrine::engine::cuda

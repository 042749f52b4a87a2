#include <algorithm>
#include <bit>
#include <cstring>

#include "cuda_on_cpu/atomics.h"
#include "multiprocessor.h"
#include "sanitizers.h"

// Meetings of threads: a barrier of a block, or a collective of a warp. Whoever comes last computes
// everybody's result. Threads that meet at different places of the source, with different masks, or
// after others have ended are faults, as they are undefined on a device.

namespace cuda_on_cpu {
namespace {

int shuffleSource(const Lane& lane, int self) {
  const int width = lane.width, first = self & ~(width - 1);
  int source = self;
  switch (lane.op) {
    case WarpOp::kShuffle:
      return first + (lane.argument & (width - 1));
    case WarpOp::kShuffleUp:
      source = self - lane.argument;
      return source < first ? self : source;
    case WarpOp::kShuffleDown:
      source = self + lane.argument;
      break;
    default:
      source = self ^ lane.argument;
      break;
  }
  return source >= first + width ? self : source;
}

std::uint64_t reduced(WarpOp op, std::uint64_t a, std::uint64_t b) {
  const auto x = static_cast<std::uint32_t>(a), y = static_cast<std::uint32_t>(b);
  switch (op) {
    case WarpOp::kAdd:
      return x + y;
    case WarpOp::kMin:
      return static_cast<std::uint32_t>(std::min<int>(x, y));
    case WarpOp::kMax:
      return static_cast<std::uint32_t>(std::max<int>(x, y));
    case WarpOp::kMinUnsigned:
      return std::min(x, y);
    case WarpOp::kMaxUnsigned:
      return std::max(x, y);
    case WarpOp::kOr:
      return x | y;
    case WarpOp::kXor:
      return x ^ y;
    default:
      return x & y;  // kAnd, kAll
  }
}

}  // namespace

const char* nameOf(WarpOp op) {
  switch (op) {
    case WarpOp::kSync:
      return "__syncwarp()";
    case WarpOp::kShuffle:
      return "__shfl_sync()";
    case WarpOp::kShuffleUp:
      return "__shfl_up_sync()";
    case WarpOp::kShuffleDown:
      return "__shfl_down_sync()";
    case WarpOp::kShuffleXor:
      return "__shfl_xor_sync()";
    case WarpOp::kBallot:
      return "__ballot_sync()";
    case WarpOp::kAll:
      return "__all_sync()";
    case WarpOp::kMatchAny:
      return "__match_any_sync()";
    default:
      return "__reduce_*_sync()";
  }
}

void computeMeeting(Lane* warp, std::uint32_t lanes) {
  const int first = std::countr_zero(lanes);
  const WarpOp op = warp[first].op;
  if (op == WarpOp::kSync) return;
  if (op == WarpOp::kShuffleXor && lanes == ~0U && warp[first].width == kLanes) {
    for (int i = 0; i < kLanes; ++i) {  // by far the most frequent
      const int source = i ^ warp[i].argument;
      warp[i].out = warp[source < kLanes ? source : i].in;
    }
    return;
  }
  const bool isShuffle = op >= WarpOp::kShuffle && op <= WarpOp::kShuffleXor;
  std::uint64_t all = op == WarpOp::kBallot ? 0 : warp[first].in;
  for (std::uint32_t rest = lanes; rest != 0 && !isShuffle; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    if (op == WarpOp::kBallot) {
      all |= (warp[i].in & 1U) << i;
    } else if (i != first) {
      all = reduced(op, all, warp[i].in);
    }
  }
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    if (isShuffle) {
      const int source = shuffleSource(warp[i], i);
      // What a lane that does not take part would bring is undefined: NaN.
      warp[i].out = (lanes >> source & 1U) != 0 ? warp[source].in : ~std::uint64_t{0};
    } else if (op == WarpOp::kMatchAny) {
      warp[i].out = 0;
      for (std::uint32_t others = lanes; others != 0; others &= others - 1) {
        const int j = std::countr_zero(others);
        if (warp[j].in == warp[i].in) warp[i].out |= 1U << j;
      }
    } else {
      warp[i].out = all;
    }
  }
}

/// Holds the meeting that lanes of `mask` wait for, if all of them are there.
bool Multiprocessor::completeWarp(int index, unsigned mask) {
  Warp& warp = m_warps[index];
  const std::uint32_t lanes = mask & warp.exist;
  if ((warp.waiting & lanes) != lanes) return false;
  computeMeeting(&m_lanes[static_cast<std::size_t>(index) * kLanes], lanes);
  ++warp.meetings;
  warp.waiting &= ~lanes;
  return true;
}

std::uint64_t Multiprocessor::meetWarp(WarpOp op, unsigned mask, std::uint64_t value, int argument,
                                       int width, Location where) {
  Lane& self = *m_current;
  const int index = self.index / kLanes, bit = self.index % kLanes;
  Warp& warp = m_warps[index];
  if ((mask >> bit & 1U) == 0) {
    fail(where, "%s with mask %08x, which does not name the caller", nameOf(op), mask);
  }
  if ((mask & (warp.done | ~warp.exist)) != 0) {
    fail(where, "%s with mask %08x, which names a thread that has ended or never was", nameOf(op),
         mask);
  }
  if (const std::uint32_t others = warp.waiting & mask; others != 0) {
    // Those who wait have been compared with each other.
    const Lane& other = m_lanes[index * kLanes + std::countr_zero(others)];
    if (other.op != op || other.mask != mask || other.line != where.line || other.width != width) {
      fail(where,
           "the warp is divided: %s with mask %08x, while another thread waits in %s with mask "
           "%08x at %s:%d",
           nameOf(op), mask, nameOf(other.op), other.mask, other.file, other.line);
    }
  }
  self.op = op;
  self.mask = mask;
  self.in = value;
  self.argument = argument;
  self.width = static_cast<std::uint8_t>(width);
  self.file = where.file;
  self.line = where.line;
  warp.waiting |= 1U << bit;
  char* const order = &warp.order[warp.meetings & 1U];
  if (op == WarpOp::kSync) announce(order);
  if (completeWarp(index, mask)) {
    makeReady(index, mask & ~(1U << bit));
    if (m_launch->shuffle) {
      makeReady(self);
      wait(LaneState::kReady);
    }
  } else {
    wait(LaneState::kAtWarp);
  }
  if (op == WarpOp::kSync) heed(order);  // other meetings order no memory, as on a device
  return self.out;
}

void Multiprocessor::releaseBarrier() {
  m_barrierResult[m_barriers & 1U] = m_barrierSum;
  ++m_barriers;
  m_waiting = 0;
  for (int first = 0; first < m_threads; first += kLanes) {
    makeReady(first / kLanes, m_warps[first / kLanes].exist);
  }
}

int Multiprocessor::meetBlock(BarrierOp op, int predicate, Location where) {
  Lane& self = *m_current;
  if (m_waiting == 0) {
    m_barrierOp = op;
    m_barrierAt = where;
    m_barrierSum = op == BarrierOp::kAnd ? 1 : 0;
  } else if (m_barrierOp != op || m_barrierAt.line != where.line ||
             (m_barrierAt.file != where.file && std::strcmp(m_barrierAt.file, where.file) != 0)) {
    fail(where, "the block is divided: a barrier, while other threads wait at that of %s:%d",
         m_barrierAt.file, m_barrierAt.line);
  }
  if (m_done > 0) fail(where, "a barrier after %d threads of the block have ended", m_done);
  switch (op) {
    case BarrierOp::kPlain:
      break;
    case BarrierOp::kCount:
      m_barrierSum += predicate != 0 ? 1 : 0;
      break;
    case BarrierOp::kAnd:
      m_barrierSum &= predicate != 0 ? 1 : 0;
      break;
    case BarrierOp::kOr:
      m_barrierSum |= predicate != 0 ? 1 : 0;
      break;
  }
  const unsigned round = m_barriers & 1U;
  announce(&m_barrierOrder[round]);
  self.file = where.file;
  self.line = where.line;
  if (++m_waiting == m_threads) {
    releaseBarrier();
    if (!m_launch->shuffle) {  // this one goes on at once
      Warp& warp = m_warps[self.index / kLanes];
      warp.ready &= ~(1U << (self.index % kLanes));
      if (warp.ready == 0) m_readyWarps &= ~(1U << (self.index / kLanes));
    } else {
      wait(LaneState::kReady);
    }
  } else {
    wait(LaneState::kAtBarrier);
  }
  heed(&m_barrierOrder[round]);
  return m_barrierResult[round];
}

// What kernels call.

std::uint64_t meetWarp(WarpOp op, unsigned mask, std::uint64_t value, int argument, int width,
                       Location where) {
  return currentMultiprocessor()->meetWarp(op, mask, value, argument, width, where);
}

int meetBlock(BarrierOp op, int predicate, Location where) {
  return currentMultiprocessor()->meetBlock(op, predicate, where);
}

void fail(const char* what, Location where) {
  currentMultiprocessor()->fail(where, "%s", what);
}

void* dynamicShared() {
  return currentMultiprocessor()->dynamicShared();
}

void fence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  Multiprocessor* here = currentMultiprocessor();
  here->lane().hasFenced = true;
  here->mayYield();
}

bool hasFenced() {
  return currentMultiprocessor()->lane().hasFenced;
}

void mayYield() {
  currentMultiprocessor()->mayYield();
}

}  // namespace cuda_on_cpu

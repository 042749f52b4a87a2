#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cuda_on_cpu/collectives.h"
#include "cuda_on_cpu/launch.h"
#include "fiber.h"
#include "random.h"

// Runs thread blocks, one at a time, on the host thread that calls. Each CUDA thread is a fiber:
// it runs until it must wait for others, then the next one that can run goes on.

namespace cuda_on_cpu {

inline constexpr int kMostThreads = 1024;
inline constexpr int kLanes = 32;

enum class LaneState : std::uint8_t { kReady, kAtBarrier, kAtWarp, kDone };

/// A CUDA thread. One cache line: all that a meeting of a warp touches.
struct alignas(64) Lane {
  Fiber fiber;
  std::uint64_t in = 0, out = 0;  // what it brings to a meeting, what it takes away
  const char* file = nullptr;     // where it waits
  int line = 0;
  unsigned mask = 0;
  int argument = 0;
  std::uint16_t x = 0, y = 0, z = 0;  // threadIdx
  std::uint16_t index = 0;            // in the block
  WarpOp op{};
  std::uint8_t width = 32;
  LaneState state{};
  bool hasFenced = false;
};
static_assert(sizeof(Lane) == 64);

struct Warp {
  std::uint32_t exist = 0, done = 0, ready = 0, waiting = 0;
  unsigned meetings = 0;
  char order[2] = {};  // for ThreadSanitizer: two, or a late lane's past would hide races
};

/// What the blocks of a launch have in common.
struct GridLaunch {
  KernelCall kernel;
  dim3 grid, block;
  std::size_t dynamicBytes = 0;
  std::uint64_t serial = 0;  ///< of the launch, for random orders
  bool shuffle = false;
  std::uint64_t seed = 0;
  char* order = nullptr;  // [2], for ThreadSanitizer: [0] its past, [1] its future
};

class Multiprocessor final {
 public:
  Multiprocessor();
  ~Multiprocessor();
  Multiprocessor(const Multiprocessor&) = delete;
  Multiprocessor& operator=(const Multiprocessor&) = delete;

  /// To be called by the host thread that is going to run blocks of `launch`.
  void begin(const GridLaunch& launch);
  /// False after a fault, which has been reported; the block is abandoned.
  bool run(std::uint64_t block);
  std::uint64_t switches() const { return m_switches; }

  // What threads of the block call.
  std::uint64_t meetWarp(WarpOp op, unsigned mask, std::uint64_t value, int argument, int width,
                         Location where);
  int meetBlock(BarrierOp op, int predicate, Location where);
  /// `format` as in printf. (The stack of the thread is never unwound: nothing on it may own.)
  [[noreturn]] __attribute__((format(printf, 3, 4))) void fail(Location where, const char* format,
                                                               ...);
  void mayYield();
  Lane& lane() { return *m_current; }
  void* dynamicShared() { return m_dynamic; }

 private:
  static void enterLane();
  void runLane();
  void prepareLanes();
  void poisonShared();
  void findStaticShared();
  void retire(Lane& lane);
  void reportDeadlock();
  void abandon();
  std::string placeOf(const Lane& lane) const;

  Lane* pick();
  void makeReady(Lane& lane);
  void makeReady(int warp, std::uint32_t lanes);
  void wait(LaneState state);
  void switchTo(Lane& from, Lane& to, bool isLast = false);
  bool completeWarp(int warp, unsigned mask);
  void releaseBarrier();

  std::vector<Lane> m_lanes;
  std::vector<FiberStack> m_stacks;
  Warp m_warps[kMostThreads / kLanes];
  std::uint32_t m_readyWarps = 0;
  int m_currentWarp = 0;
  Lane* m_current = nullptr;
  Lane m_host;  // the thread that runs the blocks
  FiberStack m_hostStack;

  const GridLaunch* m_launch = nullptr;
  int m_threads = 0, m_done = 0;
  bool m_hasFailed = false;
  Random m_random;
  std::uint64_t m_switches = 0;

  // The barrier of the block.
  int m_waiting = 0;
  BarrierOp m_barrierOp{};
  Location m_barrierAt{};
  int m_barrierSum = 0, m_barrierResult[2] = {};
  unsigned m_barriers = 0;
  char m_barrierOrder[2] = {};
  char m_blockOrder[2] = {};

  struct Region {
    void* begin;
    std::size_t bytes;
  };
  std::vector<Region> m_staticShared;
  std::unique_ptr<char[]> m_dynamicBuffer;
  char* m_dynamic = nullptr;
};

/// The multiprocessor whose block the calling host thread runs, or null.
Multiprocessor* currentMultiprocessor();

/// What a warp's lanes get from a meeting. `lanes`: those that take part.
void computeMeeting(Lane* warp, std::uint32_t lanes);
const char* nameOf(WarpOp op);

}  // namespace cuda_on_cpu

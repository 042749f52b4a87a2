#include "multiprocessor.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>

#include "faults.h"
#include "sanitizers.h"

CUDA_ON_CPU_TLS uint3 threadIdx;
CUDA_ON_CPU_TLS uint3 blockIdx;
CUDA_ON_CPU_TLS CudaOnCpuDim blockDim;
CUDA_ON_CPU_TLS CudaOnCpuDim gridDim;

namespace cuda_on_cpu {
namespace {

CUDA_ON_CPU_TLS Multiprocessor* t_multiprocessor = nullptr;

constexpr std::size_t kDynamicAlign = 128;
constexpr std::size_t kMostDynamicBytes = 256 * 1024;
constexpr int kPoison = 0xFF;  // NaN in every floating format

std::string dims(unsigned x, unsigned y, unsigned z) {
  return "(" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
}

/// The set bit of `bits` with `n` set bits below it.
int nthBit(std::uint32_t bits, unsigned n) {
  while (n-- > 0) bits &= bits - 1;
  return std::countr_zero(bits);
}

}  // namespace

Multiprocessor* currentMultiprocessor() {
  return t_multiprocessor;
}

Multiprocessor::Multiprocessor() : m_lanes(kMostThreads), m_stacks(kMostThreads) {
  m_host.fiber.stack = &m_hostStack;
}

Multiprocessor::~Multiprocessor() {
  for (FiberStack& stack : m_stacks) dropStack(stack);
}

void Multiprocessor::begin(const GridLaunch& launch) {
  m_launch = &launch;
  m_threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  for (int i = 0; i < m_threads; ++i) {
    if (m_stacks[i].base == nullptr) makeStack(m_stacks[i], i);
  }
  adoptThread(m_host.fiber);
  findStaticShared();
  if (launch.dynamicBytes > 0 && m_dynamicBuffer == nullptr) {
    m_dynamicBuffer.reset(new char[kMostDynamicBytes + 2 * kDynamicAlign]);
  }
}

/// The thread-local variables of the library that the kernel is in: the static shared memory of
/// all its kernels. A kernel in the program itself gets none poisoned: other variables lie there.
void Multiprocessor::findStaticShared() {
  m_staticShared.clear();
  Dl_info info{};
  if (dladdr(m_launch->kernel.function, &info) == 0) return;
  struct Search {
    const void* base;
    std::vector<Region>* found;
  } search{info.dli_fbase, &m_staticShared};
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* data) {
        auto& want = *static_cast<Search*>(data);
        if (reinterpret_cast<const void*>(module->dlpi_addr) != want.base) return 0;
        if (module->dlpi_name[0] == '\0' || module->dlpi_tls_data == nullptr) return 1;
        for (int i = 0; i < module->dlpi_phnum; ++i) {
          if (module->dlpi_phdr[i].p_type != PT_TLS) continue;
          want.found->push_back({module->dlpi_tls_data, module->dlpi_phdr[i].p_memsz});
        }
        return 1;
      },
      &search);
}

void Multiprocessor::poisonShared() {
  for (const Region& region : m_staticShared) std::memset(region.begin, kPoison, region.bytes);
  m_dynamic = nullptr;
  const std::size_t bytes = m_launch->dynamicBytes;
  if (bytes == 0) return;
  char* const buffer = m_dynamicBuffer.get();
  const std::size_t whole = kMostDynamicBytes + 2 * kDynamicAlign;
  allow(buffer, whole);
  m_dynamic = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(buffer) + kDynamicAlign) &
                                      ~(kDynamicAlign - 1));
  std::memset(m_dynamic, kPoison, bytes);
  forbid(buffer, static_cast<std::size_t>(m_dynamic - buffer));
  forbid(m_dynamic + bytes, static_cast<std::size_t>(buffer + whole - (m_dynamic + bytes)));
}

void Multiprocessor::prepareLanes() {
  const dim3 block = m_launch->block;
  // ThreadSanitizer takes what one fiber does in two blocks for ordered: let others do it.
  const int shift = m_launch->shuffle ? static_cast<int>(m_random.below(m_threads)) : 0;
  for (int i = 0; i < m_threads; ++i) {
    Lane& lane = m_lanes[i];
    lane.index = static_cast<std::uint16_t>(i);
    lane.x = static_cast<std::uint16_t>(i % block.x);
    lane.y = static_cast<std::uint16_t>(i / block.x % block.y);
    lane.z = static_cast<std::uint16_t>(i / (block.x * block.y));
    lane.file = nullptr;
    lane.state = LaneState::kReady;
    lane.hasFenced = false;
    lane.fiber.stack = &m_stacks[i + shift < m_threads ? i + shift : i + shift - m_threads];
    prepare(lane.fiber, &Multiprocessor::enterLane);
  }
  m_readyWarps = 0;
  for (int first = 0; first < m_threads; first += kLanes) {
    const int lanes = std::min(kLanes, m_threads - first);
    Warp& warp = m_warps[first / kLanes];
    warp.exist = warp.ready = lanes == kLanes ? ~0U : (1U << lanes) - 1;
    warp.done = warp.waiting = 0;
    m_readyWarps |= 1U << (first / kLanes);
  }
}

bool Multiprocessor::run(std::uint64_t block) {
  const dim3 grid = m_launch->grid;
  m_random = Random(m_launch->seed * 1000003 + m_launch->serial * 7919 + block);
  m_done = m_waiting = m_currentWarp = 0;
  m_hasFailed = false;
  heed(&m_blockOrder[1]);
  heed(&m_launch->order[0]);
  poisonShared();
  prepareLanes();
  announce(&m_blockOrder[0]);

  t_multiprocessor = this;
  blockIdx = {static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x % grid.y),
              static_cast<unsigned>(block / grid.x / grid.y)};
  blockDim = {m_launch->block.x, m_launch->block.y, m_launch->block.z};
  gridDim = {grid.x, grid.y, grid.z};
  while (!m_hasFailed) {
    Lane* next = pick();
    if (next == nullptr) break;
    switchTo(m_host, *next);
  }
  if (!m_hasFailed && m_done != m_threads) reportDeadlock();
  if (m_hasFailed) abandon();
  t_multiprocessor = nullptr;
  return !m_hasFailed;
}

void Multiprocessor::enterLane() {
  fiberEntered();
  t_multiprocessor->runLane();
}

void Multiprocessor::runLane() {
  heed(&m_blockOrder[0]);
  m_launch->kernel.call(m_launch->kernel.function, m_launch->kernel.arguments.get());
  announce(&m_launch->order[1]);
  announce(&m_blockOrder[1]);
  Lane& self = *m_current;
  retire(self);
  Lane* next = m_hasFailed ? nullptr : pick();
  switchTo(self, next != nullptr ? *next : m_host, true);
  __builtin_unreachable();
}

/// A thread has reached the end of the kernel. Nobody may wait for it.
void Multiprocessor::retire(Lane& lane) {
  lane.state = LaneState::kDone;
  ++m_done;
  Warp& warp = m_warps[lane.index / kLanes];
  warp.done |= 1U << (lane.index % kLanes);
  if (m_waiting > 0) {
    reportFault("a thread ends while " + std::to_string(m_waiting) +
                    " of its block wait at the barrier " + m_barrierAt.file + ":" +
                    std::to_string(m_barrierAt.line) + ", " + placeOf(lane),
                cudaErrorLaunchFailure);
    m_hasFailed = true;
    return;
  }
  for (std::uint32_t rest = warp.waiting; rest != 0; rest &= rest - 1) {
    const Lane& other = m_lanes[lane.index / kLanes * kLanes + std::countr_zero(rest)];
    if ((other.mask >> (lane.index % kLanes) & 1U) == 0) continue;
    reportFault("a thread ends while its warp waits for it in " + std::string(nameOf(other.op)) +
                    " at " + other.file + ":" + std::to_string(other.line) + ", " + placeOf(lane),
                cudaErrorLaunchFailure);
    m_hasFailed = true;
    return;
  }
}

std::string Multiprocessor::placeOf(const Lane& lane) const {
  return kernelName(m_launch->kernel.function) + " block " +
         dims(blockIdx.x, blockIdx.y, blockIdx.z) + " thread " + dims(lane.x, lane.y, lane.z);
}

void Multiprocessor::fail(Location where, const char* format, ...) {
  Lane& self = *m_current;
  {
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    reportFault(std::string(what) + " at " + where.file + ":" + std::to_string(where.line) + ", " +
                    placeOf(self),
                cudaErrorLaunchFailure);
  }
  m_hasFailed = true;
  switchTo(self, m_host);
  __builtin_unreachable();
}

void Multiprocessor::reportDeadlock() {
  std::map<std::string, int> places;
  for (int i = 0; i < m_threads; ++i) {
    const Lane& lane = m_lanes[i];
    if (lane.state == LaneState::kDone) continue;
    const bool isBarrier = lane.state == LaneState::kAtBarrier;
    ++places[std::string(isBarrier ? "the barrier" : nameOf(lane.op)) + " at " +
             (lane.file != nullptr ? lane.file : "?") + ":" + std::to_string(lane.line)];
  }
  std::string text = "deadlock in " + kernelName(m_launch->kernel.function) + " block " +
                     dims(blockIdx.x, blockIdx.y, blockIdx.z) + ":";
  for (const auto& [place, count] : places) text += " " + std::to_string(count) + " in " + place;
  reportFault(text, cudaErrorLaunchFailure);
  m_hasFailed = true;
}

/// The threads of a block that failed are never continued: sanitizers are told so.
void Multiprocessor::abandon() {
  for (int i = 0; i < m_threads; ++i) {
    [[maybe_unused]] const FiberStack& stack = *m_lanes[i].fiber.stack;
    allow(stack.base, stack.bytes);
#if defined(CUDA_ON_CPU_TSAN)
    __tsan_switch_to_fiber(stack.sanitizerThread, __tsan_switch_to_fiber_no_sync);
    announce(&m_launch->order[1]);
    announce(&m_blockOrder[1]);
    __tsan_switch_to_fiber(m_hostStack.sanitizerThread, __tsan_switch_to_fiber_no_sync);
#endif
  }
}

void Multiprocessor::switchTo(Lane& from, Lane& to, bool isLast) {
  ++m_switches;
  m_current = &to;
  threadIdx = {to.x, to.y, to.z};
  switchFiber(from.fiber, to.fiber, isLast);
}

/// The next thread to run: in natural order the first that can, and of the same warp as long as
/// possible, since that one's data are in the cache.
Lane* Multiprocessor::pick() {
  if (m_readyWarps == 0) return nullptr;
  int warp = m_currentWarp, lane = 0;
  if (m_launch->shuffle) {
    warp = nthBit(m_readyWarps, m_random.below(static_cast<unsigned>(std::popcount(m_readyWarps))));
    const std::uint32_t ready = m_warps[warp].ready;
    lane = nthBit(ready, m_random.below(static_cast<unsigned>(std::popcount(ready))));
  } else {
    if ((m_readyWarps >> warp & 1U) == 0) warp = std::countr_zero(m_readyWarps);
    lane = std::countr_zero(m_warps[warp].ready);
  }
  m_currentWarp = warp;
  m_warps[warp].ready &= ~(1U << lane);
  if (m_warps[warp].ready == 0) m_readyWarps &= ~(1U << warp);
  return &m_lanes[warp * kLanes + lane];
}

void Multiprocessor::makeReady(int warp, std::uint32_t lanes) {
  if (lanes == 0) return;
  m_warps[warp].ready |= lanes;
  m_readyWarps |= 1U << warp;
}

void Multiprocessor::makeReady(Lane& lane) {
  makeReady(lane.index / kLanes, 1U << (lane.index % kLanes));
}

/// Lets others run until somebody has made this thread ready, and its turn has come.
void Multiprocessor::wait(LaneState state) {
  Lane& self = *m_current;
  self.state = state;
  Lane* next = pick();
  if (next != &self) switchTo(self, next != nullptr ? *next : m_host);
  self.state = LaneState::kReady;
}

void Multiprocessor::mayYield() {
  if (!m_launch->shuffle || (m_random.next() >> 63) != 0) return;
  makeReady(*m_current);
  wait(LaneState::kReady);
}

}  // namespace cuda_on_cpu

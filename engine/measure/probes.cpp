#include "engine/measure/probes.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "kernels/cpu/peak_loops.h"

namespace vitrine::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Runs work(thread) on all threads at once; seconds from the start of the first to the end of the
/// last. `prepare(thread)` comes before, untimed.
template <typename Prepare, typename Work>
double timeTogether(int threads, int passes, Prepare prepare, Work work) {
  double best = 0.0;
  Clock::time_point begin;
  std::barrier together(threads);
  const auto body = [&](int thread) {
    prepare(thread);
    for (int pass = 0; pass < passes; ++pass) {
      together.arrive_and_wait();
      if (thread == 0) begin = Clock::now();
      work(thread);
      together.arrive_and_wait();
      if (thread == 0) {
        const double taken = seconds(Clock::now() - begin);
        best = pass == 0 ? taken : std::min(best, taken);
      }
    }
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
  body(0);
  return best;
}

std::uint64_t sumOf(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    for (int l = 0; l < 8; ++l) sums[l] += words[i + l];
  }
  std::uint64_t total = 0;
  for (std::uint64_t sum : sums) total += sum;
  return total;
}

PeakRate measure(const kernels::cpu::PeakLoop& loop, int threads) {
  threads = std::max(threads, 1);
  std::atomic<float> sink{0.0F};
  const auto timed = [&](std::int64_t rounds) {
    return timeTogether(
        threads, 3, [](int) {},
        [&](int) { sink.store(loop.run(rounds), std::memory_order_relaxed); });
  };
  // Long enough for the clock, and for the processor to reach its steady frequency.
  std::int64_t rounds = 1 << 16;
  while (timed(rounds) < 0.02) rounds *= 4;
  const double taken = timed(rounds * 4);
  return {loop.operationsPerRound * static_cast<double>(rounds * 4) * threads / taken,
          loop.instruction};
}

}  // namespace

double probeReadBandwidth(int threads, std::uint64_t bytes, int passes) {
  threads = std::max(threads, 1);
  const std::size_t words =
      static_cast<std::size_t>(bytes) / sizeof(std::uint64_t) / static_cast<std::size_t>(threads);
  std::vector<std::unique_ptr<std::uint64_t[]>> parts;
  for (int t = 0; t < threads; ++t) {
    parts.emplace_back(new (std::nothrow) std::uint64_t[words]);
    if (!parts.back()) return 0.0;
  }
  std::atomic<std::uint64_t> sink{0};
  // Each thread writes its part first, so that its pages lie near it.
  const double taken = timeTogether(
      threads, std::max(passes, 1),
      [&](int t) { std::fill_n(parts[t].get(), words, static_cast<std::uint64_t>(t) + 1); },
      [&](int t) { sink.fetch_add(sumOf(parts[t].get(), words), std::memory_order_relaxed); });
  return static_cast<double>(words * sizeof(std::uint64_t)) * threads / taken;
}

PeakRate probeInt8Peak(int threads) {
  return measure(kernels::cpu::int8PeakLoop(), threads);
}

PeakRate probeBf16Peak(int threads) {
  return measure(kernels::cpu::bf16PeakLoop(), threads);
}

}  // namespace vitrine::engine

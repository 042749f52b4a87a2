#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace vitrine::device {

/// Median of the seconds that `run` takes over `repeats` runs, after one that does not count.
/// `run` returns when the device has done its work.
template <typename Run>
double medianSeconds(int repeats, Run&& run) {
  run();
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace vitrine::device

#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/device/shapes.h"

namespace vitrine::device {

/// One line of the table: what was measured, against what it should reach.
struct Measure {
  std::string id;  ///< "G1"
  std::string what;
  double value = 0;
  std::string unit;  ///< "of probe", "x", "us"
  double goal = 0;
  bool atLeast = true;  ///< the goal is a lower bound
  std::string detail;   ///< the figures behind it
  bool isMet() const { return atLeast ? value >= goal : value <= goal; }
};

/// Figures in words, by the rules of printf.
inline std::string text(const char* format, double a, double b = 0) {
  char line[160];
  std::snprintf(line, sizeof line, format, a, b);
  return line;
}

/// What the device can do at best, measured in this process.
struct Limits {
  double readBytesPerSecond = 0;
  double fp16FlopsPerSecond = 0;
};

struct BenchOptions {
  bool tiny = false;  ///< shapes and sizes so small that they run anywhere; figures mean nothing
  int repeats = 5;
};

Limits measureLimits(const BenchOptions& options);
/// G1 to G4, G8, G10, G12: whole steps of a synthetic model.
std::vector<Measure> measureModels(const BenchOptions& options, const Limits& limits);
/// G5 to G7, G9, G11: kernels and copies.
std::vector<Measure> measureKernels(const BenchOptions& options, const Limits& limits);

}  // namespace vitrine::device

#pragma once

#include <cstddef>

// A flow of control with a stack of its own, on the host thread that switches to it. Switching
// costs some nanoseconds: it saves the registers that a call preserves, no signal mask.

namespace cuda_on_cpu {

/// The parts of a fiber that a switch does not touch.
struct FiberStack {
  char* base = nullptr;
  std::size_t bytes = 0;
  void* fakeStack = nullptr;        // AddressSanitizer's
  void* sanitizerThread = nullptr;  // ThreadSanitizer's
};

struct Fiber {
  void* stackPointer = nullptr;
  FiberStack* stack = nullptr;
};

/// Makes a stack with an inaccessible page below it. `color` spreads the hot frames of many fibers
/// over the sets of the first-level cache: at equal offsets all would share one set.
void makeStack(FiberStack& stack, int color);
void dropStack(FiberStack& stack);
/// The next switch to `fiber` calls `entry`, which must not return.
void prepare(Fiber& fiber, void (*entry)());
/// Leaves `from`, continues `to`. `isLast`: `from` is never continued.
void switchFiber(Fiber& from, const Fiber& to, bool isLast = false);
/// The first thing that an entry function calls.
void fiberEntered();
/// `fiber` stands for the host thread that calls this.
void adoptThread(Fiber& fiber);

}  // namespace cuda_on_cpu

#include "fiber.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "sanitizers.h"

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kPage = 4096;
#if defined(__SANITIZE_ADDRESS__) || defined(CUDA_ON_CPU_TSAN)
constexpr std::size_t kStackBytes = 256 * 1024;
#else
constexpr std::size_t kStackBytes = 64 * 1024;
#endif
constexpr std::size_t kLine = 64;
constexpr std::size_t kLeftFrames = 4096;

}  // namespace

// rdi: where to keep the stack pointer; rsi: the one to take up. Callee-saved registers lie on the
// stack below the return address.
extern "C" void cudaOnCpuSwitch(void** keep, void* take);
asm(R"(
.text
.globl cudaOnCpuSwitch
.hidden cudaOnCpuSwitch
.type cudaOnCpuSwitch,@function
cudaOnCpuSwitch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
.size cudaOnCpuSwitch,.-cudaOnCpuSwitch
)");

void makeStack(FiberStack& stack, int color) {
  const std::size_t bytes = kStackBytes + 2 * kPage;  // the guard, and room to shift the top
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kPage, PROT_NONE) != 0) {
    std::fprintf(stderr, "cuda_on_cpu: no memory for the stack of a thread\n");
    std::abort();
  }
  const std::size_t shift = static_cast<std::size_t>(color * 5 % 64) * kLine;
  stack.base = static_cast<char*>(memory) + kPage;
  stack.bytes = kStackBytes + kPage - shift;
}

void dropStack(FiberStack& stack) {
  if (stack.base != nullptr) munmap(stack.base - kPage, kStackBytes + 2 * kPage);
#if defined(CUDA_ON_CPU_TSAN)
  if (stack.sanitizerThread != nullptr) __tsan_destroy_fiber(stack.sanitizerThread);
#endif
  stack = {};
}

void prepare(Fiber& fiber, void (*entry)()) {
  FiberStack& stack = *fiber.stack;
  stack.fakeStack = nullptr;
#if defined(CUDA_ON_CPU_TSAN)
  if (stack.sanitizerThread == nullptr) stack.sanitizerThread = __tsan_create_fiber(0);
#endif
  // The return address stands where a call would have put it: the stack is aligned as the ABI wants
  // once it has been taken off.
  auto** top = reinterpret_cast<void**>(
      reinterpret_cast<std::uintptr_t>(stack.base + stack.bytes - kLine) & ~std::uintptr_t{15});
  // The last frames of the thread that used the stack before never returned.
  allow(stack.base + stack.bytes - kLeftFrames, kLeftFrames);
  top[1] = nullptr;  // the end of backtraces
  top[0] = reinterpret_cast<void*>(entry);
  for (int i = 1; i <= 6; ++i) top[-i] = nullptr;
  fiber.stackPointer = top - 6;
}

void switchFiber(Fiber& from, const Fiber& to, [[maybe_unused]] bool isLast) {
#if defined(CUDA_ON_CPU_TSAN)
  __tsan_switch_to_fiber(to.stack->sanitizerThread, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(isLast ? nullptr : &from.stack->fakeStack, to.stack->base,
                                 to.stack->bytes);
#endif
  cudaOnCpuSwitch(&from.stackPointer, to.stackPointer);
#if defined(__SANITIZE_ADDRESS__)
  const void* base = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(from.stack->fakeStack, &base, &bytes);
#endif
}

void fiberEntered() {
#if defined(__SANITIZE_ADDRESS__)
  const void* base = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &base, &bytes);
#endif
}

void adoptThread([[maybe_unused]] Fiber& fiber) {
#if defined(__SANITIZE_ADDRESS__)
  // A switch back to the thread must say where its stack is; else an exception that is thrown there
  // later leaves the stack as AddressSanitizer had it.
  thread_local const FiberStack own = [] {
    FiberStack stack;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return stack;
    void* base = nullptr;
    pthread_attr_getstack(&attributes, &base, &stack.bytes);
    stack.base = static_cast<char*>(base);
    pthread_attr_destroy(&attributes);
    return stack;
  }();
  fiber.stack->base = own.base;
  fiber.stack->bytes = own.bytes;
#endif
#if defined(CUDA_ON_CPU_TSAN)
  fiber.stack->sanitizerThread = __tsan_get_current_fiber();
#endif
}

}  // namespace cuda_on_cpu

#pragma once

#include <cstdio>
#include <cstdlib>

/// A promise of ours, checked in every build: the bookkeeping it guards is cheap, and a broken
/// promise would mix one conversation's cache into another's. Prints the place and ends the
/// process.
#define VITRINE_CHECK(condition, message)                                                     \
  do {                                                                                        \
    if (!(condition)) [[unlikely]] {                                                          \
      std::fprintf(stderr, "%s:%d: broken promise: %s (%s)\n", __FILE__, __LINE__, (message), \
                   #condition);                                                               \
      std::abort();                                                                           \
    }                                                                                         \
  } while (false)

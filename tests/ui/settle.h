#pragma once

#include <QTest>

namespace vitrine::test {

/// Until panels have drawn what happened (they draw at most ten times a second). In short waits: a
/// machine that was away for one long wait would have drawn nothing in it.
inline void settle() {
  for (int i = 0; i < 15; ++i) QTest::qWait(24);
}

}  // namespace vitrine::test

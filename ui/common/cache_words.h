#pragma once

#include <QString>

#include "engine/engine_types.h"

// What the engine reports about its cache, in sentences; the same ones everywhere in the window.

namespace vitrine::ui {

/// "412 reused, 1,310 computed: the system prompt changed at token 57"
QString reuseText(const engine::TurnReport& report);
/// "restored 4,096 tokens in 60 ms instead of ≈ 3.1 s", or that recomputing was faster; empty
/// where nothing of the prompt was on disk.
QString restoreText(const engine::RestoreReport& restore);
/// True where something that was cached was lost or had moved, which is worth a line of its own.
bool isNews(const engine::TurnReport& report);

/// "116 blocks equal bit for bit; 16 tokens continued alike; cold 2.1 s, cached 40 ms", or what
/// differs.
QString proofText(const engine::CacheProof& proof);
/// Nothing that a person could notice differs: each block, or at least each continued token.
bool holds(const engine::CacheProof& proof);

/// Two texts from their first difference on, without what they have in common at their end.
struct Difference {
  QString before, after;  ///< what differs
  QString common;         ///< what follows in both
};
Difference differenceOf(const QString& before, const QString& after);

}  // namespace vitrine::ui

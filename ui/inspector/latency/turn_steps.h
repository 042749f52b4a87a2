#pragma once

#include "app/chat/turn_metrics.h"
#include "ui/inspector/latency/waterfall.h"

namespace vitrine::ui {

/// What passed between Send and the first text on screen of a turn, in order: storing the question,
/// the parts of the TTFT with a step for each chunk of the prefill (neighbours together where there
/// are more than `mostChunks`), what is left of the TTFT, and the way to the screen. Parts that
/// took no time at all are left out where they need not happen (restore, store, first paint).
QVector<Waterfall::Step> turnSteps(const app::TurnMetrics& turn, int mostChunks = 6);

/// Sum of the steps, milliseconds.
double sumOf(const QVector<Waterfall::Step>& steps);

}  // namespace vitrine::ui

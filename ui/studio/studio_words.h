#pragma once

#include <QString>

#include "engine/quant/calibration_profile.h"

// Words and figures that the studio's sections share.

namespace vitrine::ui {

/// "into q, k, v", "into o", "into gate, up", "into down", "into the output".
QString inputText(engine::LinearInput input);
/// "Layer 3, into gate, up"; layers count from 0, as in sets of matrices.
QString siteWords(int site, int nLayers);
/// "Maximum", "Percentile 99.99", "Least squared error".
QString methodText(engine::ScaleMethod method, double percentile);
/// A magnitude with three digits: "0.0042", "1.27", "184", "2.1e-07".
QString magnitudeText(double value);
/// A share, also a very small one: "0 %", "under 0.001 %", "0.012 %", "3.4 %".
QString tinyShareText(double share);
/// A divergence in nats: "0.00042", "0.131".
QString klText(double nats);
/// "30 Nov 2026, 04:12" from ISO 8601 in UTC, in the person's own time.
QString dateText(const std::string& iso);
/// A sentence of the engine as one: the first letter large.
QString sentenceText(const std::string& message);

}  // namespace vitrine::ui

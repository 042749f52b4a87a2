#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/lab/statistics.h"
#include "engine/engine_types.h"

// What the lab finds out, as values: rows of the trade-off table, their figures and curves, the
// recommendations, and the report that holds all of it.

namespace vitrine::app::lab {

/// How long a run may take: about 2 or 10 minutes for all rows of a small model on two cores.
enum class Effort { kQuick, kFull };
const char* nameOf(Effort effort);  // "quick", "full"

/// One measured value with the range of its repeats.
struct Figure {
  std::string id;     ///< for programs: "decode_int8"
  std::string label;  ///< for people: "Decode, W8A16"
  std::string unit;   ///< "tokens/s", "ms", "bytes", "×", "nats", "%", ""
  Spread value;
};

/// A curve of a chart.
struct Series {
  std::string id, label;
  std::vector<double> x, y;
  bool dashed = false;
  int colour = -1;  ///< of the chart's four; −1: by its place among the curves
  int mark = -1;  ///< index of a point to be marked (the knee); −1: none
  std::string markText;
};

/// Curves over one axis.
struct Chart {
  std::string id, title, xLabel, yLabel;
  bool logX = false;  ///< doubling steps lie at equal distances
  bool logY = false;
  std::vector<Series> series;
};

/// One method of the trade-off table: what it gained on this machine and what it cost.
struct LabRow {
  std::string id;         ///< "kv-cache"
  std::string method;     ///< "INT8 weights (W8A16, groups of 32)"
  std::string gain;       ///< "1.71× decode, 0.53× memory"
  double gainFactor = 0;  ///< the number of the gain, for its bar; 0: none
  std::string cost;       ///< "KL 0.0011, top-1 98.7 %"
  std::string measured;   ///< "9.6 → 5.6 ms per token"
  std::string how;        ///< how the figures were taken, in sentences
  std::vector<Figure> figures;
  std::vector<Chart> charts;
  Effort effort = Effort::kQuick;
  double seconds = 0;  ///< that the row took
  std::string date;    ///< UTC, ISO 8601

  const Figure* figure(const std::string& figureId) const;
  /// The median, or `otherwise` where it was not measured.
  double value(const std::string& figureId, double otherwise = 0) const;
};

/// A configuration for one way of using the model, chosen from the rows by a rule.
struct Recommendation {
  std::string id;       ///< "interactive", "batch", "documents"
  std::string title;    ///< "Interactive chat"
  std::string choice;   ///< "4-bit weights, FP16 KV, reuse on"; empty: nothing to choose from yet
  std::string figures;  ///< "TTFT 58 ms · TPOT 3.6 ms"
  std::string rule;     ///< why this one
  std::string missing;  ///< which rows it needs that have not run
  engine::EngineConfig config;
};

/// What was measured, on what. Rows that belong to another subject are not comparable.
struct Subject {
  std::string model, quantization, fingerprint, path;
  std::string processor, instructionSet, backend;
  int threads = 0;
  std::uint64_t memoryBytes = 0;
  engine::EngineConfig config;

  /// Model, machine and configuration in one line: rows are kept under it.
  std::string key() const;
  /// "cpu · native weights · FP16 activations · blocks of 16 · chunks of 256".
  std::string configurationText() const;
};

struct LabReport {
  Subject subject;
  Effort effort = Effort::kQuick;
  std::string date;
  std::vector<LabRow> rows;
  std::vector<Recommendation> recommendations;

  const LabRow* row(const std::string& id) const;
};

}  // namespace vitrine::app::lab

#pragma once

#include "app/lab/lab_types.h"
#include "app/lab/recommendations.h"

namespace vitrine::test {

inline app::lab::Figure figureOf(const std::string& id, double value) {
  return {id, id, "tokens/s", {value, value * 0.9, value * 1.1, 5}};
}

/// A row of weights where each mode has its speeds: decode, prefill, decode of 8 chats.
inline app::lab::LabRow weightsRow() {
  app::lab::LabRow row;
  row.id = "int8-weights";
  row.method = "INT8 | weights <b>&";
  row.gain = "1.71× decode";
  row.gainFactor = 1.71;
  row.cost = "KL 0.001";
  row.measured = "9.6 → 5.6 ms";
  row.how = "in turn";
  row.date = "2026-01-02T03:04:05Z";
  row.seconds = 12;
  const auto add = [&](const std::string& mode, double decode, double prefill, double batched,
                       double kl, double top1) {
    row.figures.push_back(figureOf("decode_" + mode, decode));
    row.figures.push_back(figureOf("prefill_" + mode, prefill));
    row.figures.push_back(figureOf("batched_" + mode, batched));
    if (mode == "fp16") return;
    row.figures.push_back(figureOf("kl_" + mode, kl));
    row.figures.push_back(figureOf("top1_" + mode, top1));
  };
  add("native", 400, 1300, 900, 0, 99);
  add("fp16", 100, 1000, 600, 0, 100);
  add("w8a16", 250, 1260, 1200, 0.001, 98);
  add("w8a8", 290, 2000, 1500, 0.004, 97);
  app::lab::Chart chart;
  chart.id = "curve";
  chart.title = "A <curve> & \"more\"";
  chart.xLabel = "chats";
  chart.yLabel = "tokens/s";
  chart.logX = true;
  chart.series = {{"one", "one", {1, 2, 4, 8, 16}, {100, 190, 340, 400, 410}, false, -1, 2, "knee"},
                  {"two", "two", {1, 2, 4, 8, 16}, {90, 150, 200, 220, 230}, true, -1, -1, ""}};
  row.charts = {chart};
  return row;
}

inline app::lab::LabRow kvRow(double decodeFactor, double kl, double top1) {
  app::lab::LabRow row;
  row.id = "int8-kv";
  row.method = "INT8 KV cache";
  row.figures = {figureOf("decode_factor", decodeFactor), figureOf("kl", kl),
                 figureOf("top1", top1), figureOf("fits_int8", 45000),
                 figureOf("fits_fp16", 23000)};
  return row;
}

inline app::lab::LabRow batchingRow() {
  app::lab::LabRow row;
  row.id = "batching";
  row.method = "Dynamic batching";
  row.figures = {figureOf("load_tps_continuous_4", 500), figureOf("load_tps_continuous_8", 900),
                 figureOf("load_tps_continuous_16", 800), figureOf("continuous_factor", 1.3)};
  return row;
}

inline app::lab::LabReport sampleReport() {
  app::lab::LabReport report;
  report.subject.model = "tiny <model>";
  report.subject.quantization = "Q4_1";
  report.subject.fingerprint = "abc";
  report.subject.processor = "A processor";
  report.subject.instructionSet = "AVX2";
  report.subject.backend = "cpu";
  report.subject.threads = 2;
  report.date = "2026-01-02T03:04:05Z";
  report.rows = {weightsRow(), kvRow(0.98, 0.0004, 99), batchingRow()};
  report.recommendations = app::lab::recommend(report.rows, {});
  return report;
}

}  // namespace vitrine::test

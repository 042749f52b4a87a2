#include "engine/measure/sensitivity.h"

#include <algorithm>
#include <utility>

#include "engine/measure/reference_rows.h"

namespace vitrine::engine {
namespace {

constexpr MatrixPart kParts[] = {MatrixPart::kQ,    MatrixPart::kK,     MatrixPart::kV,
                                 MatrixPart::kO,    MatrixPart::kGate,  MatrixPart::kUp,
                                 MatrixPart::kDown, MatrixPart::kOutput};

MatrixSet matrixOf(int layer, MatrixPart part) {
  MatrixSet set;
  set.add(layer, part);
  return set;
}

MatrixSet without(MatrixSet from, const MatrixSet& what) {
  for (const auto& item : what.items()) from.remove(item.layer, item.part);
  return from;
}

SensitivityRow rowOf(MatrixSet set) {
  SensitivityRow row;
  row.name = set.text();
  row.quantized = std::move(set);
  return row;
}

void addRows(SensitivityReport& report, const SensitivityOptions& options, int nLayers) {
  for (int layer = 0; options.layers && layer < nLayers; ++layer) {
    MatrixSet set;
    set.addLayer(layer);
    report.layers.push_back(rowOf(std::move(set)));
  }
  for (const MatrixPart part : kParts) {
    if (!options.parts) break;
    if (part == MatrixPart::kOutput) {
      report.parts.push_back(rowOf(matrixOf(-1, part)));
      continue;
    }
    MatrixSet set;
    for (int layer = 0; layer < nLayers; ++layer) set.add(layer, part);
    report.parts.push_back(rowOf(std::move(set)));
    report.parts.back().name = fmt::format("*.{}", nameOf(part));
  }
  for (int layer = 0; options.matrices && layer < nLayers; ++layer) {
    for (int i = 0; i < kLayerParts; ++i) {
      report.matrices.push_back(rowOf(matrixOf(layer, static_cast<MatrixPart>(i))));
    }
  }
  if (options.matrices) report.matrices.push_back(rowOf(matrixOf(-1, MatrixPart::kOutput)));
}

void sortRows(std::vector<SensitivityRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const SensitivityRow& a, const SensitivityRow& b) {
    return a.klMean > b.klMean;
  });
}

}  // namespace

Result<SensitivityReport> measureSensitivity(const BackendMaker& make, const ModelConfig& config,
                                             std::span<const TokenId> tokens,
                                             const SensitivityOptions& options,
                                             const Progress& progress, std::stop_token stop) {
  if (options.precision.weights != WeightMode::kInt8) {
    return fail(ErrorCode::kInvalidArgument,
                "sensitivity is the loss by INT8, but the weights are {}; choose INT8 weights",
                nameOf(options.precision.weights));
  }
  VITRINE_ASSIGN(
      const ScoredWindows windows,
      ScoredWindows::make(config, tokens, {options.context, options.chunk, options.bos}));
  SensitivityReport report;
  addRows(report, options, config.nLayers);
  std::vector<SensitivityRow*> rows;
  for (auto* list : {&report.layers, &report.parts, &report.matrices}) {
    for (SensitivityRow& row : *list) rows.push_back(&row);
  }
  // The reference, everything quantized, and the rows.
  const double runs = static_cast<double>(rows.size()) + 2;
  int run = 0;
  const Progress part = [&](const std::string& stage, double done) {
    if (progress) progress(stage, (run + done) / runs);
  };
  if (progress) progress("Reference", 0);

  WeightPrecision fp16;
  fp16.weights = WeightMode::kFp16;
  VITRINE_ASSIGN(auto exact, make(fp16));
  ReferenceRows reference(windows);
  VITRINE_TRY(reference.take(std::move(exact), KvType::kFp16, options.referenceBytes, "Reference",
                             part, stop));

  const MatrixSet everything = MatrixSet::all(config.nLayers);
  const auto measure = [&](const MatrixSet& quantized, const std::string& name,
                           std::uint64_t& bytesSaved) -> Result<EvaluationReport> {
    ++run;
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "the measurement was stopped");
    part(name, 0);
    WeightPrecision precision = options.precision;
    precision.keep = without(everything, quantized);
    VITRINE_ASSIGN(const auto backend, make(precision));
    const std::uint64_t bytes = backend->memory().weightBytes;
    bytesSaved = reference.weightBytes() > bytes ? reference.weightBytes() - bytes : 0;
    return reference.compare(*backend, KvType::kFp16, name, part, stop);
  };
  std::uint64_t ignored = 0;
  VITRINE_ASSIGN(report.all, measure(everything, "All", ignored));
  report.tokens = report.all.tokens;
  for (SensitivityRow* row : rows) {
    VITRINE_ASSIGN(const EvaluationReport found,
                   measure(row->quantized, row->name, row->bytesSaved));
    row->klMean = found.klMean;
    row->klP99 = found.klP99;
    row->top1Agreement = found.top1Agreement;
  }
  sortRows(report.layers);
  sortRows(report.parts);
  sortRows(report.matrices);
  return report;
}

}  // namespace vitrine::engine

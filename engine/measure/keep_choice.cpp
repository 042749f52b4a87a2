#include "engine/measure/keep_choice.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace vitrine::engine {
namespace {

/// Adds a row's matrices; the share is a sum of losses as yet.
void take(const SensitivityRow& row, KeepChoice& choice) {
  for (const auto& item : row.quantized.items()) choice.matrices.add(item.layer, item.part);
  choice.bytes += row.bytesSaved;
  choice.share += row.klMean;
}

/// A row for each matrix of the layers, and the output's own, from those of the layers and kinds.
std::vector<SensitivityRow> estimated(const SensitivityReport& report) {
  std::vector<SensitivityRow> rows;
  std::vector<const SensitivityRow*> kinds;
  double loss = 0, bytes = 0;
  for (const SensitivityRow& row : report.parts) {
    if (row.quantized.items().front().layer < 0) {
      if (!report.layers.empty()) rows.push_back(row);
      continue;
    }
    kinds.push_back(&row);
    loss += row.klMean;
    bytes += static_cast<double>(row.bytesSaved);
  }
  for (const SensitivityRow& layer : report.layers) {
    for (const SensitivityRow* kind : kinds) {
      SensitivityRow row;
      row.quantized.add(layer.quantized.items().front().layer,
                        kind->quantized.items().front().part);
      row.klMean = loss > 0 ? layer.klMean * kind->klMean / loss : 0;
      const double share = bytes > 0 ? static_cast<double>(kind->bytesSaved) / bytes : 0;
      row.bytesSaved =
          static_cast<std::uint64_t>(share * static_cast<double>(layer.bytesSaved) + 0.5);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

KeepChoice mostSensitiveLayers(const SensitivityReport& report, int count) {
  KeepChoice choice;
  double all = 0;
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const SensitivityRow& row = report.layers[i];
    all += row.klMean;
    if (static_cast<int>(i) < count) take(row, choice);
  }
  if (all > 0) choice.share /= all;
  return choice;
}

KeepChoice mostLossPerByte(const SensitivityReport& report, std::uint64_t bytes) {
  std::vector<SensitivityRow> rows = report.matrices.empty() ? estimated(report) : report.matrices;
  std::ranges::stable_sort(rows, std::greater{}, [](const SensitivityRow& row) {
    return row.klMean / std::max(1.0, static_cast<double>(row.bytesSaved));
  });
  KeepChoice choice;
  double all = 0;
  for (const SensitivityRow& row : rows) {
    all += row.klMean;
    if (row.bytesSaved > 0 && choice.bytes + row.bytesSaved <= bytes) take(row, choice);
  }
  if (all > 0) choice.share /= all;
  return choice;
}

}  // namespace vitrine::engine

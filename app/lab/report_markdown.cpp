#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"
#include "app/lab/report_writer.h"

namespace vitrine::app::lab {
namespace {

// Text from a model's file may hold what Markdown reads as a cell, an element or emphasis.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      result += ' ';
      continue;
    }
    if (c == '|' || c == '<' || c == '*' || c == '_' || c == '`' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string toMarkdown(const LabReport& report) {
  std::string text = "# What each method gains and costs here\n\n";
  for (const auto& [name, value] : aboutLines(report)) {
    text += fmt::format("- {}: {}\n", name, cell(value));
  }
  text += "\n| Method | Gain | Cost | Measured |\n|---|---|---|---|\n";
  for (const LabRow& row : report.rows) {
    text += fmt::format("| {} | {} | {} | {} |\n", cell(row.method), cell(row.gain), cell(row.cost),
                        cell(row.measured));
  }
  text += "\n## Recommendations\n\n";
  for (const Recommendation& each : report.recommendations) {
    if (each.choice.empty()) {
      text += fmt::format("- **{}**: needs the rows {}\n", each.title, cell(each.missing));
    } else {
      text += fmt::format("- **{}**: {} ({}). {}\n", each.title, cell(each.choice),
                          cell(each.figures), cell(each.rule));
    }
  }
  for (const LabRow& row : report.rows) {
    text +=
        fmt::format("\n## {}\n\n{}\n\nRun: {}, {}, {:.0f} s.\n\n| Figure | Value |\n|---|---|\n",
                    cell(row.method), cell(row.how), nameOf(row.effort), row.date, row.seconds);
    for (const Figure& figure : row.figures) {
      text += fmt::format("| {} | {} |\n", cell(figure.label), cell(figureText(figure)));
    }
    for (const Chart& chart : row.charts) {
      if (chart.series.empty()) continue;
      text += fmt::format("\n### {} ({})\n\n| {} |", cell(chart.title), cell(chart.yLabel),
                          cell(chart.xLabel));
      for (const Series& series : chart.series) text += fmt::format(" {} |", cell(series.label));
      text += "\n|---|";
      for (std::size_t i = 0; i < chart.series.size(); ++i) text += "---|";
      text += "\n";
      // Long curves by some of their points: a table of 256 lines tells nothing more.
      const std::size_t points = chart.series.front().x.size();
      const std::size_t step = points > 16 ? points / 8 : 1;
      for (std::size_t i = points > 16 ? step - 1 : 0; i < points; i += step) {
        text += fmt::format("| {} |", numberText(chart.series.front().x[i]));
        for (const Series& series : chart.series) {
          text += i < series.y.size() ? fmt::format(" {} |", numberText(series.y[i])) : " |";
        }
        text += "\n";
      }
    }
  }
  return text;
}

}  // namespace vitrine::app::lab

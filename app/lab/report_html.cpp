#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "app/lab/chart_layout.h"
#include "app/lab/experiment.h"
#include "app/lab/report_writer.h"

namespace vitrine::app::lab {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

// The policy forbids scripts and every request.
constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What each method gains and costs here</title>
<style>
:root { --bg: #f6f7f9; --panel: #fff; --line: #e2e6eb; --text: #1c2127; --muted: #626c7a;
  --c0: #0f9488; --c1: #c17d10; --c2: #6d5bd6; --c3: #2776d2; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --bg: #101317; --panel: #161a20; --line: #272d36;
  --text: #e7eaef; --muted: #8d96a5; --c0: #2fc4b2; --c1: #e8a93f; --c2: #9b87f5;
  --c3: #5aa9f7; } }
body { margin: 0; background: var(--bg); color: var(--text);
  font: 15px/1.5 Inter, "Noto Sans", system-ui, sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 24px; } h2 { font-size: 18px; margin: 36px 0 8px; } h3 { font-size: 14px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; color: var(--muted);
  font-size: 13px; } dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 8px 12px 8px 0;
  border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-size: 13px; }
td.figure, .figures td + td { font: 13px/1.5 "JetBrains Mono", ui-monospace, monospace; }
.bar { height: 5px; border-radius: 3px; background: var(--line); margin-top: 6px;
  overflow: hidden; } .bar span { display: block; height: 5px; background: var(--c0); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(260px, 1fr)); gap: 14px; }
.card, .chart { background: var(--panel); border: 1px solid var(--line); border-radius: 7px;
  padding: 14px 16px; margin: 10px 0; }
.card b { display: block; margin: 4px 0; } .muted { color: var(--muted); font-size: 13px; }
svg { width: 100%; height: auto; } svg text { font: 11px "JetBrains Mono", monospace; }
.grid { stroke: var(--line); } .t { fill: var(--muted); }
.s0 { stroke: var(--c0); } .s1 { stroke: var(--c1); } .s2 { stroke: var(--c2); }
.s3 { stroke: var(--c3); }
.f0 { fill: var(--c0); } .f1 { fill: var(--c1); } .f2 { fill: var(--c2); } .f3 { fill: var(--c3); }
path { fill: none; stroke-width: 2; }
@media print { body { background: #fff; } .card, .chart, tr { break-inside: avoid; } }
</style></head><body><main>
)";

std::string table(const LabReport& report) {
  std::string html =
      "<table><thead><tr><th>Method</th><th>Gain</th><th>Cost</th><th>How it was measured</th>"
      "</tr></thead><tbody>\n";
  for (const LabRow& row : report.rows) {
    html += fmt::format(
        "<tr><td><strong>{}</strong></td><td>{}<div class=\"bar\"><span style=\"width:{:.0f}%\">"
        "</span></div></td><td>{}</td><td class=\"figure\">{}</td></tr>\n",
        escaped(row.method), escaped(row.gain), gainShare(row.gainFactor) * 100, escaped(row.cost),
        escaped(row.measured));
  }
  return html + "</tbody></table>\n";
}

std::string recommendations(const LabReport& report) {
  std::string html = "<h2>Recommendations</h2>\n<div class=\"cards\">\n";
  for (const Recommendation& each : report.recommendations) {
    html += "<section class=\"card\"><span class=\"muted\">" + escaped(each.title) + "</span>";
    if (each.choice.empty()) {
      html += "<p class=\"muted\">Needs the rows " + escaped(each.missing) + "</p>";
    } else {
      html += "<b>" + escaped(each.choice) + "</b><code>" + escaped(each.figures) +
              "</code><p class=\"muted\">" + escaped(each.rule) + "</p>";
    }
    html += "</section>\n";
  }
  return html + "</div>\n";
}

std::string details(const LabRow& row) {
  std::string html = fmt::format(
      "<h2>{}</h2>\n<p>{}</p>\n<p class=\"muted\">{}, {}, {:.0f} s</p>\n", escaped(row.method),
      escaped(row.how), nameOf(row.effort), escaped(row.date), row.seconds);
  for (const Chart& chart : row.charts) {
    html += "<div class=\"chart\"><h3>" + escaped(chart.title) + "</h3>\n" +
            toSvg(chart, 900, 260) + "</div>\n";
  }
  html += "<table class=\"figures\"><tbody>\n";
  for (const Figure& figure : row.figures) {
    html += "<tr><td>" + escaped(figure.label) + "</td><td>" + escaped(figureText(figure)) +
            "</td></tr>\n";
  }
  return html + "</tbody></table>\n";
}

}  // namespace

double gainShare(double factor) {
  if (!(factor > 1)) return 0.02;
  return std::clamp(std::log2(factor) / 4, 0.02, 1.0);  // 16× fills the bar
}

std::string toSvg(const Chart& chart, double width, double height) {
  constexpr double kFont = 11;
  constexpr double kAdvance = 0.6;  // of a monospaced font
  const auto countOf = [](const std::string& text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  };
  const ChartLayout layout = layoutChart(chart, width, height, kFont, [&](const std::string& text) {
    return double(countOf(text)) * kFont * kAdvance;
  });
  std::string svg =
      fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n", width,
                  height, escaped(chart.title));
  for (const auto& line : layout.grid) {
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
        line.from.x, line.from.y, line.to.x, line.to.y);
  }
  for (const auto& curve : layout.curves) {
    std::string path;
    for (const auto& point : curve.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", point.x, point.y);
    }
    svg += fmt::format("<path class=\"s{}\" d=\"{}\"{}/>\n", curve.series % 4, path,
                       curve.dashed ? " stroke-dasharray=\"6 4\"" : "");
    if (!curve.dots) continue;
    for (const auto& point : curve.points) {
      svg += fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n",
                         curve.series % 4, point.x, point.y);
    }
  }
  for (const auto& mark : layout.marks) {
    svg += fmt::format(
        "<circle class=\"s{}\" fill=\"none\" stroke-width=\"2\" cx=\"{:.1f}\" cy=\"{:.1f}\" "
        "r=\"7\"/>\n",
        mark.series % 4, mark.at.x, mark.at.y);
  }
  for (const auto& text : layout.texts) {
    const char* anchor = text.anchor == ChartLayout::Anchor::kMiddle  ? "middle"
                         : text.anchor == ChartLayout::Anchor::kRight ? "end"
                                                                      : "start";
    svg +=
        fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                    text.series < 0 ? "t" : fmt::format("f{}", text.series % 4), text.at.x,
                    text.at.y, anchor, escaped(text.text));
  }
  return svg + "</svg>\n";
}

std::string toHtml(const LabReport& report) {
  std::string html = kHead;
  html += "<h1>What each method gains and costs here</h1>\n<dl>";
  for (const auto& [name, value] : aboutLines(report)) {
    html += "<dt>" + escaped(name) + "</dt><dd>" + escaped(value) + "</dd>";
  }
  html += "</dl>\n" + table(report) + recommendations(report);
  for (const LabRow& row : report.rows) html += details(row);
  return html + "</main></body></html>\n";
}

}  // namespace vitrine::app::lab

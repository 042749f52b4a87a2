#include "app/lab/chart_layout.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"

namespace vitrine::app::lab {
namespace {

/// One axis: what is shown on it, and where.
struct Scale {
  bool logarithmic = false;
  double least = 0, most = 1;
  double from = 0, to = 1;  // pixels

  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }
  double place(double value) const {
    const auto on = [this](double v) { return logarithmic ? std::log(v) : v; };
    const double width = on(most) - on(least);
    const double share = width > 0 ? (on(value) - on(least)) / width : 0.5;
    return from + (to - from) * share;
  }
};

/// 1, 2 or 5 times a power of ten, so that about `wanted` steps cover the width.
double stepFor(double width, int wanted) {
  const double rough = std::max(width, 1e-9) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::vector<double> ticksOf(const Scale& scale, int wanted) {
  std::vector<double> ticks;
  if (scale.logarithmic) {
    const double decades = std::log10(scale.most / scale.least);
    for (double power = std::pow(10, std::floor(std::log10(scale.least))); power <= scale.most;
         power *= 10) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        if (decades > 2.5 && factor != 1.0) continue;
        const double tick = factor * power;
        if (tick >= scale.least && tick <= scale.most) ticks.push_back(tick);
      }
    }
    return ticks;
  }
  const double step = stepFor(scale.most - scale.least, wanted);
  for (double tick = std::ceil(scale.least / step) * step; tick <= scale.most + step * 1e-6;
       tick += step) {
    ticks.push_back(tick);
  }
  return ticks;
}

/// 0, 0.05, 2.5, 40, 1,200: no more digits than the step needs.
std::string tickText(double value) {
  if (std::abs(value) >= 1000) return numberText(value);
  return fmt::format("{:.4g}", std::abs(value) < 1e-9 ? 0.0 : value);
}

void fitScales(const Chart& chart, Scale& x, Scale& y) {
  bool any = false;
  for (const Series& series : chart.series) {
    for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
      if (!x.shows(series.x[i]) || !y.shows(series.y[i])) continue;
      if (!any) {
        x.least = x.most = series.x[i];
        y.least = y.most = series.y[i];
        any = true;
      }
      x.least = std::min(x.least, series.x[i]);
      x.most = std::max(x.most, series.x[i]);
      y.least = std::min(y.least, series.y[i]);
      y.most = std::max(y.most, series.y[i]);
    }
  }
  if (!y.logarithmic) {
    y.least = std::min(0.0, y.least);
    y.most = y.most > y.least ? y.least + (y.most - y.least) * 1.08 : y.least + 1;
  } else {
    y.least *= 0.8;
    y.most *= 1.25;
  }
}

/// Names stand at the ends of their curves, moved apart where they would touch.
void placeNames(ChartLayout& layout, double lineHeight) {
  std::vector<ChartLayout::Text*> names;
  for (ChartLayout::Text& text : layout.texts) {
    if (text.series >= 0 && text.anchor == ChartLayout::Anchor::kLeft) names.push_back(&text);
  }
  std::sort(names.begin(), names.end(),
            [](const auto* a, const auto* b) { return a->at.y < b->at.y; });
  for (std::size_t i = 1; i < names.size(); ++i) {
    names[i]->at.y = std::max(names[i]->at.y, names[i - 1]->at.y + lineHeight);
  }
  double limit = layout.bottom + lineHeight * 0.3;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    (*name)->at.y = std::min((*name)->at.y, limit);
    limit = (*name)->at.y - lineHeight;
  }
}

}  // namespace

ChartLayout layoutChart(const Chart& chart, double width, double height, double fontSize,
                        const std::function<double(const std::string&)>& textWidth) {
  ChartLayout layout;
  layout.width = width;
  layout.height = height;
  Scale x, y;
  x.logarithmic = chart.logX;
  y.logarithmic = chart.logY;
  fitScales(chart, x, y);

  double names = 0, labels = 0;
  for (const Series& series : chart.series) names = std::max(names, textWidth(series.label));
  const std::vector<double> yTicks = ticksOf(y, 4);
  for (const double tick : yTicks) labels = std::max(labels, textWidth(tickText(tick)));
  const double line = fontSize * 1.35;
  layout.left = labels + fontSize * 0.8;
  layout.right = width - names - fontSize;
  layout.top = line * 1.4;
  layout.bottom = height - line * 2.1;
  x.from = layout.left;
  x.to = layout.right;
  y.from = layout.bottom;
  y.to = layout.top;

  using Anchor = ChartLayout::Anchor;
  layout.texts.push_back({{0, fontSize}, Anchor::kLeft, chart.yLabel, -1});
  layout.texts.push_back(
      {{(layout.left + layout.right) / 2, height - fontSize * 0.3}, Anchor::kMiddle, chart.xLabel});
  for (const double tick : yTicks) {
    const double at = y.place(tick);
    layout.grid.push_back({{layout.left, at}, {layout.right, at}});
    layout.texts.push_back(
        {{layout.left - fontSize * 0.5, at + fontSize * 0.35}, Anchor::kRight, tickText(tick)});
  }
  // On a doubling axis the measured places themselves are the ticks.
  std::set<double> xTicks;
  if (chart.logX) {
    for (const Series& series : chart.series) {
      for (const double value : series.x) {
        if (x.shows(value)) xTicks.insert(value);
      }
    }
  } else {
    for (const double tick : ticksOf(x, 6)) xTicks.insert(tick);
  }
  for (const double tick : xTicks) {
    layout.texts.push_back(
        {{x.place(tick), layout.bottom + line}, Anchor::kMiddle, tickText(tick)});
  }

  for (std::size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    ChartLayout::Curve curve;
    curve.series = series.colour >= 0 ? series.colour : static_cast<int>(s);
    curve.dashed = series.dashed;
    curve.dots = series.x.size() <= 12;
    for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()); ++i) {
      if (!x.shows(series.x[i]) || !y.shows(series.y[i])) continue;
      const ChartLayout::Point point{x.place(series.x[i]), y.place(series.y[i])};
      curve.points.push_back(point);
      if (static_cast<int>(i) != series.mark) continue;
      // Below its point where the word of another curve stands above.
      const bool above = std::none_of(layout.marks.begin(), layout.marks.end(), [&](auto& other) {
        return std::abs(other.at.x - point.x) < 8 * fontSize &&
               std::abs(other.at.y - point.y) < 4 * fontSize;
      });
      layout.marks.push_back({point, curve.series});
      layout.texts.push_back({{point.x, above ? point.y - fontSize : point.y + 2 * fontSize},
                              Anchor::kMiddle,
                              series.markText,
                              curve.series});
    }
    if (curve.points.empty()) continue;
    const ChartLayout::Point end = curve.points.back();
    layout.texts.push_back({{layout.right + fontSize * 0.7, end.y + fontSize * 0.35},
                            Anchor::kLeft,
                            series.label,
                            curve.series});
    layout.curves.push_back(std::move(curve));
  }
  placeNames(layout, line);
  return layout;
}

}  // namespace vitrine::app::lab

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/lab/lab_types.h"

namespace vitrine::app::lab {

/// Where everything of a chart goes, in the coordinates of a rectangle from (0, 0) to (width,
/// height), y downwards. The window paints it, the reports write it as SVG or print it.
struct ChartLayout {
  struct Point {
    double x = 0, y = 0;
  };
  struct Line {
    Point from, to;
  };
  enum class Anchor { kLeft, kMiddle, kRight };
  struct Text {
    Point at;  ///< of the baseline
    Anchor anchor = Anchor::kLeft;
    std::string text;
    int series = -1;  ///< in whose colour; −1: muted
  };
  struct Curve {
    std::vector<Point> points;
    int series = 0;
    bool dashed = false;
    bool dots = false;  ///< few points: each gets a dot
  };
  struct Mark {
    Point at;
    int series = 0;
  };

  double width = 0, height = 0;
  double left = 0, top = 0, right = 0, bottom = 0;  ///< of the plot
  std::vector<Line> grid;
  std::vector<Curve> curves;
  std::vector<Mark> marks;
  std::vector<Text> texts;  ///< axes, names at the ends of the curves, marks
};

/// `textWidth` measures a text in the chart's font of `fontSize`. Values that are no numbers (or
/// not above 0 on a logarithmic axis) are left out.
ChartLayout layoutChart(const Chart& chart, double width, double height, double fontSize,
                        const std::function<double(const std::string&)>& textWidth);

}  // namespace vitrine::app::lab

#include "ui/studio/outlier_demo.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <span>

#include "kernels/api/quantize.h"

namespace vitrine::ui {

namespace {

struct Quantized {
  std::vector<std::int8_t> values;
  std::vector<float> scales;
  int groupSize;

  float restored(std::size_t i) const {
    return scales[i / std::size_t(groupSize)] * float(values[i]);
  }
};

Quantized quantize(std::span<const float> x, int groupSize) {
  const int n = int(x.size());
  Quantized q{std::vector<std::int8_t>(x.size()),
              std::vector<float>(std::size_t((n + groupSize - 1) / groupSize)), groupSize};
  kernels::quantizeInt8Groups(x.data(), q.values.data(), q.scales.data(), n, groupSize);
  return q;
}

/// `kept`: whether outliers stay as they are, beside the INT8 values.
DemoWay judge(const OutlierDemo& demo, const Quantized& q, bool kept) {
  DemoWay way;
  std::set<int> levels;
  double squares = 0, errors = 0;
  std::size_t outlier = 0;
  for (std::size_t i = 0; i < demo.values.size(); ++i) {
    const bool isOutlier =
        outlier < demo.outliers.size() && std::size_t(demo.outliers[outlier]) == i;
    if (isOutlier) ++outlier;
    way.restored.push_back(isOutlier && kept ? demo.values[i] : q.restored(i));
    if (isOutlier) continue;
    const double error = double(way.restored[i]) - double(demo.values[i]);
    errors += error * error;
    squares += double(demo.values[i]) * double(demo.values[i]);
    levels.insert(q.values[i]);
  }
  const double count = double(demo.values.size() - demo.outliers.size());
  way.error = std::sqrt(errors / count);
  way.relativeError = std::sqrt(errors / squares);
  way.levels = int(levels.size());
  std::vector<float> scales = q.scales;
  std::sort(scales.begin(), scales.end());
  way.step = double(scales[scales.size() / 2]);
  way.largestStep = double(scales.back());
  return way;
}

}  // namespace

OutlierDemo makeOutlierDemo(float size) {
  OutlierDemo demo;
  demo.outliers = {37, 150, 263, 391, 478};
  std::mt19937 random(20);  // its numbers are the same everywhere; distributions' are not
  for (int i = 0; i < kDemoValues; ++i) {
    demo.values.push_back(float(random()) / 2147483648.0F - 1.0F);
  }
  for (std::size_t i = 0; i < demo.outliers.size(); ++i) {
    demo.values[std::size_t(demo.outliers[i])] = i % 2 == 0 ? size : -size;
  }
  demo.oneScale = judge(demo, quantize(demo.values, kDemoValues), false);
  demo.groups = judge(demo, quantize(demo.values, kDemoGroup), false);

  // A percentile that leaves the outliers out: the largest magnitude of the others.
  std::vector<float> small = demo.values;
  for (const int i : demo.outliers) small[std::size_t(i)] = 0.0F;
  float limit = 0.0F;
  for (const float x : small) limit = std::max(limit, std::fabs(x));
  std::vector<float> clipped = demo.values;
  for (float& x : clipped) x = std::clamp(x, -limit, limit);
  demo.percentile = judge(demo, quantize(clipped, kDemoValues), false);
  demo.apart = judge(demo, quantize(small, kDemoValues), true);
  return demo;
}

}  // namespace vitrine::ui

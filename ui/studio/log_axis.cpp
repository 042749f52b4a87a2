#include "ui/studio/log_axis.h"

#include <algorithm>
#include <cmath>

namespace vitrine::ui {

LogAxis::LogAxis(double low, double high) {
  if (low > 0 && high > low && std::isfinite(high)) {
    m_low = low;
    m_high = high;
  }
}

double LogAxis::place(double value) const {
  if (!(value > m_low)) return 0;
  if (value >= m_high) return 1;
  return std::log(value / m_low) / std::log(m_high / m_low);
}

double LogAxis::valueAt(double place) const {
  return m_low * std::pow(m_high / m_low, std::clamp(place, 0.0, 1.0));
}

std::vector<double> LogAxis::ticks(int most) const {
  const int first = int(std::ceil(std::log10(m_low) - 1e-9));
  const int last = int(std::floor(std::log10(m_high) + 1e-9));
  std::vector<double> all;
  if (last - first < 1) {
    for (int power = first - 1; power <= last; ++power) {
      for (const double factor : {1.0, 2.0, 5.0}) {
        const double value = factor * std::pow(10.0, power);
        if (value >= m_low * 0.999 && value <= m_high * 1.001) all.push_back(value);
      }
    }
    return all;
  }
  const int step = std::max(1, (last - first + most) / most);
  // Counted from 10^0, so that 1 is among them when it can be.
  for (int power = first; power <= last; ++power) {
    if (power % step == 0) all.push_back(std::pow(10.0, power));
  }
  return all;
}

QString LogAxis::tickText(double value) {
  if (value >= 1e5 || value < 0.9e-4) {
    return QStringLiteral("1e%1").arg(int(std::lround(std::log10(value))));
  }
  return QString::number(value, 'g', 3);
}

}  // namespace vitrine::ui

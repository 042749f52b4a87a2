#pragma once

#include <QString>
#include <vector>

namespace vitrine::ui {

/// A logarithmic axis of magnitudes.
class LogAxis final {
 public:
  LogAxis() = default;
  /// Requires: 0 < low < high, else an axis from 0.1 to 1.
  LogAxis(double low, double high);

  double low() const { return m_low; }
  double high() const { return m_high; }
  /// 0 at low() and below (also for 0), 1 at high() and above.
  double place(double value) const;
  double valueAt(double place) const;
  /// Powers of ten on the axis, thinned out to at most `most`; where fewer than two lie on it, also
  /// their halves and fifths.
  std::vector<double> ticks(int most = 8) const;
  /// "0.01", "1", "100", "1e-6".
  static QString tickText(double value);

 private:
  double m_low = 0.1, m_high = 1.0;
};

}  // namespace vitrine::ui

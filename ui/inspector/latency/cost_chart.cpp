#include "ui/inspector/latency/cost_chart.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <optional>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const Theme& look() {
  return Theme::instance();
}

// A turn's tokens computed more than themselves: not one that was put back, but half of them.
std::optional<bool> isNaive(const engine::TurnReport& report) {
  const std::size_t count = std::min(report.tokenRows.size(), report.tokenMs.size());
  if (count < 2) return std::nullopt;
  const auto whole =
      std::count_if(report.tokenRows.begin() + 1, report.tokenRows.begin() + std::ptrdiff_t(count),
                    [](int rows) { return rows > 1; });
  return 2 * whole > std::ptrdiff_t(count - 1);
}

// Points of one pixel column as one: the mean.
struct Bin {
  double sum = 0;
  int count = 0;
};

}  // namespace

CostCurves costCurves(const std::vector<app::TurnMetrics>& turns) {
  CostCurves curves;
  for (const app::TurnMetrics& turn : turns) {
    const engine::TurnReport& report = turn.report;
    const std::optional<bool> naive = isNaive(report);
    if (!naive) continue;
    CostCurve& curve = *naive ? curves.naive : curves.cached;
    const std::size_t count = std::min(report.tokenRows.size(), report.tokenMs.size());
    for (std::size_t i = 1; i < count; ++i) {
      curve.points.push_back(
          {report.promptTokens + int(i), report.tokenMs[i], report.tokenRows[i]});
      curve.computed += report.tokenRows[i];
      curve.milliseconds += double(report.tokenMs[i]);
    }
  }
  for (CostCurve* curve : {&curves.cached, &curves.naive}) {
    std::stable_sort(curve->points.begin(), curve->points.end(),
                     [](const auto& a, const auto& b) { return a.position < b.position; });
  }
  return curves;
}

CostChart::CostChart(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAccessibleName(tr("Time and work of each token, with the cache and without"));
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void CostChart::setCurves(CostCurves curves) {
  if (curves == m_curves) return;
  m_curves = std::move(curves);
  setAccessibleDescription(tr("With the cache %1 tokens, without %2")
                               .arg(countText(qint64(m_curves.cached.points.size())),
                                    countText(qint64(m_curves.naive.points.size()))));
  update();
}

QSize CostChart::sizeHint() const {
  return {look().px(200), look().px(188)};
}

QRectF CostChart::plotArea(int plot) const {
  const double label = look().px(16);
  const double axis = look().px(16);
  const double each = (height() - axis) / 2.0;
  return {0, plot * each + label, double(width()), each - label - 2};
}

int CostChart::lastPosition() const {
  int last = 1;
  for (const CostCurve* curve : {&m_curves.cached, &m_curves.naive}) {
    if (!curve->points.empty()) last = std::max(last, curve->points.back().position);
  }
  return last;
}

void CostChart::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const int last = lastPosition();
  const QString names[] = {tr("ms a token"), tr("positions computed a token")};
  for (int plot = 0; plot < 2; ++plot) {
    const QRectF area = plotArea(plot);
    const auto valueOf = [plot](const CostCurve::Point& point) {
      return plot == 0 ? double(point.milliseconds) : double(point.computed);
    };
    // Single stalls must not press the curves flat: the scale is that of the means.
    const int columns = std::max(1, int(area.width() / 3));
    std::vector<Bin> bins[2];
    double top = plot == 0 ? 0.001 : 1;
    const CostCurve* curves[] = {&m_curves.naive, &m_curves.cached};
    for (int c = 0; c < 2; ++c) {
      bins[c].resize(std::size_t(columns));
      for (const CostCurve::Point& point : curves[c]->points) {
        const int column =
            std::min(columns - 1, int(std::int64_t(point.position) * columns / last));
        bins[c][std::size_t(column)].sum += valueOf(point);
        ++bins[c][std::size_t(column)].count;
      }
      for (const Bin& bin : bins[c]) {
        if (bin.count > 0) top = std::max(top, bin.sum / bin.count);
      }
    }
    painter.setFont(look().textFont(10.5));
    painter.setPen(tokens.muted);
    const QRectF caption(area.left(), area.top() - look().px(16), area.width(), look().px(15));
    painter.drawText(caption, Qt::AlignLeft | Qt::AlignVCenter, names[plot]);
    painter.setFont(look().figureFont(10.5));
    painter.drawText(caption, Qt::AlignRight | Qt::AlignVCenter,
                     plot == 0 ? millisecondsText(top) : countText(qint64(std::ceil(top))));
    painter.setPen(QPen(tokens.line, 1));
    for (const double level : {0.0, 0.5, 1.0}) {
      const double y = std::floor(area.bottom() - level * area.height()) + 0.5;
      painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    }
    for (int c = 0; c < 2; ++c) {
      const QColor colour = c == 0 ? tokens.prefilled : tokens.reused;
      QPolygonF line;
      for (int column = 0; column < columns; ++column) {
        const Bin& bin = bins[c][std::size_t(column)];
        if (bin.count == 0) continue;
        line << QPointF(area.left() + (column + 0.5) * area.width() / columns,
                        area.bottom() - area.height() * std::min(1.0, bin.sum / bin.count / top));
      }
      if (c == 1) {
        painter.setPen(QPen(colour, 2));
        painter.drawPolyline(line);
        if (line.size() == 1) painter.drawPoint(line.front());
      } else {
        painter.setPen(QPen(colour, 1.3));
        for (const QPointF& at : std::as_const(line)) {
          painter.drawLine(at + QPointF(-2, -2), at + QPointF(2, 2));
          painter.drawLine(at + QPointF(-2, 2), at + QPointF(2, -2));
        }
      }
    }
  }
  painter.setFont(look().figureFont(10));
  painter.setPen(tokens.muted);
  const QRectF axis(0, height() - look().px(15), width(), look().px(15));
  painter.drawText(axis, Qt::AlignLeft | Qt::AlignVCenter, QStringLiteral("0"));
  painter.drawText(axis, Qt::AlignHCenter | Qt::AlignVCenter, tr("tokens in the sequence"));
  painter.drawText(axis, Qt::AlignRight | Qt::AlignVCenter, countText(last));
}

bool CostChart::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const int last = lastPosition();
  const double wanted = double(help->pos().x()) * last / std::max(1, width());
  QStringList words;
  for (const bool cached : {true, false}) {
    const auto& points = (cached ? m_curves.cached : m_curves.naive).points;
    if (points.empty()) continue;
    auto at = std::lower_bound(points.begin(), points.end(), wanted,
                               [](const auto& p, double x) { return double(p.position) < x; });
    if (at == points.end()) --at;
    words << (cached ? tr("With the cache, at token %1: %2, %3")
                     : tr("Without, at token %1: %2, %3"))
                 .arg(countText(at->position), millisecondsText(double(at->milliseconds)),
                      pluralText(at->computed, tr("%1 position computed"),
                                 tr("%1 positions computed")));
  }
  if (words.isEmpty()) {
    QToolTip::hideText();
  } else {
    QToolTip::showText(help->globalPos(), literalToolTip(words.join(u'\n')), this);
  }
  return true;
}

}  // namespace vitrine::ui

#include "ui/inspector/precision/range_table.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "engine/quant/sites.h"
#include "ui/common/format.h"
#include "ui/precision/precision_choices.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr double kNames = 30, kHead = 16, kTallestTable = 300, kRow = 9, kGap = 5;
constexpr double kClippedMark = 5;  // width of the mark at a cell's end

const Theme& look() {
  return Theme::instance();
}

double shareOf(const engine::SiteUse& use) {
  return use.values > 0 ? double(use.clipped) / double(use.values) : 0.0;
}

}  // namespace

double unusedShare(const engine::SiteUse& use) {
  return use.limit > 0 ? std::max(0.0, 1.0 - double(use.largest) / double(use.limit)) : 0.0;
}

RangeSummary summarize(const std::vector<engine::SiteUse>& use) {
  RangeSummary summary;
  std::vector<double> unused;
  for (const engine::SiteUse& site : use) {
    if (site.values == 0) continue;
    ++summary.sites;
    summary.values += site.values;
    summary.clipped += site.clipped;
    unused.push_back(unusedShare(site));
    if (shareOf(site) > summary.worstShare) {
      summary.worstShare = shareOf(site);
      summary.worst = site.site;
    }
  }
  if (!unused.empty()) {
    const auto middle = unused.begin() + std::ptrdiff_t(unused.size() / 2);
    std::nth_element(unused.begin(), middle, unused.end());
    summary.unused = *middle;
  }
  return summary;
}

RangeTable::RangeTable(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setMouseTracking(true);
  setFocusPolicy(Qt::TabFocus);
  setAccessibleName(tr("Use of the calibrated range by layer"));
  connect(&look(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void RangeTable::setUse(std::vector<engine::SiteUse> use, int nLayers) {
  const bool isOther = nLayers != m_nLayers;
  m_nLayers = nLayers;
  m_use.assign(std::size_t(engine::siteCount(nLayers)), {});
  for (engine::SiteUse& site : use) {
    if (site.site >= 0 && std::size_t(site.site) < m_use.size()) {
      m_use[std::size_t(site.site)] = site;
    }
  }
  if (isOther) updateGeometry();
  const RangeSummary summary = summarize(m_use);
  setAccessibleDescription(summary.worst >= 0 ? describe(summary.worst)
                                              : tr("Nothing was clipped."));
  if (m_pointed >= 0) emit pointed(describe(m_pointed));
  update();
}

QString RangeTable::describe(int site) const {
  if (site < 0 || std::size_t(site) >= m_use.size()) return {};
  const engine::SiteUse& use = m_use[std::size_t(site)];
  QString place = siteText(site, m_nLayers);
  place[0] = place[0].toUpper();
  if (use.values == 0) return tr("%1: no INT8 activations").arg(place);
  const QString sizes =
      tr("largest %1 of %2").arg(double(use.largest), 0, 'g', 3).arg(double(use.limit), 0, 'g', 3);
  return use.clipped == 0
             ? tr("%1: nothing clipped, %2 of the range unused; %3")
                   .arg(place, percentText(unusedShare(use)), sizes)
             : tr("%1: %2 clipped (%3 of %4 values); %5")
                   .arg(place, smallShareText(shareOf(use)), countText(qint64(use.clipped)),
                        countText(qint64(use.values)), sizes);
}

double RangeTable::rowHeight() const {
  return std::min(double(look().px(kRow)), look().px(kTallestTable) / double(std::max(1, rows())));
}

QSize RangeTable::sizeHint() const {
  return {look().px(240), int(std::ceil(look().px(kHead) + rowHeight() * rows()))};
}

QRectF RangeTable::cellRect(int site) const {
  const int layer = engine::layerOfSite(site, m_nLayers);
  const double x0 = look().px(kNames);
  const double gap = look().px(kGap);
  const double wide = (width() - x0 + gap) / engine::kLayerInputs;
  const int row = layer < 0 ? m_nLayers : layer;
  const int column = layer < 0 ? 0 : static_cast<int>(engine::inputOfSite(site, m_nLayers));
  const double tall = rowHeight();
  return {x0 + column * wide, look().px(kHead) + row * tall, wide - gap,
          std::max(1.0, tall - (tall >= 5 ? 2.0 : 1.0))};
}

int RangeTable::siteAt(const QPoint& position) const {
  const int row = int(std::floor((position.y() - look().px(kHead)) / rowHeight()));
  if (m_nLayers == 0 || row < 0 || row >= rows()) return -1;
  const double x0 = look().px(kNames);
  const double wide = (width() - x0 + look().px(kGap)) / engine::kLayerInputs;
  const int column = int(std::floor((position.x() - x0) / wide));
  if (column < 0 || column >= engine::kLayerInputs) return -1;
  if (row == m_nLayers) return column == 0 ? engine::outputSite(m_nLayers) : -1;
  return row * engine::kLayerInputs + column;
}

void RangeTable::paintEvent(QPaintEvent*) {
  const Tokens& t = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setFont(look().textFont(10.5));
  painter.setPen(t.muted);
  const QString heads[] = {tr("attention"), tr("o"), tr("gate, up"), tr("down")};
  for (int i = 0; i < engine::kLayerInputs && m_nLayers > 0; ++i) {
    const QRectF cell = cellRect(i);
    painter.drawText(QRectF(cell.x(), 0, cell.width(), look().px(kHead) - 2),
                     Qt::AlignLeft | Qt::AlignVCenter, heads[i]);
  }
  painter.setFont(look().figureFont(10));
  const double tall = rowHeight();
  const int every = std::max(1, int(std::ceil(look().px(12) / tall)));
  for (int layer = 0; layer < m_nLayers; ++layer) {
    if (layer % every != 0 || (layer > m_nLayers - every && layer != m_nLayers - 1)) continue;
    const double y = look().px(kHead) + layer * tall;
    painter.setPen(t.muted);
    painter.drawText(QRectF(0, y - 3, look().px(kNames) - 8, tall + 4),
                     Qt::AlignRight | Qt::AlignVCenter, QString::number(layer));
  }
  for (std::size_t i = 0; i < m_use.size(); ++i) {
    const engine::SiteUse& use = m_use[i];
    const QRectF cell = cellRect(int(i));
    painter.setPen(Qt::NoPen);
    painter.setBrush(t.raised);
    painter.drawRect(cell);
    if (use.values == 0) continue;
    QRectF used = cell;
    const double mark = use.clipped > 0 ? look().px(kClippedMark) + 1.0 : 0.0;
    used.setWidth((cell.width() - look().px(kClippedMark) - 1) * (1.0 - unusedShare(use)));
    painter.setBrush(mix(t.panel, t.information, 0.65));
    painter.drawRect(used);
    if (mark > 0) {
      // From one in 100,000 (a third of the height) to one in 100 (all of it).
      const double level = std::clamp((std::log10(shareOf(use)) + 5.0) / 3.0, 0.0, 1.0);
      const double high = cell.height() * (1.0 + 2.0 * level) / 3.0;
      painter.setBrush(mix(t.prefilled, t.fault, level));
      painter.drawRect(QRectF(cell.right() - look().px(kClippedMark), cell.bottom() - high,
                              look().px(kClippedMark), high));
    }
    if (int(i) == m_pointed) {
      painter.setBrush(Qt::NoBrush);
      painter.setPen(QPen(t.text, 1));
      painter.drawRect(cell.adjusted(-0.5, -0.5, 0.5, 0.5));
    }
  }
  if (m_nLayers > 0) {
    const QRectF output = cellRect(engine::outputSite(m_nLayers));
    painter.setFont(look().textFont(10.5));
    painter.setPen(t.muted);
    painter.drawText(
        QRectF(output.right() + look().px(kGap), output.y() - 4, width(), output.height() + 8),
        Qt::AlignLeft | Qt::AlignVCenter, tr("output"));
  }
  if (hasFocus()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(t.accent, 1));
    painter.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 4, 4);
  }
}

void RangeTable::point(int site) {
  if (site == m_pointed) return;
  m_pointed = site;
  emit pointed(describe(site));
  update();
}

void RangeTable::mouseMoveEvent(QMouseEvent* event) {
  point(siteAt(event->pos()));
}

void RangeTable::leaveEvent(QEvent*) {
  point(-1);
}

void RangeTable::focusOutEvent(QFocusEvent* event) {
  QWidget::focusOutEvent(event);
  point(-1);
}

void RangeTable::keyPressEvent(QKeyEvent* event) {
  const int last = int(m_use.size()) - 1;
  int step = 0;
  if (event->key() == Qt::Key_Left) step = -1;
  if (event->key() == Qt::Key_Right) step = 1;
  if (event->key() == Qt::Key_Up) step = -engine::kLayerInputs;
  if (event->key() == Qt::Key_Down) step = engine::kLayerInputs;
  if (step == 0 || last < 0) return QWidget::keyPressEvent(event);
  point(m_pointed < 0 ? 0 : std::clamp(m_pointed + step, 0, last));
}

}  // namespace vitrine::ui

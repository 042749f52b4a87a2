#pragma once

#include <QWidget>
#include <vector>

#include "engine/quant/activation_observer.h"

namespace vitrine::ui {

/// How live activations use the range of their static scales: a row a layer, a cell for each input
/// of its matrices. A cell fills as far as the range was used; what was clipped stands at its end,
/// the taller the more. The pointer, or the arrow keys, tell of one cell.
class RangeTable final : public QWidget {
  Q_OBJECT
 public:
  explicit RangeTable(QWidget* parent = nullptr);

  void setUse(std::vector<engine::SiteUse> use, int nLayers);
  /// "layer 3, input of down: 0.012 % of 1,203,200 values clipped; largest 14.2 of 12.1".
  QString describe(int site) const;
  int siteAt(const QPoint& position) const;  ///< −1: none
  QRectF cellRect(int site) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  /// In words; empty: none.
  void pointed(const QString& words);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  double rowHeight() const;
  int rows() const { return m_nLayers + 1; }  // the output below the layers
  void point(int site);

  std::vector<engine::SiteUse> m_use;  // by site
  int m_nLayers = 0;
  int m_pointed = -1;
};

/// Of all sites together.
struct RangeSummary {
  std::uint64_t values = 0, clipped = 0;
  int sites = 0;
  double unused = 0;  ///< of the range, the median site's share
  int worst = -1;     ///< the site with the largest clipped share; −1: nothing was clipped
  double worstShare = 0;
};
RangeSummary summarize(const std::vector<engine::SiteUse>& use);
/// Share of a site's range that no value reached.
double unusedShare(const engine::SiteUse& use);

}  // namespace vitrine::ui

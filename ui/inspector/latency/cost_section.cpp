#include "ui/inspector/latency/cost_section.h"

#include <QVBoxLayout>

#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/inspector/latency/cost_chart.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

CostSection::CostSection(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  m_chart = new CostChart(this);
  column->addWidget(m_chart);
  m_legend = new Legend(this);
  column->addWidget(m_legend);
  m_sums = new FigureGrid(this);
  column->addWidget(m_sums);
  m_hint = new PlainLabel(LabelStyle::kMuted, this);
  m_hint->setWordWrap(true);
  column->addWidget(m_hint);
}

void CostSection::setTurns(const std::vector<app::TurnMetrics>& turns, bool cacheOn) {
  CostCurves curves = costCurves(turns);
  const bool cached = !curves.cached.points.empty();
  const bool naive = !curves.naive.points.empty();
  const Tokens& t = Theme::instance().tokens();
  QVector<Legend::Entry> legend;
  QVector<FigureGrid::Row> rows;
  const auto add = [&](const CostCurve& curve, const QString& name, const QString& sign,
                       const QColor& colour) {
    const auto count = qint64(curve.points.size());
    legend.append({sign, {}, colour});
    rows.append({name,
                 tr("%1 tok · %2 pos. · %3")
                     .arg(countText(count), countText(curve.computed),
                          millisecondsText(curve.milliseconds)),
                 tr("Tokens after the first of each answer, positions computed for them, and the "
                    "time of all")});
    rows.append(
        {tr("  each"), tr("%1 · %2 positions")
                           .arg(millisecondsText(curve.milliseconds / double(count)),
                                QString::number(double(curve.computed) / double(count), 'f', 1))});
  };
  if (cached) add(curves.cached, tr("With the cache"), tr("cached (line)"), t.reused);
  if (naive) add(curves.naive, tr("Without"), tr("naive (crosses)"), t.prefilled);
  m_chart->setCurves(std::move(curves));
  m_chart->setVisible(cached || naive);
  m_legend->setEntries(legend);
  m_legend->setVisible(cached || naive);
  m_sums->setRows(rows);
  m_sums->setVisible(cached || naive);
  QString hint;
  if (!cached && !naive) {
    hint =
        tr("What each token costs as the chat grows: send a message and its curve comes here. "
           "For the curve without the cache, switch the KV cache off (Precision) and "
           "regenerate an answer.");
  } else if (!naive) {
    hint = cacheOn ? tr("For the curve without the cache: switch the KV cache off (Precision) and "
                        "regenerate an answer.")
                   : tr("The KV cache is off: regenerate an answer, and its curve comes beside "
                        "this one.");
  } else if (!cached) {
    hint = tr("For the curve with the cache: switch the KV cache on (Precision) and regenerate.");
  }
  m_hint->setText(hint);
  m_hint->setVisible(!hint.isEmpty());
}

QString CostSection::hint() const {
  return m_hint->text();
}

QString CostSection::figure(const QString& name) const {
  return m_sums->figure(name);
}

}  // namespace vitrine::ui

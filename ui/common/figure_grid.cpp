#include "ui/common/figure_grid.h"

#include <QGridLayout>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"

namespace vitrine::ui {

FigureGrid::FigureGrid(QWidget* parent) : QWidget(parent), m_grid(new QGridLayout(this)) {
  m_grid->setContentsMargins(0, 0, 0, 0);
  m_grid->setHorizontalSpacing(12);
  m_grid->setVerticalSpacing(5);
  m_grid->setColumnStretch(0, 1);
}

void FigureGrid::setRows(const QVector<Row>& rows) {
  while (m_names.size() < rows.size()) {
    const int row = int(m_names.size());
    auto* name = new PlainLabel(LabelStyle::kMuted, this);
    auto* figure = new PlainLabel(LabelStyle::kFigure, this);
    figure->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
    m_grid->addWidget(name, row, 0);
    m_grid->addWidget(figure, row, 1);
    m_names << name;
    m_figures << figure;
  }
  for (int i = 0; i < m_names.size(); ++i) {
    const bool shown = i < rows.size();
    m_names[i]->setVisible(shown);
    m_figures[i]->setVisible(shown);
    if (!shown) continue;
    m_names[i]->setText(rows[i].name);
    m_figures[i]->setText(rows[i].figure);
    m_figures[i]->setAccessibleName(rows[i].name + u' ' + rows[i].figure);
    const QString tip = rows[i].toolTip.isEmpty() ? QString() : literalToolTip(rows[i].toolTip);
    m_names[i]->setToolTip(tip);
    m_figures[i]->setToolTip(tip);
  }
}

QString FigureGrid::figure(const QString& name) const {
  for (int i = 0; i < m_names.size(); ++i) {
    if (m_names[i]->text() == name && !m_names[i]->isHidden()) return m_figures[i]->text();
  }
  return {};
}

}  // namespace vitrine::ui

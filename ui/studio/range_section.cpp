#include "ui/studio/range_section.h"

#include <QFrame>
#include <QGridLayout>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/studio/heat_map.h"
#include "ui/studio/histogram_view.h"
#include "ui/studio/profile_comparison.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

using engine::LinearInput;

RangeSection::RangeSection(StudioState& state, QWidget* parent) : QWidget(parent), m_state(state) {
  const Theme& theme = Theme::instance();
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  auto* head = new QHBoxLayout;
  head->setSpacing(12);
  m_kind = new SegmentedSwitch(tr("Input of"),
                               {{tr("q, k, v"), tr("What the attention's projections read; the "
                                                   "last row is what the output matrix reads")},
                                {tr("o"), tr("What the attention gives to its output projection")},
                                {tr("gate, up"), tr("What the feed-forward part reads")},
                                {tr("down"), tr("What the feed-forward part gives to down")}},
                               this);
  m_kind->setObjectName("studioInputKind");
  m_kind->setCurrent(0);
  head->addWidget(m_kind);
  m_pointed = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_pointed->setObjectName("heatMapCell");
  m_pointed->setElided(Qt::ElideRight);
  m_pointed->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  head->addWidget(m_pointed, 1);
  column->addLayout(head);
  m_map = new HeatMap(this);
  m_map->setObjectName("heatMap");
  m_map->setEmptyText(
      tr("Here a map shows how large the activations get, by layer and channel. Choose Calibrate…: "
         "the model reads a text and what it sees is noted."));
  column->addWidget(m_map);

  auto* line = new QFrame(this);
  line->setProperty("kind", "line");
  line->setFixedHeight(1);
  column->addWidget(line);
  auto* row = new QHBoxLayout;
  row->setSpacing(24);
  auto* left = new QVBoxLayout;
  left->setSpacing(4);
  auto* captions = new QHBoxLayout;
  captions->setSpacing(12);
  m_siteName = new PlainLabel(LabelStyle::kHeading, this);
  m_pointedBar = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_pointedBar->setElided(Qt::ElideRight);
  m_pointedBar->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  captions->addWidget(m_siteName);
  captions->addWidget(m_pointedBar, 1);
  left->addLayout(captions);
  m_histogram = new HistogramView(this);
  m_histogram->setObjectName("histogram");
  left->addWidget(m_histogram, 1);
  row->addLayout(left, 3);

  auto* right = new QVBoxLayout;
  right->setSpacing(6);
  m_siteText = new PlainLabel(LabelStyle::kMuted, this);
  m_siteText->setWordWrap(true);
  right->addWidget(m_siteText);
  auto* table = new QWidget(this);
  m_table = new QGridLayout(table);
  m_table->setContentsMargins(0, 0, 0, 0);
  m_table->setHorizontalSpacing(16);
  m_table->setVerticalSpacing(7);
  const QString names[] = {tr("Scale by"), tr("ends at"), tr("step"), tr("clipped"),
                           tr("becomes 0")};
  for (int i = 0; i < 5; ++i) {
    auto* name = new PlainLabel(names[i], LabelStyle::kHeading, table);
    m_table->addWidget(name, 0, i, i == 0 ? Qt::AlignLeft : Qt::AlignRight);
  }
  for (int r = 0; r < 3; ++r) {
    QVector<PlainLabel*> labels;
    for (int i = 0; i < 5; ++i) {
      auto* label = new PlainLabel(i == 0 ? LabelStyle::kBody : LabelStyle::kFigure, table);
      m_table->addWidget(label, r + 1, i, i == 0 ? Qt::AlignLeft : Qt::AlignRight);
      labels << label;
    }
    m_figures << labels;
  }
  m_table->setColumnStretch(0, 1);
  right->addWidget(table);
  m_explained = new PlainLabel(
      tr("The solid line is the profile's own scale: what lies beyond it is clipped (hatched), "
         "what lies under half a step becomes 0 (pale)."),
      LabelStyle::kMuted, this);
  m_explained->setWordWrap(true);
  right->addWidget(m_explained);
  right->addStretch(1);
  row->addLayout(right, 2);
  column->addLayout(row, 1);
  m_histogram->setMinimumHeight(theme.px(190));

  connect(m_kind, &SegmentedSwitch::chosen, this, [this](int index) {
    // The same layer's other input.
    const int layer = std::max(0, engine::layerOfSite(m_state.site(), m_state.nLayers()));
    m_kind->setCurrent(index);
    m_state.setSite(engine::siteIndex(layer, LinearInput(index)));
    showMap();
  });
  connect(m_map, &HeatMap::chosenByPerson, &m_state, &StudioState::setSite);
  connect(m_map, &HeatMap::pointed, m_pointed, &QLabel::setText);
  connect(m_histogram, &HistogramView::pointed, m_pointedBar, &QLabel::setText);
  connect(&m_state, &StudioState::profileChanged, this, &RangeSection::showMap);
  connect(&m_state, &StudioState::modelChanged, this, &RangeSection::showMap);
  connect(&m_state, &StudioState::siteChanged, this, &RangeSection::showMap);
  showMap();
}

void RangeSection::showMap() {
  const auto& profile = m_state.profile();
  std::vector<HeatMap::Row> rows;
  m_kind->setEnabled(profile != nullptr);
  if (profile) {
    const int nLayers = profile->nLayers();
    LinearInput kind = engine::inputOfSite(m_state.site(), nLayers);
    if (kind == LinearInput::kOutput) kind = LinearInput::kAttention;
    m_kind->setCurrent(int(kind));
    const auto add = [&](int site, const QString& name) {
      rows.push_back(
          {site, name, siteWords(site, nLayers), profile->sites[std::size_t(site)].channelMax});
    };
    for (int layer = 0; layer < nLayers; ++layer) {
      add(engine::siteIndex(layer, kind), QString::number(layer));
    }
    // As wide as the layers' inputs, so it stands below them.
    if (kind == LinearInput::kAttention) add(engine::outputSite(nLayers), tr("out"));
  }
  // A new drawing only where other rows are shown: the pointer stays on its cell.
  const bool isSame = m_map->rowCount() == int(rows.size()) && !rows.empty() &&
                      m_map->property("shown").toString() ==
                          QString::fromStdString(profile->id) + QString::number(rows.front().id);
  if (!isSame) {
    if (profile) {
      m_map->setProperty("shown",
                         QString::fromStdString(profile->id) + QString::number(rows.front().id));
    }
    m_map->setRows(std::move(rows));
    m_pointed->clear();
  }
  m_map->setChosen(m_state.site());
  showSite();
}

void RangeSection::showSite() {
  const auto& profile = m_state.profile();
  for (QWidget* widget : {static_cast<QWidget*>(m_table->parentWidget()),
                          static_cast<QWidget*>(m_explained), static_cast<QWidget*>(m_siteText)}) {
    widget->setVisible(profile != nullptr);
  }
  if (!profile) {
    m_siteName->setText(tr("Histogram of a site"));
    m_histogram->clear(
        tr("Here the magnitudes of one input are counted, with the end of the scale "
           "and what it clips."));
    return;
  }
  const auto& site = profile->sites[std::size_t(m_state.site())];
  const QString name = siteWords(m_state.site(), profile->nLayers());
  m_siteName->setText(name);
  const float median = engine::medianColumn(site.channelMax);
  const float largest = site.absMax();
  m_siteText->setText(
      tr("%1 values in %2 channels. The largest is %3: %4 times the median channel's.")
          .arg(countText(qint64(site.histogram.count())))
          .arg(site.channelMax.size())
          .arg(magnitudeText(double(largest)))
          .arg(median > 0 ? magnitudeText(double(largest / median)) : QStringLiteral("–")));
  const auto all = scaleFigures(site, profile->percentile);
  const QString shortNames[] = {tr("max"), tr("percentile"), tr("least error")};
  QVector<HistogramView::Mark> marks;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ScaleFigures& one = all[i];
    const bool inForce = one.method == profile->method;
    marks.push_back({shortNames[i], double(one.limit), inForce});
    const QString figures[] = {methodText(one.method, profile->percentile),
                               magnitudeText(double(one.limit)), magnitudeText(double(one.step)),
                               tinyShareText(one.clippedShare), tinyShareText(one.zeroShare)};
    for (int f = 0; f < 5; ++f) {
      PlainLabel* label = m_figures[int(i)][f];
      label->setText(figures[f]);
      QFont font = f == 0 ? Theme::instance().textFont(12.5) : Theme::instance().figureFont(12);
      font.setBold(inForce);
      label->setFont(font);
    }
  }
  m_histogram->setHistogram(site.histogram, double(largest), std::move(marks));
}

QStringList RangeSection::figures(int method) const {
  QStringList texts;
  for (const PlainLabel* label : m_figures[method]) texts << label->text();
  return texts;
}

}  // namespace vitrine::ui

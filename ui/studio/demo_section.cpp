#include "ui/studio/demo_section.h"

#include <QFrame>
#include <QGridLayout>
#include <QPainter>
#include <QSlider>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kSamples = 28;
constexpr int kUsualSize = 20;

const Theme& look() {
  return Theme::instance();
}

}  // namespace

DemoStrip::DemoStrip(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  connect(&look(), &Theme::changed, this, [this] { update(); });
}

QSize DemoStrip::sizeHint() const {
  return {look().px(300), look().px(104)};
}

void DemoStrip::setDemo(const OutlierDemo& demo) {
  m_demo = demo;
  double largest = 0;
  for (const float value : demo.values) largest = std::max(largest, double(std::fabs(value)));
  setAccessibleName(tr("%1 values between -1 and 1 and %2 of size %3")
                        .arg(demo.values.size() - demo.outliers.size())
                        .arg(demo.outliers.size())
                        .arg(magnitudeText(largest)));
  update();
}

void DemoStrip::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  if (m_demo.values.empty()) return;
  double largest = 1;
  for (const float value : m_demo.values) largest = std::max(largest, double(std::fabs(value)));
  largest *= 1.12;
  const QRectF area = QRectF(rect()).adjusted(look().px(34), 3, -3, -3);
  const auto yOf = [&](double value) {
    return area.center().y() - value / largest * area.height() / 2;
  };
  painter.setFont(look().figureFont(10));
  // Where the outliers leave the small ones no room, 0 stands for both of their limits.
  const bool apart = yOf(-1) - yOf(1) > look().px(24);
  std::vector<double> ticks = {largest / 1.12, -largest / 1.12};
  if (apart && largest > 2) ticks.insert(ticks.end(), {1, -1});
  if (!apart) ticks.push_back(0);
  for (const double tick : ticks) {
    const double y = std::floor(yOf(tick)) + 0.5;
    painter.setPen(QPen(tokens.line, 1));
    painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y));
    painter.setPen(look().ink(tokens.muted));
    painter.drawText(QRectF(0, y - 8, area.left() - 6, 16), Qt::AlignRight | Qt::AlignVCenter,
                     QString::number(tick, 'g', 3));
  }
  painter.setPen(Qt::NoPen);
  const double pitch = area.width() / double(m_demo.values.size());
  for (std::size_t i = 0; i < m_demo.values.size(); ++i) {
    const double x = area.left() + (double(i) + 0.5) * pitch;
    const bool outlier = std::binary_search(m_demo.outliers.begin(), m_demo.outliers.end(), int(i));
    const double y = yOf(double(m_demo.values[i]));
    painter.setBrush(outlier ? tokens.fault : tokens.information);
    if (outlier) {
      painter.drawRect(
          QRectF(x - 0.5, std::min(y, area.center().y()), 1, std::abs(y - area.center().y())));
    }
    const double radius = outlier ? 3.4 : 1.4;
    painter.drawEllipse(QPointF(x, y), radius, radius);
  }
}

DemoRounding::DemoRounding(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  connect(&look(), &Theme::changed, this, [this] { update(); });
}

QSize DemoRounding::sizeHint() const {
  return {look().px(200), look().px(46)};
}

void DemoRounding::setWay(const OutlierDemo& demo, const DemoWay& way) {
  m_samples.clear();
  m_step = way.step;
  // Evenly over the range: the values in their order of size.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < demo.values.size(); ++i) {
    if (!std::binary_search(demo.outliers.begin(), demo.outliers.end(), int(i))) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return demo.values[a] < demo.values[b]; });
  for (int i = 0; i < kSamples; ++i) {
    const std::size_t at = order[(std::size_t(i) * 2 + 1) * order.size() / (2 * kSamples)];
    m_samples.push_back({demo.values[at], way.restored[at]});
  }
  setAccessibleName(tr("Levels %1 apart").arg(magnitudeText(m_step)));
  update();
}

void DemoRounding::paintEvent(QPaintEvent*) {
  if (m_step <= 0) return;
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF area = QRectF(rect()).adjusted(4, 5, -4, -4);
  const auto xOf = [&](double value) {
    return area.center().x() + std::clamp(value, -1.04, 1.04) / 1.04 * area.width() / 2;
  };
  const double levelTop = area.bottom() - look().px(12);
  // The levels: ticks, or a grey band where they lie closer than a person can see.
  const int most = std::min(127, int(1.0 / m_step));
  if (xOf(m_step) - xOf(0) < 3) {
    painter.fillRect(QRectF(xOf(-most * m_step), levelTop, xOf(most * m_step) - xOf(-most * m_step),
                            area.bottom() - levelTop),
                     mix(tokens.panel, tokens.muted, 0.55));
  } else {
    painter.setPen(QPen(look().ink(tokens.muted), 1.4));
    for (int q = -most; q <= most; ++q) {
      const double x = xOf(q * m_step);
      painter.drawLine(QPointF(x, levelTop), QPointF(x, area.bottom()));
    }
  }
  painter.setPen(QPen(tokens.line, 1));
  painter.drawLine(QPointF(area.left(), area.top()), QPointF(area.right(), area.top()));
  for (const auto& [value, becomes] : m_samples) {
    const QPointF from(xOf(double(value)), area.top());
    painter.setPen(QPen(mix(tokens.panel, tokens.information, 0.7), 1));
    painter.drawLine(from, QPointF(xOf(double(becomes)), levelTop - 1));
    painter.setPen(Qt::NoPen);
    painter.setBrush(tokens.information);
    painter.drawEllipse(from, 2.2, 2.2);
  }
}

DemoSection::DemoSection(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(12);
  auto* intro = new PlainLabel(
      tr("INT8 has 255 levels from −127 to 127, and the largest value decides how far apart they "
         "are. A handful of large values takes the levels away from all the others. Here are %1 "
         "values; move the slider and see what each way does to the small ones.")
          .arg(kDemoValues),
      LabelStyle::kMuted, this);
  intro->setWordWrap(true);
  column->addWidget(intro);

  auto* row = new QHBoxLayout;
  row->setSpacing(12);
  auto* name = new PlainLabel(tr("Size of the five outliers"), LabelStyle::kBody, this);
  m_size = new QSlider(Qt::Horizontal, this);
  m_size->setObjectName("demoSize");
  m_size->setRange(1, 100);
  m_size->setFixedWidth(look().px(280));
  m_size->setAccessibleName(name->text());
  m_sizeText = new PlainLabel(LabelStyle::kFigure, this);
  row->addWidget(name);
  row->addWidget(m_size);
  row->addWidget(m_sizeText);
  row->addStretch(1);
  column->addLayout(row);
  m_strip = new DemoStrip(this);
  column->addWidget(m_strip);

  auto* card = new QFrame(this);
  card->setProperty("kind", "card");
  auto* grid = new QGridLayout(card);
  grid->setContentsMargins(16, 12, 16, 12);
  grid->setHorizontalSpacing(22);
  grid->setVerticalSpacing(8);
  const QString heads[] = {tr("Way"), tr("Small values, and the levels they are rounded to"),
                           tr("Step"), tr("Error of the small ones"), tr("Levels they use")};
  for (int i = 0; i < 5; ++i) {
    auto* head = new PlainLabel(heads[i], LabelStyle::kHeading, card);
    grid->addWidget(head, 0, i, i < 2 ? Qt::AlignLeft : Qt::AlignRight);
  }
  const std::pair<QString, QString> ways[] = {
      {tr("One scale for all"), tr("from the largest value")},
      {tr("Percentile"), tr("one scale, the outliers clipped")},
      {tr("Groups of %1").arg(kDemoGroup), tr("a scale for each group of neighbours")},
      {tr("Outliers apart"), tr("they stay FP16 beside the INT8 values")}};
  int at = 1;
  for (const auto& [title, what] : ways) {
    auto* rule = new QFrame(card);
    rule->setProperty("kind", "line");
    rule->setFixedHeight(1);
    grid->addWidget(rule, at++, 0, 1, 5);
    Line line;
    auto* words = new QVBoxLayout;
    words->setSpacing(1);
    line.name = new PlainLabel(title, LabelStyle::kBody, card);
    line.what = new PlainLabel(what, LabelStyle::kMuted, card);
    words->addWidget(line.name);
    words->addWidget(line.what);
    grid->addLayout(words, at, 0, Qt::AlignVCenter);
    line.rounding = new DemoRounding(card);
    grid->addWidget(line.rounding, at, 1);
    line.step = new PlainLabel(LabelStyle::kFigure, card);
    line.error = new PlainLabel(LabelStyle::kFigure, card);
    line.levels = new PlainLabel(LabelStyle::kFigure, card);
    int place = 2;
    for (PlainLabel* figure : {line.step, line.error, line.levels}) {
      figure->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
      figure->setMinimumWidth(look().px(96));
      grid->addWidget(figure, at, place++);
    }
    ++at;
    m_lines.push_back(line);
  }
  grid->setColumnStretch(1, 1);
  column->addWidget(card);
  m_verdict = new PlainLabel(LabelStyle::kBody, this);
  m_verdict->setObjectName("demoVerdict");
  m_verdict->setWordWrap(true);
  column->addWidget(m_verdict);
  column->addStretch(1);
  connect(m_size, &QSlider::valueChanged, this, &DemoSection::showSize);
  m_size->setValue(kUsualSize);
}

void DemoSection::showSize(int size) {
  m_demo = makeOutlierDemo(float(size));
  m_sizeText->setText(tr("± %1").arg(size));
  m_strip->setDemo(m_demo);
  const DemoWay* ways[] = {&m_demo.oneScale, &m_demo.percentile, &m_demo.groups, &m_demo.apart};
  for (int i = 0; i < m_lines.size(); ++i) {
    const DemoWay& way = *ways[i];
    const Line& line = m_lines[i];
    line.rounding->setWay(m_demo, way);
    line.step->setText(
        way.largestStep > way.step * 1.5
            ? tr("%1 to %2").arg(magnitudeText(way.step), magnitudeText(way.largestStep))
            : magnitudeText(way.step));
    line.error->setText(tinyShareText(way.relativeError));
    line.levels->setText(tr("%1 of 255").arg(way.levels));
  }
  const float clipped = std::fabs(m_demo.percentile.restored[std::size_t(m_demo.outliers.front())]);
  m_verdict->setText(
      tr("With one scale the small values are left with %1 levels and an error of %2 of their own "
         "size; with the outliers apart, %3 levels and %4. A percentile gives the small ones the "
         "same levels, but turns ±%5 into ±%6. Groups confine the damage to the groups that hold "
         "an outlier.")
          .arg(m_demo.oneScale.levels)
          .arg(tinyShareText(m_demo.oneScale.relativeError))
          .arg(m_demo.apart.levels)
          .arg(tinyShareText(m_demo.apart.relativeError))
          .arg(size)
          .arg(magnitudeText(double(clipped))));
}

QStringList DemoSection::figures(int way) const {
  const Line& line = m_lines[way];
  return {line.step->text(), line.error->text(), line.levels->text()};
}

}  // namespace vitrine::ui

#include "ui/studio/heat_map.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "ui/common/format.h"
#include "ui/studio/empty_place.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kNames = 34;   // for the rows' names
constexpr int kLegend = 40;  // below the map
constexpr int kLeastRow = 5;

const Theme& look() {
  return Theme::instance();
}

/// From the ground over blue to the ink: lightness alone tells the order.
QColor heatColour(double place) {
  const Tokens& t = look().tokens();
  const QColor top = t.dark ? QColor(0xff, 0xf3, 0xd6) : QColor(0x0b, 0x1c, 0x33);
  if (place < 0.6) return mix(t.raised, t.information, std::pow(place / 0.6, 1.3));
  return mix(t.information, top, (place - 0.6) / 0.4);
}

}  // namespace

HeatMap::HeatMap(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Activation range by layer and channel"));
  connect(&look(), &Theme::changed, this, [this] {
    m_image = {};
    updateGeometry();
    update();
  });
}

void HeatMap::setRows(std::vector<Row> rows) {
  m_rows = std::move(rows);
  m_row = m_column = -1;
  std::vector<float> positive;
  for (const Row& row : m_rows) {
    for (const float value : row.values) {
      if (value > 0 && std::isfinite(value)) positive.push_back(value);
    }
  }
  m_axis = {};
  if (!positive.empty()) {
    // Channels that are nearly dead must not stretch the scale.
    const auto low = positive.begin() + std::ptrdiff_t(positive.size() / 100);
    std::nth_element(positive.begin(), low, positive.end());
    const double least = double(*low);
    const double most = double(*std::max_element(positive.begin(), positive.end()));
    m_axis = LogAxis(std::min(least, most / 2), most);
  }
  m_image = {};
  describe();
  updateGeometry();
  update();
}

void HeatMap::describe() {
  if (m_rows.empty()) return setAccessibleDescription(m_emptyText);
  int row = 0, channel = 0;
  float largest = -1;
  for (int r = 0; r < rowCount(); ++r) {
    const auto& values = m_rows[std::size_t(r)].values;
    for (std::size_t c = 0; c < values.size(); ++c) {
      if (values[c] > largest) {
        largest = values[c];
        row = r;
        channel = int(c);
      }
    }
  }
  setAccessibleDescription(tr("%1 rows of %2 channels, logarithmic from %3 to %4. The largest: %5, "
                              "channel %6, %7.")
                               .arg(rowCount())
                               .arg(channels())
                               .arg(magnitudeText(m_axis.low()), magnitudeText(m_axis.high()))
                               .arg(m_rows[std::size_t(row)].longName)
                               .arg(channel)
                               .arg(magnitudeText(double(largest))));
}

void HeatMap::setEmptyText(const QString& text) {
  m_emptyText = text;
  if (m_rows.empty()) describe();
  update();
}

void HeatMap::setChosen(int id) {
  if (id == m_chosen) return;
  m_chosen = id;
  update();
}

int HeatMap::rowOf(int id) const {
  for (int i = 0; i < rowCount(); ++i) {
    if (m_rows[std::size_t(i)].id == id) return i;
  }
  return -1;
}

int HeatMap::channels() const {
  std::size_t most = 0;
  for (const Row& row : m_rows) most = std::max(most, row.values.size());
  return int(most);
}

int HeatMap::channelsOfCell() const {
  const int room = std::max(1, int(mapArea().width()) / 2);  // a cell is at least 2 px wide
  return std::max(1, (channels() + room - 1) / room);
}

int HeatMap::columnCount() const {
  const int each = channelsOfCell();
  return (channels() + each - 1) / each;
}

float HeatMap::cellValue(int row, int column) const {
  const auto& values = m_rows[std::size_t(row)].values;
  const std::size_t from = std::min(values.size(), std::size_t(column) * channelsOfCell());
  const std::size_t to = std::min(values.size(), from + std::size_t(channelsOfCell()));
  float largest = 0;
  for (std::size_t i = from; i < to; ++i) largest = std::max(largest, values[i]);
  return largest;
}

QString HeatMap::cellText(int row, int column) const {
  const Row& of = m_rows[std::size_t(row)];
  const int from = column * channelsOfCell();
  const int to = std::min(int(of.values.size()), from + channelsOfCell());
  if (from >= to) return of.longName;
  const auto largest = std::max_element(of.values.begin() + from, of.values.begin() + to);
  const QString value = magnitudeText(double(*largest));
  const int channel = int(largest - of.values.begin());
  if (to - from == 1) return tr("%1 · channel %2 · %3").arg(of.longName).arg(from).arg(value);
  return tr("%1 · channels %2 to %3 · largest %4, in %5")
      .arg(of.longName)
      .arg(from)
      .arg(to - 1)
      .arg(value)
      .arg(channel);
}

QSize HeatMap::sizeHint() const {
  const int rows = std::max(rowCount(), 1);
  const int each = std::clamp(250 / rows, kLeastRow, 22);
  return {look().px(400), look().px(std::max(rows * each, 60) + kLegend)};
}

QSize HeatMap::minimumSizeHint() const {
  return {look().px(200), sizeHint().height()};
}

QRectF HeatMap::mapArea() const {
  return QRectF(rect()).adjusted(look().px(kNames), 1, -1, -look().px(kLegend));
}

QRectF HeatMap::cellRect(int row, int column) const {
  const QRectF area = mapArea();
  const double w = area.width() / std::max(1, columnCount());
  const double h = area.height() / std::max(1, rowCount());
  return {area.left() + column * w, area.top() + row * h, w, h};
}

void HeatMap::draw() {
  const int columns = columnCount();
  m_image = QImage(columns, rowCount(), QImage::Format_RGB32);
  for (int r = 0; r < rowCount(); ++r) {
    for (int c = 0; c < columns; ++c) {
      m_image.setPixelColor(c, r, heatColour(m_axis.place(double(cellValue(r, c)))));
    }
  }
}

void HeatMap::paintEvent(QPaintEvent*) {
  const Tokens& tokens = look().tokens();
  QPainter painter(this);
  if (m_rows.empty()) {
    paintEmptyPlace(painter, rect(), m_emptyText);
    return;
  }
  if (m_image.isNull()) draw();
  const QRectF area = mapArea();
  painter.drawImage(area, m_image);

  painter.setFont(look().figureFont(10));
  const double rowHeight = area.height() / rowCount();
  const int every = std::max(1, int(std::ceil(look().px(13) / rowHeight)));
  for (int r = 0; r < rowCount(); ++r) {
    const Row& row = m_rows[std::size_t(r)];
    const bool chosen = row.id == m_chosen;
    // Names that stand too close to the chosen one give way to it.
    const int toChosen = std::abs(r - rowOf(m_chosen));
    if (!chosen && (r % every != 0 || (rowOf(m_chosen) >= 0 && toChosen < every))) continue;
    painter.setPen(chosen ? tokens.text : look().ink(tokens.muted));
    const QRectF cell = cellRect(r, 0);
    painter.drawText(QRectF(0, cell.center().y() - look().px(8), area.left() - 6, look().px(16)),
                     Qt::AlignRight | Qt::AlignVCenter, row.name);
  }
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(Qt::NoBrush);
  if (const int row = rowOf(m_chosen); row >= 0) {
    const QRectF first = cellRect(row, 0);
    const QRectF frame(area.left(), first.top(), area.width(), first.height());
    painter.setPen(QPen(tokens.text, 1.4));
    painter.drawRect(frame.adjusted(-0.5, -0.5, 0.5, 0.5));
  }
  if (m_row >= 0) {
    painter.setPen(QPen(tokens.text, 1.2));
    painter.drawRect(cellRect(m_row, m_column).adjusted(-1.5, -1, 1.5, 1));
  }
  paintLegend(painter);
  if (hasFocus()) {
    painter.setPen(QPen(tokens.accent, 1));
    painter.drawRect(area.adjusted(-1.5, -0.5, 0.5, 1.5));
  }
}

void HeatMap::paintLegend(QPainter& painter) const {
  const Tokens& tokens = look().tokens();
  const QRectF map = mapArea();
  painter.setFont(look().figureFont(10));
  painter.setPen(look().ink(tokens.muted));
  // The channels' axis.
  const double y = map.bottom() + look().px(2);
  const QRectF axis(map.left(), y, map.width(), look().px(14));
  painter.drawText(axis, Qt::AlignLeft | Qt::AlignVCenter, tr("channel 0"));
  painter.drawText(axis, Qt::AlignRight | Qt::AlignVCenter, QString::number(channels() - 1));
  // The colours'.
  const double top = map.bottom() + look().px(22);
  const QRectF bar(map.left(), top, look().px(180), look().px(9));
  const int steps = 60;
  for (int i = 0; i < steps; ++i) {
    painter.fillRect(QRectF(bar.left() + bar.width() * i / steps, bar.top(),
                            bar.width() / steps + 1, bar.height()),
                     heatColour((i + 0.5) / steps));
  }
  const QString text = tr("largest |x|, logarithmic: %1 to %2")
                           .arg(magnitudeText(m_axis.low()), magnitudeText(m_axis.high()));
  const int each = channelsOfCell();
  const QString grouping =
      each > 1 ? tr("a cell is the largest of %1 channels").arg(each) : QString();
  const QRectF words(bar.right() + look().px(10), top - look().px(4),
                     map.right() - bar.right() - look().px(10), look().px(17));
  painter.drawText(words, Qt::AlignLeft | Qt::AlignVCenter, text);
  painter.drawText(words, Qt::AlignRight | Qt::AlignVCenter, grouping);
}

void HeatMap::point(int row, int column) {
  if (row == m_row && column == m_column) return;
  m_row = row;
  m_column = column;
  emit pointed(row >= 0 ? cellText(row, column) : QString());
  update();
}

void HeatMap::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  m_image = {};
  m_row = m_column = -1;
}

void HeatMap::mouseMoveEvent(QMouseEvent* event) {
  const QRectF area = mapArea();
  if (m_rows.empty() || !area.contains(event->pos())) return point(-1, -1);
  const int row = int((event->pos().y() - area.top()) / area.height() * rowCount());
  const int column = int((event->pos().x() - area.left()) / area.width() * columnCount());
  point(std::clamp(row, 0, rowCount() - 1), std::clamp(column, 0, columnCount() - 1));
}

void HeatMap::mousePressEvent(QMouseEvent* event) {
  mouseMoveEvent(event);
  if (m_row >= 0) emit chosenByPerson(m_rows[std::size_t(m_row)].id);
}

void HeatMap::leaveEvent(QEvent*) {
  point(-1, -1);
}

void HeatMap::focusInEvent(QFocusEvent* event) {
  QWidget::focusInEvent(event);
  if (!m_rows.empty() && m_row < 0 && event->reason() != Qt::MouseFocusReason) {
    point(std::max(0, rowOf(m_chosen)), 0);
  }
}

void HeatMap::keyPressEvent(QKeyEvent* event) {
  int rows = 0, columns = 0;
  switch (event->key()) {
    case Qt::Key_Up:
      rows = -1;
      break;
    case Qt::Key_Down:
      rows = 1;
      break;
    case Qt::Key_Left:
      columns = -1;
      break;
    case Qt::Key_Right:
      columns = 1;
      break;
    case Qt::Key_Return:
    case Qt::Key_Enter:
    case Qt::Key_Space:
      if (m_row >= 0) emit chosenByPerson(m_rows[std::size_t(m_row)].id);
      return;
    default:
      return QWidget::keyPressEvent(event);
  }
  if (m_rows.empty()) return;
  if (m_row < 0) return point(std::max(0, rowOf(m_chosen)), 0);
  point(std::clamp(m_row + rows, 0, rowCount() - 1),
        std::clamp(m_column + columns, 0, columnCount() - 1));
}

}  // namespace vitrine::ui

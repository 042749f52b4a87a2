// The report on A4 pages, painted from top to bottom; what does not fit begins the next page.
#include <QBuffer>
#include <QFontMetricsF>
#include <QGuiApplication>
#include <QPainter>
#include <QPdfWriter>

#include "app/lab/chart_painter.h"
#include "app/lab/report_writer.h"
#include "app/text.h"

namespace vitrine::app::lab {

using engine::ErrorCode;
using engine::fail;
using engine::Result;

namespace {

// The light colours of the window; paper is white.
const QColor kText(0x1c, 0x21, 0x27), kMuted(0x62, 0x6c, 0x7a), kLine(0xe2, 0xe6, 0xeb);
const std::array<QColor, 4> kSeries{QColor(0x0f, 0x94, 0x88), QColor(0xc1, 0x7d, 0x10),
                                    QColor(0x6d, 0x5b, 0xd6), QColor(0x27, 0x76, 0xd2)};
const std::array<QColor, 4> kSeriesText{QColor(0x0b, 0x76, 0x6d), QColor(0x8f, 0x5a, 0x06),
                                        QColor(0x5b, 0x49, 0xc4), QColor(0x1f, 0x62, 0xb0)};

class Pages {
 public:
  explicit Pages(QPdfWriter& writer)
      : m_writer(writer), m_painter(&writer), m_unit(writer.logicalDpiX() / 72.0) {}

  bool isActive() const { return m_painter.isActive(); }
  double width() const { return m_writer.width(); }
  double points(double n) const { return n * m_unit; }

  /// A paragraph in a column that begins at `left` (points) and is `columnWidth` wide (0: to the
  /// edge). Returns its height; moves on only if asked.
  double text(const QString& words, double pointSize, const QColor& colour, bool bold = false,
              double left = 0, double columnWidth = 0, bool moveOn = true) {
    QFont font;
    font.setFamilies(
        {QStringLiteral("Inter"), QStringLiteral("Noto Sans"), QStringLiteral("DejaVu Sans")});
    font.setPointSizeF(pointSize);
    font.setWeight(bold ? QFont::DemiBold : QFont::Normal);
    m_painter.setFont(font);
    const double columnPixels = columnWidth > 0 ? points(columnWidth) : width() - points(left);
    const QRectF room(points(left), 0, columnPixels, 1e6);
    const QRectF needed =
        QFontMetricsF(font, &m_writer).boundingRect(room, Qt::TextWordWrap | Qt::AlignLeft, words);
    if (moveOn) ensure(needed.height());
    m_painter.setPen(colour);
    m_painter.drawText(QRectF(points(left), m_y, columnPixels, needed.height() + points(2)),
                       Qt::TextWordWrap | Qt::AlignLeft, words);
    if (moveOn) m_y += needed.height();
    return needed.height();
  }
  /// Cells side by side; the row is as high as its highest.
  void row(const QStringList& cells, const std::vector<double>& lefts, double pointSize,
           const QColor& colour, bool bold) {
    ensure(points(pointSize * 5));
    double highest = 0;
    for (qsizetype i = 0; i < cells.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double right = at + 1 < lefts.size() ? lefts[at + 1] : width() / m_unit;
      highest = std::max(highest, text(cells[i], pointSize, colour, bold || i == 0, lefts[at],
                                       right - lefts[at] - 8, false));
    }
    m_y += highest + points(4);
    line();
  }
  void line() {
    m_painter.setPen(QPen(kLine, points(0.6)));
    m_painter.drawLine(QPointF(0, m_y), QPointF(width(), m_y));
    m_y += points(4);
  }
  void gap(double pointsHigh) { m_y += points(pointsHigh); }
  void chart(const Chart& chart) {
    const double height = points(150);
    ensure(height + points(24));
    text(toQString(chart.title), 9, kMuted, true);
    gap(4);
    QFont font;
    font.setFamilies({QStringLiteral("JetBrains Mono"), QStringLiteral("DejaVu Sans Mono")});
    font.setPointSizeF(7);
    paintChart(m_painter, QRectF(0, m_y, width(), height), chart,
               {kLine, kMuted, kSeries, kSeriesText}, font);
    m_y += height + points(8);
  }
  void ensure(double pixels) {
    if (m_y > 0 && m_y + pixels > m_writer.height()) {
      m_writer.newPage();
      m_y = 0;
    }
  }

 private:
  QPdfWriter& m_writer;
  QPainter m_painter;
  double m_unit;
  double m_y = 0;
};

void writePages(Pages& page, const LabReport& report) {
  page.text(QStringLiteral("What each method gains and costs here"), 17, kText, true);
  page.gap(6);
  for (const auto& [name, value] : aboutLines(report)) {
    page.text(toQString(name) + QStringLiteral(": ") + toQString(value), 8.5, kMuted);
  }
  page.gap(12);
  const std::vector<double> lefts{0, 130, 270, 390};
  page.row({QStringLiteral("Method"), QStringLiteral("Gain"), QStringLiteral("Cost"),
            QStringLiteral("Measured")},
           lefts, 8.5, kMuted, true);
  for (const LabRow& row : report.rows) {
    page.row(
        {toQString(row.method), toQString(row.gain), toQString(row.cost), toQString(row.measured)},
        lefts, 8.5, kText, false);
  }
  page.gap(14);
  page.text(QStringLiteral("Recommendations"), 13, kText, true);
  for (const Recommendation& each : report.recommendations) {
    page.gap(6);
    if (each.choice.empty()) {
      page.text(toQString(each.title + ": needs the rows " + each.missing), 9.5, kMuted);
      continue;
    }
    page.text(toQString(each.title + ": " + each.choice), 9.5, kText, true);
    page.text(toQString(each.figures), 9, kText);
    page.text(toQString(each.rule), 8.5, kMuted);
  }
  for (const LabRow& row : report.rows) {
    page.gap(18);
    page.ensure(page.points(80));
    page.text(toQString(row.method), 13, kText, true);
    page.gap(2);
    page.text(toQString(row.how), 9, kMuted);
    page.gap(6);
    for (const Chart& chart : row.charts) page.chart(chart);
    for (const Figure& figure : row.figures) {
      page.row({toQString(figure.label), toQString(figureText(figure))}, {0, 260}, 8.5, kText,
               false);
    }
  }
}

}  // namespace

Result<std::string> toPdf(const LabReport& report) {
  if (qobject_cast<QGuiApplication*>(QCoreApplication::instance()) == nullptr) {
    return fail(ErrorCode::kUnsupported,
                "PDF needs fonts: this program was started without Qt GUI support");
  }
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  {
    QPdfWriter writer(&buffer);
    writer.setCreator(QStringLiteral("Vitrine " VITRINE_VERSION));
    writer.setTitle(QStringLiteral("What each method gains and costs here"));
    writer.setResolution(300);
    writer.setPageSize(QPageSize(QPageSize::A4));
    writer.setPageMargins(QMarginsF(18, 18, 18, 18), QPageLayout::Millimeter);
    Pages pages(writer);
    if (!pages.isActive()) return fail(ErrorCode::kIo, "the PDF could not be begun");
    writePages(pages, report);
  }
  if (bytes.isEmpty()) return fail(ErrorCode::kIo, "the PDF could not be written");
  return bytes.toStdString();
}

}  // namespace vitrine::app::lab

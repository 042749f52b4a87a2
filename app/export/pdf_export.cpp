#include <QBuffer>
#include <QCoreApplication>
#include <QFontDatabase>
#include <QGuiApplication>
#include <QPageLayout>
#include <QPdfWriter>
#include <QTextBlock>
#include <QTextCursor>
#include <QTextDocument>
#include <QTextOption>

#include "app/export/formats.h"

namespace vitrine::app::exporting {
namespace {

// The light colours of the window; paper is white.
const QColor kText(0x1c, 0x21, 0x27), kMuted(0x62, 0x6c, 0x7a), kFault(0xcf, 0x48, 0x60);
const QColor kReused(0x0f, 0x94, 0x88), kPrefilled(0xc1, 0x7d, 0x10), kGenerated(0x6d, 0x5b, 0xd6);
const QColor kCodeBackground(0xf0, 0xf2, 0xf5);

// Writes a document by inserting plain text: nothing in a message is ever read as markup, so no
// picture or style sheet can be asked for.
class PageWriter {
 public:
  explicit PageWriter(QTextDocument& document) : m_cursor(&document) {
    m_text.setFontPointSize(10.5);
    m_text.setForeground(kText);
    m_code = m_text;
    // No font that draws "->" or "!=" as one sign: what is printed is what was written.
    m_code.setFontFamilies({QStringLiteral("DejaVu Sans Mono"), QStringLiteral("Noto Sans Mono"),
                            QFontDatabase::systemFont(QFontDatabase::FixedFont).family()});
    m_code.setFontFixedPitch(true);
    m_code.setFontPointSize(9);
  }

  void title(const QString& text) {
    QTextCharFormat format = m_text;
    format.setFontPointSize(17);
    format.setFontWeight(QFont::DemiBold);
    block(text, format, {}, 0, 6);
  }

  void speaker(const QString& text) {
    QTextCharFormat format = m_text;
    format.setFontWeight(QFont::DemiBold);
    format.setForeground(kMuted);
    block(text, format, {}, 16, 2);
  }

  void message(const QString& text) {
    for (const Segment& segment : splitFences(text)) {
      QString shown = segment.text;
      if (shown.endsWith(QLatin1Char('\n'))) shown.chop(1);
      QTextBlockFormat format;
      if (segment.code) {
        format.setBackground(kCodeBackground);
        format.setLeftMargin(6);
      }
      for (const QString& line : shown.split(QLatin1Char('\n'))) {
        block(line, segment.code ? m_code : m_text, format, 0, segment.code ? 0 : 2);
      }
    }
  }

  void note(const QString& text) {
    QTextCharFormat format = small();
    format.setForeground(kFault);
    block(text, format, {}, 2, 0);
  }

  // The three colours, each before its own count.
  void figures(const TurnMetrics& metrics) {
    if (!metrics.known()) return;
    block({}, small(), {}, 4, 0);
    const QStringList parts = figuresOf(metrics).split(QStringLiteral(" · "));
    const QColor colours[] = {kReused, kPrefilled, kGenerated};
    for (qsizetype i = 0; i < parts.size(); ++i) {
      QTextCharFormat format = small();
      if (i > 0) m_cursor.insertText(QStringLiteral("   "), format);
      if (i < 3) {
        format.setForeground(colours[i]);
        m_cursor.insertText(QStringLiteral("\u25A0 "), format);
        format.setForeground(kMuted);
      }
      m_cursor.insertText(parts[i], format);
    }
  }

  void about(const QString& text) { block(text, small(), {}, 0, 4); }

 private:
  QTextCharFormat small() const {
    QTextCharFormat format = m_text;
    format.setFontPointSize(8.5);
    format.setForeground(kMuted);
    return format;
  }

  void block(const QString& text, const QTextCharFormat& format, QTextBlockFormat blockFormat,
             qreal above, qreal below) {
    blockFormat.setTopMargin(above);
    blockFormat.setBottomMargin(below);
    if (m_first) {
      m_cursor.setBlockFormat(blockFormat);
      m_first = false;
    } else {
      m_cursor.insertBlock(blockFormat, format);
    }
    m_cursor.insertText(text, format);
  }

  QTextCursor m_cursor;
  QTextCharFormat m_text, m_code;
  bool m_first = true;
};

}  // namespace

engine::Result<QByteArray> toPdf(const ExportDocument& document) {
  if (qobject_cast<QGuiApplication*>(QCoreApplication::instance()) == nullptr) {
    return engine::fail(engine::ErrorCode::kUnsupported,
                        "PDF needs fonts: this program was started without Qt GUI support");
  }
  QTextDocument text;
  QTextOption option;
  option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  option.setTabStopDistance(28);
  text.setDefaultTextOption(option);
  QFont font;
  font.setFamilies({QStringLiteral("Noto Sans"), QStringLiteral("DejaVu Sans"),
                    QStringLiteral("Noto Sans CJK SC")});
  font.setPointSizeF(10.5);
  text.setDefaultFont(font);

  PageWriter page(text);
  page.title(titleOf(document));
  page.about(document.conversation.created.toUTC().toString(Qt::ISODate) +
             QStringLiteral(" · Vitrine " VITRINE_VERSION));
  for (const Turn& turn : turnsOf(document)) {
    page.speaker(turn.model.isEmpty() ? turn.speaker
                                      : turn.speaker + QStringLiteral(" · ") + turn.model);
    page.message(printable(turn.text));
    if (!turn.note.isEmpty()) page.note(turn.note);
    page.figures(turn.metrics);
  }

  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  {
    QPdfWriter writer(&buffer);
    writer.setCreator(QStringLiteral("Vitrine " VITRINE_VERSION));
    writer.setTitle(titleOf(document));
    writer.setPageSize(QPageSize(QPageSize::A4));
    writer.setPageMargins(QMarginsF());  // print() leaves two centimetres of its own
    text.print(&writer);
  }
  if (bytes.isEmpty()) {
    return engine::fail(engine::ErrorCode::kIo, "the PDF could not be written");
  }
  return bytes;
}

}  // namespace vitrine::app::exporting

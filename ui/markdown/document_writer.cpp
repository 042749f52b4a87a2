#include "ui/markdown/document_writer.h"

#include <QTextBlock>
#include <QTextTable>

#include "ui/markdown/inline_parser.h"
#include "ui/markdown/markdown_metrics.h"
#include "ui/markdown/text_view.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

QTextCharFormat textFormat(double pixels = 14, QFont::Weight weight = QFont::Normal) {
  const Theme& theme = Theme::instance();
  QTextCharFormat format;
  format.setFont(theme.textFont(pixels, weight));
  format.setForeground(theme.tokens().text);
  return format;
}

QTextCharFormat codeFormat() {
  const Theme& theme = Theme::instance();
  QTextCharFormat format;
  format.setFont(theme.figureFont(12.5));
  format.setForeground(theme.tokens().text);
  return format;
}

/// Colours of code keep clear of the three that mean reused, prefilled and generated.
QColor syntaxColour(SyntaxKind kind) {
  const Theme& theme = Theme::instance();
  const Tokens& t = theme.tokens();
  switch (kind) {
    case SyntaxKind::kKeyword:
      return readableOn(t.conversations[1], t.code);
    case SyntaxKind::kConstant:
      return readableOn(t.conversations[3], t.code);
    case SyntaxKind::kString:
      return readableOn(t.conversations[2], t.code);
    case SyntaxKind::kComment:
      return readableOn(t.muted, t.code);
    case SyntaxKind::kFunction:
      return readableOn(t.information, t.code);
    case SyntaxKind::kText:
      break;
  }
  return t.text;
}

/// A text block that takes next to no room: what Qt needs around tables.
QTextBlockFormat hairFormat() {
  QTextBlockFormat format;
  format.setLineHeight(1, QTextBlockFormat::FixedHeight);
  return format;
}

}  // namespace

DocumentWriter::DocumentWriter(QTextDocument* document) : m_document(document), m_cursor(document) {
  m_document->setUndoRedoEnabled(false);
  m_document->setDocumentMargin(0);
}

void DocumentWriter::setSource(const QString& source) {
  const std::size_t first = m_parser.setSource(source);
  const auto& blocks = m_parser.blocks();
  m_cursor.beginEditBlock();
  // Code that grows keeps its finished lines; the rest of the last block is written again.
  if (first + 1 == m_written.size() && first < blocks.size() && growCode(blocks[first])) {
    for (std::size_t i = first + 1; i < blocks.size(); ++i) write(blocks[i], &blocks[i - 1]);
  } else {
    if (first < m_written.size()) removeFrom(first);
    for (std::size_t i = m_written.size(); i < blocks.size(); ++i) {
      write(blocks[i], i > 0 ? &blocks[i - 1] : nullptr);
    }
  }
  finishTail();
  m_cursor.endEditBlock();
}

void DocumentWriter::rewrite() {
  m_cursor.beginEditBlock();
  removeFrom(0);
  const auto& blocks = m_parser.blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    write(blocks[i], i > 0 ? &blocks[i - 1] : nullptr);
  }
  finishTail();
  m_cursor.endEditBlock();
}

void DocumentWriter::removeFrom(std::size_t index) {
  if (index >= m_written.size()) return;
  const Written& written = m_written[index];
  m_cursor.setPosition(written.from);
  m_cursor.movePosition(QTextCursor::End, QTextCursor::KeepAnchor);
  m_cursor.removeSelectedText();
  m_cursor.setBlockFormat(written.formatBefore);
  m_fresh = written.freshBefore;
  while (!m_code.empty() && m_code.back().block >= index) m_code.pop_back();
  m_written.resize(index);
}

void DocumentWriter::beginTextBlock(const QTextBlockFormat& format) {
  m_cursor.movePosition(QTextCursor::End);
  if (m_fresh) {
    m_cursor.setBlockFormat(format);
  } else {
    m_cursor.insertBlock(format);
  }
  m_fresh = false;
}

QTextBlockFormat DocumentWriter::blockFormat(const MarkdownBlock& block,
                                             const MarkdownBlock* before) const {
  const Theme& theme = Theme::instance();
  QTextBlockFormat format;
  double left = MarkdownMetrics::quoteIndent() * block.quoteDepth +
                MarkdownMetrics::listIndent() * block.listDepth;
  format.setLeftMargin(left);
  if (!block.marker.isEmpty()) {
    format.setTextIndent(-MarkdownMetrics::listIndent());
    QList<QTextOption::Tab> tabs;
    tabs << QTextOption::Tab(MarkdownMetrics::listIndent(), QTextOption::LeftTab);
    format.setTabPositions(tabs);
  }
  if (block.quoteDepth > 0) format.setProperty(kQuoteDepth, block.quoteDepth);
  if (block.kind == MarkdownBlock::kRule) format.setProperty(kRuleProperty, true);
  if (before) {
    const bool sameList = block.listDepth > 0 && before->listDepth > 0;
    const bool heading = block.kind == MarkdownBlock::kHeading;
    format.setTopMargin(theme.px(heading ? 16 : sameList ? 4 : 10));
  }
  format.setLineHeight(
      theme.px(block.kind == MarkdownBlock::kHeading && block.level <= 2 ? 26 : 21),
      QTextBlockFormat::MinimumHeight);
  return format;
}

void DocumentWriter::write(const MarkdownBlock& block, const MarkdownBlock* before) {
  ++m_blocksWritten;
  m_cursor.movePosition(QTextCursor::End);
  Written written;
  written.block = block;
  written.from = m_cursor.position();
  written.freshBefore = m_fresh;
  written.formatBefore = m_cursor.blockFormat();
  const std::size_t index = m_written.size();
  QTextCharFormat base = textFormat();
  if (block.quoteDepth > 0) base.setForeground(Theme::instance().tokens().muted);

  switch (block.kind) {
    case MarkdownBlock::kParagraph: {
      beginTextBlock(blockFormat(block, before));
      if (!block.marker.isEmpty()) {
        QTextCharFormat marker = base;
        marker.setForeground(Theme::instance().tokens().muted);
        m_cursor.insertText(block.marker + '\t', marker);
      }
      writeInline(block.text, base);
      break;
    }
    case MarkdownBlock::kHeading: {
      static constexpr double kSizes[] = {20, 17, 15, 14, 14, 14};
      beginTextBlock(blockFormat(block, before));
      writeInline(block.text, textFormat(kSizes[block.level - 1], QFont::DemiBold));
      break;
    }
    case MarkdownBlock::kRule:
      beginTextBlock(blockFormat(block, before));
      break;
    case MarkdownBlock::kCode: {
      if (m_fresh) {
        // Qt leaves out the top margin of a first text block, and the frame's head stands in it.
        m_cursor.setBlockFormat(hairFormat());
        m_fresh = false;
      }
      beginTextBlock(codeLineFormat(block, true, true));
      m_code.push_back({m_cursor.position(), m_cursor.position(), index});
      writeCodeLines(&written, block, 0, 0, false);
      m_code.back().last = m_cursor.position();
      break;
    }
    case MarkdownBlock::kTable:
      writeTable(block);
      break;
  }
  m_written.push_back(std::move(written));
}

void DocumentWriter::writeInline(const QString& text, const QTextCharFormat& base) {
  const Theme& theme = Theme::instance();
  for (const InlineSpan& span : parseInline(text)) {
    QTextCharFormat format = base;
    if (span.code) {
      format.setFont(theme.figureFont(12.5));
      format.setBackground(theme.tokens().raised);
    }
    if (span.bold) format.setFontWeight(QFont::DemiBold);
    if (span.italic) format.setFontItalic(true);
    if (span.struck) format.setFontStrikeOut(true);
    if (!span.link.isEmpty()) {
      format.setAnchor(true);
      format.setAnchorHref(span.link);
      format.setForeground(theme.ink(theme.tokens().information));
      format.setFontUnderline(true);
    }
    // A line end within a paragraph is one on screen too.
    QString shown = span.text;
    shown.replace('\n', QChar::LineSeparator);
    insertLiterally(m_cursor, shown, format);
  }
}

QTextBlockFormat DocumentWriter::codeLineFormat(const MarkdownBlock& block, bool first,
                                                bool last) const {
  QTextBlockFormat format;
  const double indent = MarkdownMetrics::quoteIndent() * block.quoteDepth +
                        MarkdownMetrics::listIndent() * block.listDepth;
  format.setLeftMargin(indent + MarkdownMetrics::codePadding());
  format.setRightMargin(MarkdownMetrics::codePadding());
  if (block.quoteDepth > 0) format.setProperty(kQuoteDepth, block.quoteDepth);
  if (first) {
    format.setTopMargin(MarkdownMetrics::codeGap() + MarkdownMetrics::codeHeader() +
                        MarkdownMetrics::codePadding());
  }
  if (last) format.setBottomMargin(MarkdownMetrics::codePadding() + MarkdownMetrics::codeGap());
  format.setLineHeight(Theme::instance().px(19), QTextBlockFormat::MinimumHeight);
  return format;
}

void DocumentWriter::writeCodeLines(Written* written, const MarkdownBlock& block, qsizetype from,
                                    SyntaxHighlighter::State state, bool continuesLine) {
  const SyntaxHighlighter highlighter(block.language);
  const QTextCharFormat plain = codeFormat();
  bool atLine = continuesLine || from == 0;
  for (;;) {
    qsizetype end = block.text.indexOf('\n', from);
    const bool lastLine = end < 0;
    if (lastLine) end = block.text.size();
    if (!atLine) {
      // The line before turned out not to be the last one.
      m_cursor.setBlockFormat(
          codeLineFormat(block, m_cursor.block().position() == m_code.back().first, false));
      m_cursor.insertBlock(codeLineFormat(block, false, true));
    }
    atLine = false;
    written->lastLineFrom = m_cursor.position();
    written->lastLineStart = from;
    written->lastLineState = state;
    const QString line = block.text.mid(from, end - from);
    int done = 0;
    for (const SyntaxSpan& span : highlighter.line(line, &state)) {
      insertLiterally(m_cursor, line.mid(done, span.start - done), plain);
      QTextCharFormat format = plain;
      format.setForeground(syntaxColour(span.kind));
      insertLiterally(m_cursor, line.mid(span.start, span.length), format);
      done = span.start + span.length;
    }
    insertLiterally(m_cursor, line.mid(done), plain);
    if (lastLine) return;
    from = end + 1;
  }
}

bool DocumentWriter::growCode(const MarkdownBlock& block) {
  if (m_written.empty()) return false;
  Written& written = m_written.back();
  if (block.kind != MarkdownBlock::kCode || written.block.kind != MarkdownBlock::kCode ||
      block.start != written.block.start || block.language != written.block.language ||
      !block.text.startsWith(written.block.text) || m_code.empty()) {
    return false;
  }
  if (block.text.size() != written.block.text.size()) {
    m_cursor.setPosition(written.lastLineFrom);
    m_cursor.movePosition(QTextCursor::End, QTextCursor::KeepAnchor);
    m_cursor.removeSelectedText();
    writeCodeLines(&written, block, written.lastLineStart, written.lastLineState, true);
    m_code.back().last = m_cursor.position();
  }
  written.block = block;
  return true;
}

void DocumentWriter::writeTable(const MarkdownBlock& block) {
  const Theme& theme = Theme::instance();
  if (m_fresh) m_cursor.setBlockFormat(hairFormat());
  QTextTableFormat format;
  format.setBorder(1);
  format.setBorderBrush(theme.tokens().line);
  format.setBorderStyle(QTextFrameFormat::BorderStyle_Solid);
  format.setBorderCollapse(true);
  format.setCellPadding(theme.px(7));
  format.setCellSpacing(0);
  format.setTopMargin(theme.px(10));
  format.setBottomMargin(theme.px(8));
  format.setLeftMargin(MarkdownMetrics::quoteIndent() * block.quoteDepth +
                       MarkdownMetrics::listIndent() * block.listDepth);
  const int columns = int(block.columns.size());
  QTextTable* table = m_cursor.insertTable(int(block.rows.size()), columns, format);
  for (int row = 0; row < int(block.rows.size()); ++row) {
    for (int column = 0; column < columns; ++column) {
      QTextTableCell cell = table->cellAt(row, column);
      if (row == 0) {
        QTextTableCellFormat head = cell.format().toTableCellFormat();
        head.setBackground(theme.tokens().raised);
        cell.setFormat(head);
      }
      m_cursor = cell.firstCursorPosition();
      QTextBlockFormat line;
      line.setAlignment(block.columns[column]);
      m_cursor.setBlockFormat(line);
      writeInline(block.rows[row][column],
                  textFormat(13, row == 0 ? QFont::DemiBold : QFont::Normal));
    }
  }
  m_cursor.movePosition(QTextCursor::End);
  m_fresh = true;
}

void DocumentWriter::finishTail() {
  if (!m_fresh || m_written.empty()) return;
  // The empty text block behind a table that ends the document.
  m_cursor.movePosition(QTextCursor::End);
  m_cursor.setBlockFormat(hairFormat());
}

}  // namespace vitrine::ui

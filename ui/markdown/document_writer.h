#pragma once

#include <QTextBlockFormat>
#include <QTextCursor>
#include <QTextDocument>
#include <vector>

#include "ui/markdown/block_parser.h"
#include "ui/markdown/syntax.h"

namespace vitrine::ui {

/// Writes parsed Markdown into a QTextDocument with formats alone: no text ever passes through an
/// HTML or Markdown reader of Qt. When the source grows, finished blocks are left as they are and
/// only the last one is written again; of growing code, only its last line.
class DocumentWriter final {
 public:
  /// Properties of block formats, for the view that paints frames and bars around them.
  enum BlockProperty { kQuoteDepth = QTextFormat::UserProperty + 1, kRuleProperty };

  /// A code block as it stands in the document.
  struct CodeBlock {
    int first = 0;          ///< position of its first character
    int last = 0;           ///< position behind its last character
    std::size_t block = 0;  ///< index into blocks()
  };

  /// Requires: the document outlives the writer and is not changed by others.
  explicit DocumentWriter(QTextDocument* document);

  /// All of the text so far.
  void setSource(const QString& source);
  const QString& source() const { return m_parser.source(); }
  /// Writes everything again: after a switch of the theme.
  void rewrite();
  const std::vector<MarkdownBlock>& blocks() const { return m_parser.blocks(); }
  const std::vector<CodeBlock>& codeBlocks() const { return m_code; }
  /// How many blocks were written since the beginning; a test sees that finished ones are kept.
  int blocksWritten() const { return m_blocksWritten; }

 private:
  struct Written {
    MarkdownBlock block;
    int from = 0;                   ///< end of the document before it
    bool freshBefore = true;        ///< an empty text block was waiting
    QTextBlockFormat formatBefore;  ///< of the text block that `from` is in
    // Code: where its last line begins, in the document and in the text, and the lexer's state.
    int lastLineFrom = 0;
    qsizetype lastLineStart = 0;
    SyntaxHighlighter::State lastLineState = 0;
  };

  void removeFrom(std::size_t index);
  void write(const MarkdownBlock& block, const MarkdownBlock* before);
  bool growCode(const MarkdownBlock& block);
  void writeInline(const QString& text, const QTextCharFormat& base);
  void writeCodeLines(Written* written, const MarkdownBlock& block, qsizetype from,
                      SyntaxHighlighter::State state, bool continuesLine);
  void writeTable(const MarkdownBlock& block);
  void beginTextBlock(const QTextBlockFormat& format);
  QTextBlockFormat blockFormat(const MarkdownBlock& block, const MarkdownBlock* before) const;
  QTextBlockFormat codeLineFormat(const MarkdownBlock& block, bool first, bool last) const;
  void finishTail();

  QTextDocument* m_document;
  QTextCursor m_cursor;
  BlockParser m_parser;
  std::vector<Written> m_written;
  std::vector<CodeBlock> m_code;
  bool m_fresh = true;  ///< the document ends in an empty text block that waits for text
  int m_blocksWritten = 0;
};

}  // namespace vitrine::ui

#pragma once

#include <QString>
#include <QStringList>
#include <vector>

namespace vitrine::ui {

/// A piece of Markdown that is laid out as a whole.
struct MarkdownBlock {
  enum Kind { kParagraph, kHeading, kCode, kTable, kRule };
  Kind kind = kParagraph;
  qsizetype start = 0;  ///< where it begins in the source
  int level = 0;        ///< kHeading: 1 to 6
  int quoteDepth = 0;   ///< block quotes around it
  int listDepth = 0;    ///< lists around it
  QString marker;       ///< "•", "3." … of a list item's first block; else empty
  QString text;         ///< inline source; kCode: the code, without the line end before the fence
  QString language;     ///< kCode: as written behind the fence
  bool closed = true;   ///< kCode: the closing fence was seen
  std::vector<QStringList> rows;       ///< kTable: cells, the head first
  std::vector<Qt::Alignment> columns;  ///< kTable

  bool operator==(const MarkdownBlock&) const = default;
};

/// Splits a growing Markdown source into blocks. Only the part from the beginning of the last
/// block on is looked at again when text is added, so a stream costs time linear in its length as
/// long as single blocks stay small.
///
/// A subset: headings (#), lists, nested lists, quotes, fenced code, tables, rules, paragraphs. A
/// line end stays a line end. There is no HTML and no entity: such text stays as it is written.
class BlockParser final {
 public:
  /// The whole source so far. Returns the index of the first block that may have changed.
  std::size_t setSource(const QString& source);
  const std::vector<MarkdownBlock>& blocks() const { return m_blocks; }
  const QString& source() const { return m_source; }
  void clear();

 private:
  struct ListLevel {
    int indent;   ///< column of the marker
    int content;  ///< column of the text behind it
    bool operator==(const ListLevel&) const = default;
  };
  struct Checkpoint {  ///< state before a block
    std::vector<ListLevel> lists;
    bool blankBefore = true;
    int quoteDepth = 0;
  };

  void parseFrom(qsizetype offset, Checkpoint state);
  QStringView line(qsizetype offset, qsizetype* next) const;

  QString m_source;
  std::vector<MarkdownBlock> m_blocks;
  std::vector<Checkpoint> m_checkpoints;  // one a block
};

}  // namespace vitrine::ui

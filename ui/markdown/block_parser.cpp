#include "ui/markdown/block_parser.h"

#include <algorithm>

namespace vitrine::ui {

namespace {

constexpr int kTabWidth = 4;
constexpr int kDeepestQuote = 8;
constexpr std::size_t kDeepestList = 8;

/// Columns of white space at the start, and how many characters they are.
int indentOf(QStringView line, qsizetype* characters) {
  int column = 0;
  qsizetype i = 0;
  for (; i < line.size(); ++i) {
    if (line[i] == ' ') {
      ++column;
    } else if (line[i] == '\t') {
      column += kTabWidth - column % kTabWidth;
    } else {
      break;
    }
  }
  *characters = i;
  return column;
}

bool isBlank(QStringView line) {
  return line.trimmed().isEmpty();
}

/// Takes at most `limit` quote marks off the front; returns how many there were.
int takeQuoteMarks(QStringView* line, int limit) {
  int depth = 0;
  while (depth < limit) {
    qsizetype spaces = 0;
    if (indentOf(*line, &spaces) > 3 || spaces >= line->size() || (*line)[spaces] != '>') break;
    *line = line->mid(spaces + 1);
    if (!line->isEmpty() && line->front() == ' ') *line = line->mid(1);
    ++depth;
  }
  return depth;
}

struct Fence {
  QChar mark;
  int length = 0;
  int indent = 0;
  QString language;
};

bool openFence(QStringView line, Fence* fence) {
  qsizetype spaces = 0;
  fence->indent = indentOf(line, &spaces);
  const QStringView rest = line.mid(spaces);
  if (rest.size() < 3 || (rest[0] != '`' && rest[0] != '~')) return false;
  fence->mark = rest[0];
  fence->length = 0;
  while (fence->length < rest.size() && rest[fence->length] == fence->mark) ++fence->length;
  if (fence->length < 3) return false;
  const QStringView info = rest.mid(fence->length).trimmed();
  if (fence->mark == '`' && info.contains('`')) return false;
  fence->language = info.toString();
  return true;
}

bool closesFence(QStringView line, const Fence& fence) {
  const QStringView rest = line.trimmed();
  if (rest.size() < fence.length) return false;
  return std::all_of(rest.begin(), rest.end(), [&](QChar c) { return c == fence.mark; });
}

/// A code line without the indentation that the fence itself has.
QStringView withoutIndent(QStringView line, int columns) {
  qsizetype i = 0;
  while (i < line.size() && i < columns && line[i] == ' ') ++i;
  return line.mid(i);
}

bool isRule(QStringView line) {
  const QStringView rest = line.trimmed();
  if (rest.size() < 3 || !(rest[0] == '-' || rest[0] == '*' || rest[0] == '_')) return false;
  int marks = 0;
  for (const QChar c : rest) {
    if (c == rest[0]) {
      ++marks;
    } else if (c != ' ') {
      return false;
    }
  }
  return marks >= 3;
}

int headingLevel(QStringView line, QStringView* text) {
  int level = 0;
  while (level < line.size() && line[level] == '#') ++level;
  if (level < 1 || level > 6) return 0;
  if (level < line.size() && line[level] != ' ' && line[level] != '\t') return 0;
  *text = line.mid(level).trimmed();
  return level;
}

/// A list marker at the start of `rest`: its characters and the text to show for it.
bool listMarker(QStringView rest, qsizetype* length, QString* shown) {
  if (rest.isEmpty()) return false;
  qsizetype i = 0;
  if (rest[0] == '-' || rest[0] == '*' || rest[0] == '+') {
    i = 1;
    *shown = QStringLiteral("•");
  } else {
    while (i < rest.size() && i < 9 && rest[i] >= '0' && rest[i] <= '9') ++i;
    if (i == 0 || i >= rest.size() || (rest[i] != '.' && rest[i] != ')')) return false;
    ++i;
    *shown = rest.left(i).toString();
  }
  if (i >= rest.size() || rest[i] != ' ') return false;
  *length = i;
  return true;
}

/// Cells of a table's row; `\|` is a bar within a cell.
QStringList cellsOf(QStringView line) {
  QStringView rest = line.trimmed();
  if (rest.startsWith('|')) rest = rest.mid(1);
  if (rest.endsWith('|') && !rest.endsWith(QLatin1String("\\|"))) rest.chop(1);
  QStringList cells;
  QString cell;
  bool code = false;
  for (qsizetype i = 0; i < rest.size(); ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size() && rest[i + 1] == '|') {
      cell += '|';
      ++i;
    } else if (rest[i] == '|' && !code) {
      cells << cell.trimmed();
      cell.clear();
    } else {
      if (rest[i] == '`') code = !code;
      cell += rest[i];
    }
  }
  cells << cell.trimmed();
  return cells;
}

bool delimiterRow(QStringView line, std::vector<Qt::Alignment>* columns) {
  if (!line.contains('-') || !line.contains('|')) return false;
  columns->clear();
  for (const QString& cell : cellsOf(line)) {
    QStringView dashes = cell;
    const bool left = dashes.startsWith(':');
    const bool right = dashes.endsWith(':');
    if (left) dashes = dashes.mid(1);
    if (right && !dashes.isEmpty()) dashes.chop(1);
    if (dashes.isEmpty() ||
        std::any_of(dashes.begin(), dashes.end(), [](QChar c) { return c != '-'; })) {
      return false;
    }
    columns->push_back(left && right ? Qt::AlignHCenter : right ? Qt::AlignRight : Qt::AlignLeft);
  }
  return true;
}

}  // namespace

void BlockParser::clear() {
  m_source.clear();
  m_blocks.clear();
  m_checkpoints.clear();
}

std::size_t BlockParser::setSource(const QString& source) {
  const bool grown = source.size() >= m_source.size() && source.startsWith(m_source);
  if (!grown || m_blocks.empty()) {
    clear();
    m_source = source;
    parseFrom(0, {});
    return 0;
  }
  if (source.size() == m_source.size()) return m_blocks.size();
  m_source = source;
  const std::size_t first = m_blocks.size() - 1;
  const qsizetype offset = m_blocks.back().start;
  const Checkpoint state = m_checkpoints.back();
  m_blocks.pop_back();
  m_checkpoints.pop_back();
  parseFrom(offset, state);
  return first;
}

QStringView BlockParser::line(qsizetype offset, qsizetype* next) const {
  qsizetype end = m_source.indexOf('\n', offset);
  if (end < 0) end = m_source.size();
  *next = end + 1;
  if (end > offset && m_source[end - 1] == '\r') --end;
  return QStringView(m_source).mid(offset, end - offset);
}

void BlockParser::parseFrom(qsizetype offset, Checkpoint state) {
  const auto add = [&](MarkdownBlock block) {
    m_checkpoints.push_back(state);
    m_blocks.push_back(std::move(block));
    state.blankBefore = false;
  };
  qsizetype next = 0;
  for (; offset < m_source.size(); offset = next) {
    QStringView text = line(offset, &next);
    MarkdownBlock block;
    block.start = offset;
    block.quoteDepth = takeQuoteMarks(&text, kDeepestQuote);
    if (isBlank(text)) {
      state.blankBefore = true;
      state.quoteDepth = block.quoteDepth;
      continue;
    }
    if (block.quoteDepth != state.quoteDepth) state.lists.clear();
    state.quoteDepth = block.quoteDepth;

    qsizetype spaces = 0;
    int indent = indentOf(text, &spaces);
    QStringView rest = text.mid(spaces);

    // Lists that this line is not inside any more end here. A line right behind an item's text
    // belongs to the item whatever its indentation.
    qsizetype markerLength = 0;
    int codeIndent = -1;
    const bool isItem = !isRule(text) && listMarker(rest, &markerLength, &block.marker);
    const bool fresh = state.blankBefore || isItem || rest.startsWith('#') ||
                       rest.startsWith(QLatin1String("```")) ||
                       rest.startsWith(QLatin1String("~~~"));
    if (fresh) {
      while (!state.lists.empty() &&
             indent < (isItem ? state.lists.back().indent + 2 : state.lists.back().content - 1)) {
        state.lists.pop_back();
      }
    }
    if (isItem && state.lists.size() < kDeepestList) {
      const Checkpoint before = state;
      const QStringView behind = rest.mid(markerLength);
      qsizetype gap = 0;
      indentOf(behind, &gap);
      state.lists.push_back({indent, indent + int(markerLength) + 1});
      block.listDepth = int(state.lists.size());
      const QStringView content = behind.mid(gap);
      Fence fence;
      if (!openFence(content, &fence)) {
        block.text = content.toString();
        // Lines that go on with the item's text.
        while (next < m_source.size()) {
          qsizetype after = 0;
          QStringView more = line(next, &after);
          if (takeQuoteMarks(&more, kDeepestQuote) != block.quoteDepth || isBlank(more)) break;
          QString ignored;
          qsizetype ignoredLength = 0;
          const QStringView trimmed = more.trimmed();
          QStringView ignoredText;
          if (listMarker(trimmed, &ignoredLength, &ignored) || openFence(more, &fence) ||
              headingLevel(trimmed, &ignoredText) > 0 || isRule(more)) {
            break;
          }
          block.text += '\n' + trimmed.toString();
          next = after;
        }
        m_checkpoints.push_back(before);
        m_blocks.push_back(std::move(block));
        state.blankBefore = false;
        continue;
      }
      // "- ```": the code stands in the item; it carries the marker.
      rest = content;
      text = content;
      indent = 0;
      codeIndent = state.lists.back().content;
    } else {
      block.marker.clear();
      block.listDepth = int(state.lists.size());
    }

    Fence fence;
    if (openFence(text, &fence)) {
      block.kind = MarkdownBlock::kCode;
      if (codeIndent >= 0) fence.indent = codeIndent;
      block.language = fence.language;
      block.closed = false;
      QStringList lines;
      while (next < m_source.size()) {
        qsizetype after = 0;
        QStringView code = line(next, &after);
        if (takeQuoteMarks(&code, block.quoteDepth) != block.quoteDepth) break;
        next = after;
        if (closesFence(code, fence)) {
          block.closed = true;
          break;
        }
        lines << withoutIndent(code, fence.indent).toString();
      }
      block.text = lines.join('\n');
      add(std::move(block));
      continue;
    }

    QStringView heading;
    if (const int level = indent <= 3 ? headingLevel(rest, &heading) : 0; level > 0) {
      block.kind = MarkdownBlock::kHeading;
      block.level = level;
      block.text = heading.toString();
      add(std::move(block));
      continue;
    }
    if (isRule(text)) {
      block.kind = MarkdownBlock::kRule;
      block.text = rest.toString();
      add(std::move(block));
      continue;
    }
    if (rest.contains('|') && next < m_source.size()) {
      qsizetype after = 0;
      QStringView second = line(next, &after);
      const int depth = takeQuoteMarks(&second, kDeepestQuote);
      if (depth == block.quoteDepth && delimiterRow(second, &block.columns) &&
          qsizetype(block.columns.size()) == cellsOf(rest).size()) {
        block.kind = MarkdownBlock::kTable;
        block.rows.push_back(cellsOf(rest));
        next = after;
        while (next < m_source.size()) {
          QStringView row = line(next, &after);
          if (takeQuoteMarks(&row, kDeepestQuote) != block.quoteDepth || isBlank(row) ||
              !row.contains('|')) {
            break;
          }
          QStringList cells = cellsOf(row);
          // Surplus cells are joined to the last one: nothing that was written disappears.
          while (cells.size() > qsizetype(block.columns.size())) {
            const QString surplus = cells.takeLast();
            cells.last() += QStringLiteral(" | ") + surplus;
          }
          while (cells.size() < qsizetype(block.columns.size())) cells << QString();
          block.rows.push_back(std::move(cells));
          next = after;
        }
        add(std::move(block));
        continue;
      }
    }

    // A paragraph: up to a blank line or the start of something else.
    QString paragraph = rest.toString();
    while (next < m_source.size()) {
      qsizetype after = 0;
      QStringView more = line(next, &after);
      if (takeQuoteMarks(&more, kDeepestQuote) != block.quoteDepth || isBlank(more)) break;
      qsizetype moreSpaces = 0;
      const int moreIndent = indentOf(more, &moreSpaces);
      const QStringView moreRest = more.mid(moreSpaces);
      Fence other;
      QStringView ignoredText;
      qsizetype ignoredLength = 0;
      QString ignored;
      if (openFence(more, &other) || isRule(more) ||
          (moreIndent <= 3 && headingLevel(moreRest, &ignoredText) > 0) ||
          listMarker(moreRest, &ignoredLength, &ignored)) {
        break;
      }
      if (moreRest.contains('|') && after < m_source.size()) {
        qsizetype third = 0;
        QStringView delimiter = line(after, &third);
        std::vector<Qt::Alignment> columns;
        takeQuoteMarks(&delimiter, kDeepestQuote);
        if (delimiterRow(delimiter, &columns) &&
            qsizetype(columns.size()) == cellsOf(moreRest).size()) {
          break;  // a table begins
        }
      }
      paragraph += '\n' + more.mid(block.listDepth > 0 ? moreSpaces : 0).toString();
      next = after;
    }
    block.text = std::move(paragraph);
    add(std::move(block));
  }
}

}  // namespace vitrine::ui

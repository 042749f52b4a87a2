#include "ui/markdown/inline_parser.h"

#include <QUrl>
#include <algorithm>

namespace vitrine::ui {

namespace {

// Beyond these a text is taken as it is: matching marks is quadratic in the worst case.
constexpr qsizetype kLongestStyled = 20000;
constexpr std::size_t kMostMarks = 1000;
constexpr qsizetype kLongestLink = 1000;

enum Style : unsigned { kBold = 1, kItalic = 2, kStruck = 4 };

struct Piece {
  InlineSpan span;
  // A run of *, _ or ~ that may open or close emphasis.
  QChar mark;
  int length = 0;
  bool opens = false, closes = false;
};

bool isPunctuation(QChar c) {
  return c.isPunct() || c.isSymbol();
}

struct Scanner {
  const QString& source;
  std::vector<Piece> pieces;
  QString text;
  std::size_t marks = 0;

  void flush() {
    if (text.isEmpty()) return;
    Piece piece;
    piece.span.text = std::exchange(text, {});
    pieces.push_back(std::move(piece));
  }

  void add(InlineSpan span) {
    flush();
    Piece piece;
    piece.span = std::move(span);
    pieces.push_back(std::move(piece));
  }

  qsizetype codeSpan(qsizetype i) {
    qsizetype ticks = 0;
    while (i + ticks < source.size() && source[i + ticks] == '`') ++ticks;
    for (qsizetype j = i + ticks; j < source.size();) {
      if (source[j] != '`') {
        ++j;
        continue;
      }
      qsizetype run = 0;
      while (j + run < source.size() && source[j + run] == '`') ++run;
      if (run == ticks) {
        QString code = source.mid(i + ticks, j - i - ticks);
        if (code.size() > 2 && code.startsWith(' ') && code.endsWith(' ') &&
            !code.trimmed().isEmpty()) {
          code = code.mid(1, code.size() - 2);
        }
        InlineSpan span;
        span.text = code;
        span.code = true;
        add(std::move(span));
        return j + run;
      }
      j += run;
    }
    text += source.mid(i, ticks);
    return i + ticks;
  }

  /// [label](target); only where a click may open it.
  qsizetype link(qsizetype i) {
    const qsizetype limit = std::min(source.size(), i + kLongestLink);
    int depth = 0;
    qsizetype close = -1;
    for (qsizetype j = i; j < limit; ++j) {
      if (source[j] == '[') ++depth;
      if (source[j] == ']' && --depth == 0) {
        close = j;
        break;
      }
    }
    if (close < 0 || close + 1 >= limit || source[close + 1] != '(') return i;
    int parentheses = 0;
    qsizetype end = -1;
    for (qsizetype j = close + 1; j < limit && !source[j].isSpace(); ++j) {
      if (source[j] == '(') ++parentheses;
      if (source[j] == ')' && --parentheses == 0) {
        end = j;
        break;
      }
    }
    if (end < 0) return i;
    const QString target = source.mid(close + 2, end - close - 2);
    const QString label = source.mid(i + 1, close - i - 1);
    if (label.trimmed().isEmpty() || !isOpenableLink(target)) return i;
    flush();
    for (InlineSpan& span : parseInline(label)) {
      span.link = target;
      add(std::move(span));
    }
    if (label != target) {
      // Where a link leads is part of what was written, and not a matter of trust in its label.
      InlineSpan shown;
      shown.text = QStringLiteral(" (") + target + QStringLiteral(")");
      shown.link = target;
      add(std::move(shown));
    }
    return end + 1;
  }

  qsizetype bareLink(qsizetype i) {
    const QStringView rest = QStringView(source).mid(i);
    if (!rest.startsWith(QLatin1String("http://")) && !rest.startsWith(QLatin1String("https://"))) {
      return i;
    }
    qsizetype end = i;
    while (end < source.size() && end - i < kLongestLink && !source[end].isSpace() &&
           source[end] != '<' && source[end] != '>' && source[end] != '"' && source[end] != '`') {
      ++end;
    }
    while (end > i && QStringLiteral(".,;:!?*_~'").contains(source[end - 1])) --end;
    const QStringView target = QStringView(source).mid(i, end - i);
    if (target.endsWith(')') && target.count('(') < target.count(')')) --end;
    InlineSpan span;
    span.text = source.mid(i, end - i);
    if (!isOpenableLink(span.text)) return i;
    span.link = span.text;
    add(std::move(span));
    return end;
  }

  qsizetype marksRun(qsizetype i) {
    const QChar mark = source[i];
    qsizetype end = i;
    while (end < source.size() && source[end] == mark) ++end;
    const QChar before = i > 0 ? source[i - 1] : QChar(' ');
    const QChar after = end < source.size() ? source[end] : QChar(' ');
    const bool left =
        !after.isSpace() && (!isPunctuation(after) || before.isSpace() || isPunctuation(before));
    const bool right =
        !before.isSpace() && (!isPunctuation(before) || after.isSpace() || isPunctuation(after));
    Piece piece;
    piece.mark = mark;
    piece.length = int(end - i);
    piece.opens = mark == '_' ? left && (!right || isPunctuation(before)) : left;
    piece.closes = mark == '_' ? right && (!left || isPunctuation(after)) : right;
    const bool useful = (piece.opens || piece.closes) && ++marks <= kMostMarks &&
                        (mark != '~' || piece.length == 2);
    if (!useful) {
      text += source.mid(i, end - i);
      return end;
    }
    flush();
    pieces.push_back(std::move(piece));
    return end;
  }

  void scan() {
    static const QString escapable = QStringLiteral("*_`#|~");
    for (qsizetype i = 0; i < source.size();) {
      const QChar c = source[i];
      if (c == '\\' && i + 1 < source.size() && escapable.contains(source[i + 1])) {
        text += source[i + 1];
        i += 2;
        continue;
      }
      qsizetype next = i;
      if (c == '`') {
        next = codeSpan(i);
      } else if (c == '*' || c == '_' || c == '~') {
        next = marksRun(i);
      } else if (c == '!' && i + 1 < source.size() && source[i + 1] == '[') {
        text += QStringLiteral("![");  // a picture stays text: nothing is fetched
        next = i + 2;
      } else if (c == '[') {
        next = link(i);
      } else if (c == 'h' && (i == 0 || !source[i - 1].isLetterOrNumber())) {
        next = bareLink(i);
      }
      if (next == i) {
        text += c;
        ++i;
      } else {
        i = next;
      }
    }
    flush();
  }

  static void apply(Piece& piece, unsigned style) {
    if (piece.span.code) return;
    piece.span.bold |= (style & kBold) != 0;
    piece.span.italic |= (style & kItalic) != 0;
    piece.span.struck |= (style & kStruck) != 0;
  }

  /// Pairs closing runs with the nearest opening run of the same mark (CommonMark's method,
  /// without its rule of three).
  void pair() {
    for (std::size_t closer = 0; closer < pieces.size(); ++closer) {
      while (pieces[closer].closes && pieces[closer].length > 0) {
        std::size_t opener = closer;
        bool found = false;
        while (opener-- > 0) {
          const Piece& candidate = pieces[opener];
          if (candidate.opens && candidate.length > 0 && candidate.mark == pieces[closer].mark) {
            found = true;
            break;
          }
        }
        if (!found) break;
        const int width = pieces[closer].mark == '~'                                    ? 2
                          : std::min(pieces[opener].length, pieces[closer].length) >= 2 ? 2
                                                                                        : 1;
        const unsigned style = pieces[closer].mark == '~' ? kStruck : width == 2 ? kBold : kItalic;
        for (std::size_t i = opener + 1; i < closer; ++i) {
          apply(pieces[i], style);
          // Marks in between that found no partner are text.
          if (pieces[i].length > 0) pieces[i].opens = pieces[i].closes = false;
        }
        pieces[opener].length -= width;
        pieces[closer].length -= width;
      }
    }
  }
};

}  // namespace

bool isOpenableLink(const QString& target) {
  const QUrl url(target, QUrl::StrictMode);
  if (!url.isValid()) return false;
  const QString scheme = url.scheme().toLower();
  if (scheme == QLatin1String("mailto")) return url.path().contains('@');
  return (scheme == QLatin1String("http") || scheme == QLatin1String("https")) &&
         !url.host().isEmpty();
}

std::vector<InlineSpan> parseInline(const QString& source) {
  std::vector<InlineSpan> spans;
  if (source.size() > kLongestStyled) {
    InlineSpan span;
    span.text = source;
    spans.push_back(std::move(span));
    return spans;
  }
  Scanner scanner{source, {}, {}, 0};
  scanner.scan();
  scanner.pair();
  for (Piece& piece : scanner.pieces) {
    if (piece.mark != QChar() && piece.length > 0) {
      piece.span.text = QString(piece.length, piece.mark);
    }
    if (piece.span.text.isEmpty()) continue;
    if (!spans.empty() && !spans.back().code && !piece.span.code) {
      InlineSpan same = piece.span;
      same.text = spans.back().text;
      if (same == spans.back()) {
        spans.back().text += piece.span.text;
        continue;
      }
    }
    spans.push_back(std::move(piece.span));
  }
  return spans;
}

}  // namespace vitrine::ui

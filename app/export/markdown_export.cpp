// Markdown (CommonMark) in which a message can neither close what it did not open, nor pass for a
// turn, nor become markup.
//
// Turns stand under second-level headings at the left margin, which end lists, quotes and
// paragraphs whatever came before. A question is plain text: it is written as paragraphs where
// that shows it as typed, else as a literal block in a fence longer than any inside. An answer is
// Markdown: its code blocks are moved to the left margin with a fence that is certain to be
// closed, its headings go below the turns', and HTML in it is shown, not run.
#include <QCoreApplication>
#include <QRegularExpression>
#include <algorithm>

#include "app/export/formats.h"

namespace vitrine::app::exporting {
namespace {

QString tr(const char* text) {
  return QCoreApplication::translate("Export", text);
}

// Below the title (1) and the turns (2).
constexpr int kFirstHeadingInside = 3;

int longestRun(const QString& text, QChar mark) {
  int longest = 0, run = 0;
  for (const QChar c : text) {
    run = c == mark ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

QString fenced(const QString& text, const QString& info) {
  const QString fence(std::max(3, longestRun(text, QLatin1Char('`')) + 1), QLatin1Char('`'));
  const QString end = text.endsWith(QLatin1Char('\n')) ? QString() : QStringLiteral("\n");
  return fence + info + QLatin1Char('\n') + text + end + fence + QLatin1Char('\n');
}

// For our own words (titles, names): every mark of Markdown loses its meaning.
QString escapedInline(const QString& text) {
  QString result;
  for (const QChar c : printable(text).simplified()) {
    if (c.unicode() < 128 && c.isPunct()) {
      result += QLatin1Char('\\');
    } else if (c == QLatin1Char('<') || c == QLatin1Char('>') || c == QLatin1Char('`') ||
               c == QLatin1Char('~') || c == QLatin1Char('|') || c == QLatin1Char('$') ||
               c == QLatin1Char('+') || c == QLatin1Char('=') || c == QLatin1Char('^')) {
      result += QLatin1Char('\\');
    }
    result += c;
  }
  return result;
}

// ---------------------------------------------------------------- questions: plain text

// Whether a plain paragraph would not show the text as typed.
bool needsLiteral(const QString& text) {
  static const QRegularExpression marks(
      QStringLiteral(
          "`|<[A-Za-z/!?]|\\\\[[:punct:]]|\\\\$|\\*[\\s\\S]*\\*|^\\*|&[#A-Za-z]|~~|\\][(:\\[]|"
          "\\b_|_\\b|^[ \\t]|[ \\t]$|\\t|\\n\\n\\n|\\A\\n|\\n\\z|"
          "^[ :|-]*\\|[ :|-]*$"),
      QRegularExpression::MultilineOption);
  return marks.match(text).hasMatch();
}

QString plainText(const QString& text) {
  static const QRegularExpression blockStart(
      QStringLiteral("^(#{1,6}(?=\\s|$)|[-+](?=\\s|$)|>|[-=_]+$|\\|)"));
  static const QRegularExpression numbered(QStringLiteral("^(\\d{1,9})([.)])(?=\\s|$)"));
  if (needsLiteral(text)) return fenced(text, QStringLiteral("text"));
  QStringList lines = text.split(QLatin1Char('\n'));
  for (qsizetype i = 0; i < lines.size(); ++i) {
    QString& line = lines[i];
    line.replace(blockStart, QStringLiteral("\\\\1"));
    line.replace(numbered, QStringLiteral("\\1\\\\2"));
    const bool breaks = i + 1 < lines.size() && !line.isEmpty() && !lines[i + 1].isEmpty();
    if (breaks) line += QLatin1Char('\\');  // a hard line break
  }
  return lines.join(QLatin1Char('\n')) + QLatin1Char('\n');
}

// ---------------------------------------------------------------- answers: Markdown

// Where a line holds the beginning of HTML (a tag, a comment, an autolink) outside inline code.
// `pairsMayCross`: an earlier line of the paragraph has a backtick without its pair, so what is
// inside inline code cannot be told from this line.
bool holdsHtml(const QString& line, bool& pairsMayCross) {
  static const QRegularExpression html(QStringLiteral("<[A-Za-z/!?]"));
  static const QRegularExpression run(QStringLiteral("`+"));
  if (line.contains(QLatin1String("\\`"))) pairsMayCross = true;
  QString outside;
  qsizetype at = 0;
  while (at < line.size()) {
    const QRegularExpressionMatch open = run.match(line, at);
    if (!open.hasMatch()) break;
    outside += line.mid(at, open.capturedStart() - at);
    qsizetype close = open.capturedEnd();
    qsizetype closed = -1;
    while (close < line.size()) {
      const QRegularExpressionMatch next = run.match(line, close);
      if (!next.hasMatch()) break;
      close = next.capturedEnd();
      if (next.capturedLength() == open.capturedLength()) {
        closed = close;
        break;
      }
    }
    if (closed < 0) {
      pairsMayCross = true;
      outside += open.captured();
      at = open.capturedEnd();
    } else {
      outside += QLatin1Char(' ');
      at = closed;
    }
  }
  outside += line.mid(at);
  return html.match(pairsMayCross ? line : outside).hasMatch();
}

// Pictures are not fetched, odd schemes lead nowhere, and a definition of a link cannot change
// another message.
QString withoutFetches(QString line) {
  static const QRegularExpression odd(
      QStringLiteral("\\]\\((?=\\s*<?\\s*(?!https?:|mailto:)[A-Za-z][A-Za-z0-9+.-]*:)"),
      QRegularExpression::CaseInsensitiveOption);
  static const QRegularExpression definition(
      QStringLiteral("^((?:[ \\t>]|[-+*][ \\t]|\\d+[.)][ \\t])*)\\[(?=[^\\]]*\\]:)"));
  line.replace(QLatin1String("!["), QLatin1String("\\!["));
  line.replace(odd, QStringLiteral("]\\("));
  line.replace(definition, QStringLiteral("\\1\\["));
  return line;
}

QString escapedHtml(QString line) {
  static const QRegularExpression html(QStringLiteral("(?<!\\\\)<(?=[A-Za-z/!?])"));
  line.replace(html, QStringLiteral("\\<"));
  return line;
}

// "# x" anywhere a heading may begin (in a list, in a quote) becomes "### x".
QString loweredHeading(const QString& line) {
  static const QRegularExpression heading(
      QStringLiteral("^((?:[ \\t>]|[-+*][ \\t]|\\d+[.)][ \\t])*)(#{1,6})(?=\\s|$)"));
  const QRegularExpressionMatch match = heading.match(line);
  if (!match.hasMatch()) return line;
  const int level =
      std::min(6, static_cast<int>(match.capturedLength(2)) + kFirstHeadingInside - 1);
  return match.captured(1) + QString(level, QLatin1Char('#')) + line.mid(match.capturedEnd(2));
}

bool isBlank(const QString& line) {
  return line.trimmed().isEmpty();
}

QString prose(const QString& text) {
  static const QRegularExpression underline(QStringLiteral("^[ \\t>]*(=+|-+)[ \\t]*$"));
  static const QRegularExpression structured(
      QStringLiteral("^\\s*([-+*>|#]|\\d+[.)])"));  // lists, quotes, tables, headings
  QStringList out;
  QStringList literal;  // a run of lines with HTML
  bool pairsMayCross = false;
  const auto flush = [&] {
    if (literal.isEmpty()) return;
    out << fenced(literal.join(QLatin1Char('\n')), QStringLiteral("text")).chopped(1);
    literal.clear();
  };
  for (const QString& line : text.split(QLatin1Char('\n'))) {
    if (isBlank(line)) pairsMayCross = false;
    const bool html = holdsHtml(line, pairsMayCross);
    if (html && !structured.match(line).hasMatch()) {
      literal << line;
      continue;
    }
    flush();
    // A line of = or - below text makes a heading of it: a rule of its own is meant or nothing.
    const QRegularExpressionMatch under = underline.match(line);
    if (under.hasMatch() && !out.isEmpty() && !isBlank(out.last())) {
      if (under.captured(1).startsWith(QLatin1Char('=')) || under.capturedLength(1) >= 2) {
        const QString marks =
            QString(under.captured(1).startsWith(QLatin1Char('=')) ? kFirstHeadingInside
                                                                   : kFirstHeadingInside + 1,
                    QLatin1Char('#'));
        if (!structured.match(out.last()).hasMatch()) {
          out.last() = marks + QLatin1Char(' ') + out.last().trimmed();
          continue;
        }
        out << QString();  // below a list or quote: keep them apart
      }
    }
    QString safe = loweredHeading(withoutFetches(line));
    out << (html ? escapedHtml(safe) : safe);
  }
  flush();
  return out.join(QLatin1Char('\n'));
}

QString answer(const QString& text) {
  static const QRegularExpression opening(QStringLiteral("^( {0,3})(`{3,}|~{3,})([^\\n]*)\\n?"));
  QString out;
  for (const Segment& segment : splitFences(text)) {
    if (!out.isEmpty() && !out.endsWith(QLatin1Char('\n'))) out += QLatin1Char('\n');
    if (!segment.code) {
      out += prose(segment.text);
      continue;
    }
    const QRegularExpressionMatch match = opening.match(segment.text);
    const qsizetype indent = match.capturedLength(1);
    QString fence = match.captured(2);
    QString content = segment.text.mid(match.capturedEnd());
    // The closing line, if there is one, is ours to write.
    const QRegularExpression closing(
        QStringLiteral("(^|\\n) {0,3}%1{%2,}[ \\t]*\\n?$").arg(fence.front()).arg(fence.size()));
    const QRegularExpressionMatch end = closing.match(content);
    if (end.hasMatch()) content.truncate(end.capturedStart() + end.capturedLength(1));
    if (indent > 0) {
      content.replace(QRegularExpression(QStringLiteral("^ {0,%1}").arg(indent),
                                         QRegularExpression::MultilineOption),
                      QString());
      // What stood too far right to close the block may not do so now.
      const int run = longestRun(content, fence.front());
      if (run >= fence.size()) fence = QString(run + 1, fence.front());
    }
    // The same fence: nothing inside closes it, or the block would have ended there.
    if (!content.isEmpty() && !content.endsWith(QLatin1Char('\n'))) content += QLatin1Char('\n');
    out += fence + match.captured(3) + QLatin1Char('\n') + content + fence + QLatin1Char('\n');
  }
  return out;
}

}  // namespace

QByteArray toMarkdown(const ExportDocument& document) {
  QString out = QStringLiteral("# ") + escapedInline(titleOf(document)) + QStringLiteral("\n\n");
  out += tr("Exported from Vitrine %1, chat of %2.")
             .arg(QStringLiteral(VITRINE_VERSION),
                  document.conversation.created.toUTC().toString(Qt::ISODate)) +
         QLatin1Char('\n');
  int number = 0;
  for (const Turn& turn : turnsOf(document)) {
    out +=
        QStringLiteral("\n## %1. %2").arg(QString::number(++number), escapedInline(turn.speaker));
    if (!turn.model.isEmpty())
      out += QStringLiteral(" (") + escapedInline(turn.model) + QLatin1Char(')');
    out += QStringLiteral("\n\n");
    const QString text = printable(turn.text);
    if (!text.isEmpty()) {
      out += turn.role == Role::kAssistant ? answer(text) : plainText(text);
      if (!out.endsWith(QLatin1Char('\n'))) out += QLatin1Char('\n');
    }
    // Our own line stands after a blank one, which ends a paragraph.
    QStringList notes;
    if (!turn.note.isEmpty()) notes << escapedInline(turn.note);
    const QString figures = figuresOf(turn.metrics);
    if (!figures.isEmpty()) notes << escapedInline(figures);
    if (!notes.isEmpty())
      out += QStringLiteral("\n*") + notes.join(QStringLiteral("; ")) + QStringLiteral("*\n");
  }
  return out.toUtf8();
}

}  // namespace vitrine::app::exporting

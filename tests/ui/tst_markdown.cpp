#include <QApplication>
#include <QClipboard>
#include <QGlyphRun>
#include <QPushButton>
#include <QTest>
#include <QTextBlock>
#include <QTextLayout>

#include "ui/markdown/block_parser.h"
#include "ui/markdown/inline_parser.h"
#include "ui/markdown/markdown_view.h"
#include "ui/theme/theme.h"

using namespace vitrine::ui;

namespace {

/// What a person sees, line by line, without the empty lines between blocks.
QStringList shownLines(const QTextDocument& document) {
  QString text = document.toPlainText();
  return text.split('\n', Qt::SkipEmptyParts);
}

QStringList sourceLines(const QString& source) {
  QStringList lines;
  for (const QString& line : source.split('\n')) {
    if (!line.trimmed().isEmpty()) lines << line;
  }
  return lines;
}

/// Text that looks like markup of every kind, one per line.
QString awkwardText() {
  return QStringLiteral(
      "<grin> tea! Map<String, List<int>> m; <i>plain</i> &lt;x&gt; &amp; & &#65;\n"
      "\n"
      "<script>document.title = 1</script>\n"
      "<img src=\"http://127.0.0.1:9/x.png?leak\">\n"
      "![dot](http://127.0.0.1:9/y.png?leak)\n"
      "![disk](file:///etc/hostname)\n"
      "[press](javascript:alert(1))\n"
      "[start](file:///usr/bin/true)\n"
      "[data](data:text/html,<b>x</b>)\n"
      "<a href=\"http://127.0.0.1:9/z\">there</a>\n"
      "<style>* { display: none }</style>\n"
      "<table><tr><td>cell\n"
      "<!-- not hidden -->\n"
      "<think>seen?</think>\n"
      "<h1 style=\"font-size: 900px\">LARGE\n"
      "C:\\temp\\new \\( a \\) \\[ b \\] 2 * 3 * 4 a_b_c __init__x\n"
      "the end <3");
}

QTextCharFormat formatOf(const QTextDocument& document, const QString& text) {
  const QTextCursor found = document.find(text);
  return found.charFormat();
}

}  // namespace

class TestMarkdown final : public QObject {
  Q_OBJECT
 private slots:
  void blocks_data();
  void blocks();
  void inlineStyles();
  void onlySafeLinksAreLinks_data();
  void onlySafeLinksAreLinks();
  void markupStaysText();
  void literalTextStaysAsItIs();
  void growingTextGivesTheSameDocument_data();
  void growingTextGivesTheSameDocument();
  void finishedBlocksAreKept();
  void growingCodeIsLinear();
  void hostileInputEnds_data();
  void hostileInputEnds();
  void copyingEverythingGivesTheSource();
  void copyButtonGivesTheCode();
  void framesOfCodeAreWhole();
  void fontsJoinNoCharacters();
  void tablesShowEveryCell();
  void themeSwitchKeepsTheText();
  void syntaxColoursAreReadable();
};

void TestMarkdown::blocks_data() {
  QTest::addColumn<QString>("source");
  QTest::addColumn<QString>("expected");
  QTest::newRow("paragraphs") << "a\nb\n\nc"
                              << "P:a|b P:c";
  QTest::newRow("heading") << "# One\ntext\n### Three"
                           << "H1:One P:text H3:Three";
  QTest::newRow("no heading") << "#hashtag"
                              << "P:#hashtag";
  QTest::newRow("code") << "```python\nx = 1\n\ny\n```\nafter"
                        << "C[python]:x = 1||y P:after";
  QTest::newRow("open code") << "```\nx"
                             << "C[]:x(open)";
  QTest::newRow("fence in a longer fence") << "````\n```\nx\n```\n````"
                                           << "C[]:```|x|```";
  QTest::newRow("tilde fence") << "~~~sh\n```\n~~~"
                               << "C[sh]:```";
  QTest::newRow("list") << "- a\n- b\n  more\n1. c"
                        << "P(1•):a P(1•):b|more P(1 1.):c";
  QTest::newRow("nested list") << "- a\n  - b\n    - c\n- d"
                               << "P(1•):a P(2•):b P(3•):c P(1•):d";
  QTest::newRow("numbers keep theirs") << "3. x\n7) y"
                                       << "P(1 3.):x P(1 7)):y";
  QTest::newRow("code in a list") << "- a\n  ```c\n  int x;\n  ```\n- b"
                                  << "P(1•):a C(1)[c]:int x; P(1•):b";
  QTest::newRow("quote") << "> a\n> b\n\nc"
                         << "P>1:a|b P:c";
  QTest::newRow("nested quote") << "> > deep"
                                << "P>2:deep";
  QTest::newRow("rule") << "a\n\n---\nb"
                        << "P:a R P:b";
  QTest::newRow("table") << "| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 |"
                         << "T:a,b;1,2;3,";
  QTest::newRow("table behind text") << "text\n| a | b |\n|---|---|\n| 1 | 2 |"
                                     << "P:text T:a,b;1,2";
  QTest::newRow("bar without table") << "a | b\nc"
                                     << "P:a | b|c";
  QTest::newRow("html") << "<b>x</b>\n<table>"
                        << "P:<b>x</b>|<table>";
  QTest::newRow("windows line ends") << "a\r\nb\r\n\r\nc"
                                     << "P:a|b P:c";
}

void TestMarkdown::blocks() {
  QFETCH(QString, source);
  QFETCH(QString, expected);
  BlockParser parser;
  parser.setSource(source);
  QStringList words;
  for (const MarkdownBlock& b : parser.blocks()) {
    QString word;
    switch (b.kind) {
      case MarkdownBlock::kParagraph:
        word = "P";
        break;
      case MarkdownBlock::kHeading:
        word = "H" + QString::number(b.level);
        break;
      case MarkdownBlock::kCode:
        word = "C";
        break;
      case MarkdownBlock::kTable:
        word = "T";
        break;
      case MarkdownBlock::kRule:
        word = "R";
        break;
    }
    if (b.listDepth > 0) {
      const QString gap = b.marker.isEmpty() || b.marker == QStringLiteral("•") ? "" : " ";
      word += "(" + QString::number(b.listDepth) + gap + b.marker + ")";
    }
    if (b.quoteDepth > 0) word += ">" + QString::number(b.quoteDepth);
    if (b.kind == MarkdownBlock::kCode) word += "[" + b.language + "]";
    if (b.kind == MarkdownBlock::kTable) {
      QStringList rows;
      for (const QStringList& row : b.rows) rows << row.join(',');
      word += ":" + rows.join(';');
    } else if (b.kind != MarkdownBlock::kRule) {
      word += ":" + QString(b.text).replace('\n', '|');
    }
    if (!b.closed) word += "(open)";
    words << word;
  }
  QCOMPARE(words.join(' '), expected);
}

void TestMarkdown::inlineStyles() {
  const auto spans = parseInline("plain **bold *both*** `co*de*` ~~gone~~ a*b*c snake_case_name");
  QString shown;
  QHash<QString, InlineSpan> byText;
  for (const InlineSpan& span : spans) {
    shown += span.text;
    byText[span.text.trimmed()] = span;
  }
  QCOMPARE(shown, QString("plain bold both co*de* gone abc snake_case_name"));
  QVERIFY(byText["bold"].bold && !byText["bold"].italic);
  QVERIFY(byText["both"].bold && byText["both"].italic);
  QVERIFY(byText["co*de*"].code);
  QVERIFY(byText["gone"].struck);
  QVERIFY(byText["b"].italic);
}

void TestMarkdown::onlySafeLinksAreLinks_data() {
  QTest::addColumn<QString>("source");
  QTest::addColumn<QString>("target");
  QTest::newRow("https") << "[x](https://example.org/a)"
                         << "https://example.org/a";
  QTest::newRow("http bare") << "see http://example.org."
                             << "http://example.org";
  QTest::newRow("mailto") << "[m](mailto:a@example.org)"
                          << "mailto:a@example.org";
  QTest::newRow("javascript") << "[x](javascript:alert(1))"
                              << "";
  QTest::newRow("JavaScript") << "[x](JaVaScRiPt:alert(1))"
                              << "";
  QTest::newRow("file") << "[x](file:///etc/passwd)"
                        << "";
  QTest::newRow("data") << "[x](data:text/html,hello)"
                        << "";
  QTest::newRow("relative") << "[x](/etc/passwd)"
                            << "";
  QTest::newRow("no host") << "[x](http:///a)"
                           << "";
  QTest::newRow("qrc") << "[x](qrc:/a)"
                       << "";
  QTest::newRow("smb") << "[x](smb://host/a)"
                       << "";
  QTest::newRow("picture") << "![x](http://example.org/a.png)"
                           << "http://example.org/a.png";
}

void TestMarkdown::onlySafeLinksAreLinks() {
  QFETCH(QString, source);
  QFETCH(QString, target);
  QString link;
  QString shown;
  for (const InlineSpan& span : parseInline(source)) {
    if (!span.link.isEmpty()) link = span.link;
    shown += span.text;
  }
  QCOMPARE(link, target);
  if (target.isEmpty()) QCOMPARE(shown, source);
  // Wherever a link leads can be read in the text.
  if (!target.isEmpty()) QVERIFY2(shown.contains(target), qPrintable(shown));
}

void TestMarkdown::markupStaysText() {
  MarkdownView view;
  view.resize(600, 400);
  view.setSource(awkwardText());
  QCOMPARE(shownLines(*view.document()), sourceLines(awkwardText()));
  // Nothing but text and our own formats got into the document.
  for (QTextBlock b = view.document()->begin(); b.isValid(); b = b.next()) {
    for (auto it = b.begin(); !it.atEnd(); ++it) {
      QVERIFY(!it.fragment().charFormat().isImageFormat());
      const QString href = it.fragment().charFormat().anchorHref();
      QVERIFY2(href.isEmpty() || href.startsWith("http://127.0.0.1:9/"), qPrintable(href));
      QVERIFY(it.fragment().charFormat().font().pixelSize() <= 14);
    }
  }
}

void TestMarkdown::literalTextStaysAsItIs() {
  TextView view;
  view.setLiteralText(awkwardText());
  QCOMPARE(view.document()->toPlainText(), awkwardText());
  QCOMPARE(view.sourceText(), awkwardText());
}

void TestMarkdown::growingTextGivesTheSameDocument_data() {
  QTest::addColumn<QString>("source");
  QTest::newRow("prose") << "# Title\n\nSome *text* with `code`.\n\n- a\n- b\n  - c\n\nEnd.";
  QTest::newRow("code") << "Take this:\n\n```python\ndef f(x):\n    \"\"\"long\n    text\"\"\"\n\n"
                           "    return x\n```\n\nDone.\n\n```\nplain\n```";
  QTest::newRow("table")
      << "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\nafter\n\n> quote\n> more";
  QTest::newRow("table last") << "before\n\n| a | b |\n|---|---|\n| 1 | 2 |";
  QTest::newRow("two tables") << "| a |b|\n|---|-|\n| 1 |2|\n\n| c |d|\n|---|-|\n| 3 |4|\n";
  QTest::newRow("awkward") << awkwardText();
  QTest::newRow("code first") << "```js\nlet a = `x\ny`;\n```";
}

void TestMarkdown::growingTextGivesTheSameDocument() {
  QFETCH(QString, source);
  MarkdownView whole;
  whole.resize(600, 400);
  whole.setSource(source);
  MarkdownView grown;
  grown.resize(600, 400);
  for (int i = 1; i <= source.size(); ++i) grown.setSource(source.left(i));
  QCOMPARE(grown.document()->toPlainText(), whole.document()->toPlainText());
  QCOMPARE(grown.heightAt(600), whole.heightAt(600));
  QCOMPARE(grown.document()->blockCount(), whole.document()->blockCount());
  // Formats too, character by character.
  for (int i = 0; i < whole.document()->characterCount() - 1; ++i) {
    QTextCursor a(whole.document());
    QTextCursor b(grown.document());
    a.setPosition(i + 1);
    b.setPosition(i + 1);
    QVERIFY2(a.charFormat() == b.charFormat(), qPrintable(QString("character %1").arg(i)));
    QVERIFY2(a.blockFormat() == b.blockFormat(), qPrintable(QString("block at %1").arg(i)));
  }
}

void TestMarkdown::finishedBlocksAreKept() {
  MarkdownView view;
  view.resize(600, 400);
  QString source;
  for (int i = 0; i < 200; ++i) source += QString("Paragraph %1.\n\n").arg(i);
  view.setSource(source);
  const int before = view.writer().blocksWritten();
  for (int i = 0; i < 50; ++i) {
    source += "x";
    view.setSource(source);
  }
  // Each step writes the last block, never the 200 before it.
  QVERIFY2(view.writer().blocksWritten() - before <= 52,
           qPrintable(QString::number(view.writer().blocksWritten() - before)));
}

void TestMarkdown::growingCodeIsLinear() {
  MarkdownView view;
  view.resize(600, 400);
  QString source = "```cpp\n";
  view.setSource(source);
  const int before = view.writer().blocksWritten();
  for (int i = 0; i < 500; ++i) {
    source += QString("int value%1 = %1;\n").arg(i);
    view.setSource(source);
  }
  QCOMPARE(view.writer().blocksWritten(), before);
  QCOMPARE(view.code(0).count('\n'), 499);
  QCOMPARE(view.document()->blockCount(), 501);  // one of them is the room above the frame
}

void TestMarkdown::hostileInputEnds_data() {
  QTest::addColumn<QString>("source");
  QTest::newRow("stars") << QString("*a ").repeated(20000);
  QTest::newRow("brackets") << QString("[").repeated(20000);
  QTest::newRow("ticks") << QString("` `` ").repeated(8000);
  QTest::newRow("quotes") << QString(">").repeated(20000);
  QTest::newRow("lists") << QString("- ").repeated(20000);
  QTest::newRow("one word") << QString("a").repeated(100000);
  QTest::newRow("bars") << QString("|").repeated(3000) + "\n" + QString("|-").repeated(3000);
  QTest::newRow("emphasis") << QString("**").repeated(10000) + "a" + QString("**").repeated(10000);
  QTest::newRow("links") << QString("[a](").repeated(5000);
}

void TestMarkdown::hostileInputEnds() {
  QFETCH(QString, source);
  QElapsedTimer timer;
  timer.start();
  MarkdownView view;
  view.resize(600, 400);
  view.setSource(source);
  view.heightAt(600);
  QVERIFY2(timer.elapsed() < 5000, qPrintable(QString::number(timer.elapsed())));
}

void TestMarkdown::copyingEverythingGivesTheSource() {
  MarkdownView view;
  view.resize(600, 400);
  const QString source = "# A\n\n*b*\u00a0c\n\n```py\nx\n```\n\n| q | r |\n|---|---|\n| 1 | 2 |\n";
  view.setSource(source);
  view.selectAll();
  view.copy();
  QCOMPARE(QGuiApplication::clipboard()->text(), source);
}

void TestMarkdown::copyButtonGivesTheCode() {
  MarkdownView view;
  view.resize(600, 400);
  view.setSource("Look:\n```python\ndef f():\n\treturn '<b>'  \n```\n");
  const auto buttons = view.findChildren<QPushButton*>();
  QCOMPARE(buttons.size(), 1);
  QTest::mouseClick(buttons.first(), Qt::LeftButton);
  QCOMPARE(QGuiApplication::clipboard()->text(), QString("def f():\n\treturn '<b>'  "));
}

void TestMarkdown::framesOfCodeAreWhole() {
  MarkdownView view;
  view.resize(600, 400);
  const QString table = "| a | b |\n|---|---|\n| 1 | 2 |\n\n";
  const QString code = "```py\nx = 1\n```\n";
  for (const QString& before : {QString(), QString("text\n\n"), table, table + "text\n\n"}) {
    view.setSource(before + code);
    view.resize(600, view.heightAt(600));
    view.setSource(before + code + "\n");  // the buttons take their places at this width
    const auto buttons = view.findChildren<QPushButton*>();
    QCOMPARE(buttons.size(), 1);
    const QRect button = buttons.first()->geometry();
    const QTextCursor at = view.document()->find("x = 1");
    QVERIFY(button.top() >= 0);
    // The head with the button is above the first line, and below whatever came before.
    QVERIFY(button.bottom() < view.cursorRect(at).top());
    if (!before.isEmpty()) {
      const QTextCursor last = view.document()->find(before.contains("text") ? "text" : "2");
      QVERIFY(view.cursorRect(last).bottom() < button.top());
    }
    // And the frame's foot is within the view's height.
    QVERIFY(view.cursorRect(at).bottom() + 12 < view.heightAt(600));
  }
}

void TestMarkdown::fontsJoinNoCharacters() {
  // As wide as its characters are one by one: nothing was drawn as one sign.
  const QString text = "a --> b != c <= d => e :: f 10x20 <!-- -->";
  TextView view;
  view.setLiteralText(text);
  view.heightAt(2000);
  const QTextLine line = view.document()->firstBlock().layout()->lineAt(0);
  QCOMPARE(line.textLength(), int(text.size()));
  int glyphs = 0;
  for (const QGlyphRun& run : line.glyphRuns()) glyphs += int(run.glyphIndexes().size());
  QCOMPARE(glyphs, int(text.size()));
  const QFontMetricsF metrics(Theme::instance().textFont());
  QTextCursor at = view.document()->find("-->");
  const double left = line.cursorToX(at.selectionStart());
  const double right = line.cursorToX(at.selectionEnd());
  const double apart = 2 * metrics.horizontalAdvance('-') + metrics.horizontalAdvance('>');
  QVERIFY2(std::abs(right - left - apart) < 1.5,
           qPrintable(QString("%1 against %2").arg(right - left).arg(apart)));
}

void TestMarkdown::tablesShowEveryCell() {
  MarkdownView view;
  view.resize(600, 400);
  view.setSource("| a | b |\n|---|---|\n| 1 | 2 | surplus | x |\n| `p|q` | r\\|s |");
  const QString text = view.document()->toPlainText();
  for (const QString cell : {"a", "b", "1", "2", "surplus", "x", "p|q", "r|s"}) {
    QVERIFY2(text.contains(cell), qPrintable(cell));
  }
}

void TestMarkdown::themeSwitchKeepsTheText() {
  MarkdownView view;
  view.resize(600, 400);
  view.setSource("**x** and\n\n```c\nint a;\n```\n");
  Theme::instance().setMode(ThemeMode::kDark);
  const QString dark = view.document()->toPlainText();
  QCOMPARE(formatOf(*view.document(), "and").foreground().color(), darkTokens().text);
  Theme::instance().setMode(ThemeMode::kLight);
  QCOMPARE(view.document()->toPlainText(), dark);
  QCOMPARE(formatOf(*view.document(), "and").foreground().color(), lightTokens().text);
}

void TestMarkdown::syntaxColoursAreReadable() {
  for (const ThemeMode mode : {ThemeMode::kDark, ThemeMode::kLight}) {
    Theme::instance().setMode(mode);
    const Tokens& t = Theme::instance().tokens();
    MarkdownView view;
    view.resize(600, 400);
    view.setSource("```python\ndef f(x):  # why\n    return 'a' if x is None else 12\n```\n");
    QVERIFY(formatOf(*view.document(), "return").foreground().color() != t.text);
    for (const QString word : {"def", "f", "why", "a'", "None", "12", "x"}) {
      const QColor colour = formatOf(*view.document(), word).foreground().color();
      QVERIFY2(contrast(colour, t.code) >= 4.5, qPrintable(word));
      QVERIFY2(colour != t.reused && colour != t.prefilled && colour != t.generated,
               qPrintable(word));
    }
  }
}

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  Theme::instance().install(application);
  TestMarkdown test;
  return QTest::qExec(&test, argc, argv);
}

#include "tst_markdown.moc"

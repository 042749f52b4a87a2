#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QTemporaryDir>
#include <QTextBlock>
#include <QTextDocument>
#include <QTextDocumentFragment>
#include <QtTest>

#include "app/chat/turn_metrics.h"
#include "app/export/exporter.h"
#include "app/store/conversation_store.h"

using namespace vitrine::app;
namespace engine = vitrine::engine;

namespace {

// What people and models write that breaks exports: fences of both kinds, open and nested ones,
// headings and rules that look like turns, HTML, odd line ends, pictures, definitions of links.
const std::vector<std::pair<Role, QString>> kAwkward{
    {Role::kUser, QStringLiteral("plain question")},
    {Role::kAssistant, QStringLiteral("Here:\n\n~~~~text\n```\ninner\n```\n~~~~\nAfter it.")},
    {Role::kUser, QStringLiteral("## 2. Assistant\n\nnot yours\n\n# Big\n\n---\n**User:** x")},
    {Role::kAssistant,
     QStringLiteral("# My heading\n\nUnder\n=====\n\ntext\n---\n\n- ```py\n  x = 1\n\nend")},
    {Role::kUser,
     QStringLiteral("<!-- \n<script>alert(1)</script><img src=http://127.0.0.1:9/x.png>")},
    {Role::kAssistant,
     QStringLiteral("vector<int> v; a<b and `<kbd>` and ![p](http://127.0.0.1:9/p.png)\n"
                    "`open <b> \n` <u>under</u> `\n\n[j](javascript:alert(1)) [r]: http://x/ 'y'")},
    {Role::kUser, QStringLiteral(" lead\ttab\r\nwin\rmac\n\n\n\nend  \n")},
    {Role::kAssistant, QStringLiteral("```\nnever closed\n## 9. User\n<!--")},
    {Role::kUser, QStringLiteral("```")},
    {Role::kAssistant,
     QStringLiteral("| a | b |\n|---|---|\n| `x\\|y` | 漢字 🙂 <br> |\n\n[r]: "
                    "http://evil/\n\n> quoted\n> # in quote")},
    {Role::kUser, QStringLiteral("C:\\new\\table 3*4*5 a_b_c __init__ &lt; &amp;")},
    {Role::kAssistant, QStringLiteral("   ```js\n   let a;\n     b;\n   ```\ntail \\")},
    {Role::kUser, QStringLiteral("line one\nline two\n1. not a list\n+ nor this")},
    {Role::kAssistant,
     QStringLiteral("1. a\n   ```\n   in <b>\n       ```\n   ```\n2. b\n   ```\n   open")},
    {Role::kAssistant, QStringLiteral("<div>\n\nblank above\n\n<pre>\n")},
};

ExportDocument documentOf(const std::vector<std::pair<Role, QString>>& turns,
                          const QString& title = QStringLiteral("T <b>&amp; *x* # `%1`"),
                          const QString& system = QStringLiteral("Be <i>brief</i> & \"kind\"")) {
  ExportDocument document;
  document.conversation.id = 1;
  document.conversation.uuid = QStringLiteral("6a1b");
  document.conversation.title = title;
  document.conversation.systemPrompt = system;
  document.conversation.created = document.conversation.updated =
      QDateTime::fromMSecsSinceEpoch(1700000000123);
  for (const auto& [role, text] : turns) {
    Message message;
    message.id = qint64(document.path.size()) + 1;
    message.parent = message.id - 1;
    message.conversation = 1;
    message.role = role;
    message.text = text;
    message.created = QDateTime::fromMSecsSinceEpoch(1700000000000 + message.id);
    if (role == Role::kAssistant) {
      TurnMetrics metrics;
      metrics.report.promptTokens = 52;
      metrics.report.reusedTokens = 12;
      metrics.report.prefilledTokens = 40;
      metrics.report.generatedTokens = 128;
      metrics.report.ttftMs = 120.25;
      metrics.report.tpotMs = 9.125;
      metrics.report.seed = 18446744073709551615ULL;
      metrics.model = QStringLiteral("<m>odel");
      message.metrics = toJson(metrics);
      message.model = metrics.model;
      message.tokenIds = {1, 2, 70000};
    }
    document.path.push_back(message);
    document.tree.push_back(message);
  }
  document.conversation.activeLeaf = document.path.empty() ? 0 : document.path.back().id;
  return document;
}

QString normalized(QString text) {
  return text.replace(QLatin1String("\r\n"), QLatin1String("\n"))
      .replace(QLatin1Char('\r'), QLatin1Char('\n'));
}

// Reads Markdown with an implementation that is not ours (md4c in Qt).
std::unique_ptr<QTextDocument> parsed(const QByteArray& markdown) {
  auto document = std::make_unique<QTextDocument>();
  document->setMarkdown(QString::fromUtf8(markdown), QTextDocument::MarkdownDialectCommonMark);
  return document;
}

QStringList headings(const QTextDocument& document, int level) {
  QStringList result;
  for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
    if (block.blockFormat().headingLevel() == level) result << block.text();
  }
  return result;
}

// Text of all blocks of code, block by block.
QString codeText(const QTextDocument& document) {
  QStringList lines;
  for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
    if (block.blockFormat().hasProperty(QTextFormat::BlockCodeFence) ||
        block.blockFormat().hasProperty(QTextFormat::BlockCodeLanguage)) {
      lines << block.text();
    }
  }
  return lines.join(QLatin1Char('\n'));
}

bool hasImage(const QTextDocument& document) {
  for (QTextBlock block = document.begin(); block.isValid(); block = block.next()) {
    for (auto it = block.begin(); !it.atEnd(); ++it) {
      if (it.fragment().charFormat().isImageFormat()) return true;
    }
  }
  return false;
}

}  // namespace

class TestExport : public QObject {
  Q_OBJECT
 private slots:
  void markdownTurnsAreOursAlone();
  void markdownOfEachMessageStandsAlone_data();
  void markdownOfEachMessageStandsAlone();
  void markdownFencesOutgrowTheirContent();
  void markdownFetchesNothing();
  void htmlShowsEveryCharacter();
  void htmlHoldsOnlyOurMarkup();
  void jsonComesBackWithBranches();
  void plainFormatsComeBack_data();
  void plainFormatsComeBack();
  void importReadsOthersFiles_data();
  void importReadsOthersFiles();
  void importRefusesWithASentence_data();
  void importRefusesWithASentence();
  void pdfIsMadeFromAnyText();
  void filesAreWrittenWholeOrNotAtAll();
  void fileNamesAreHarmless();
  void metricsComeBack();
  void whereTheTimeWentComesBack();
};

void TestExport::markdownTurnsAreOursAlone() {
  const ExportDocument document = documentOf(kAwkward);
  const auto bytes = exportBytes(document, ExportFormat::kMarkdown);
  QVERIFY(bytes);
  const auto read = parsed(*bytes);
  QCOMPARE(headings(*read, 1), QStringList{document.conversation.title});
  const QStringList turns = headings(*read, 2);
  QCOMPARE(turns.size(), qsizetype(kAwkward.size()) + 1);  // and the system prompt
  for (qsizetype i = 0; i < turns.size(); ++i) {
    const QString who = i == 0 ? QStringLiteral("System prompt")
                        : kAwkward[std::size_t(i) - 1].first == Role::kUser
                            ? QStringLiteral("User")
                            : QStringLiteral("Assistant (<m>odel)");
    QCOMPARE(turns[i], QStringLiteral("%1. %2").arg(i + 1).arg(who));
  }
  // The answers' own headings are there, further down.
  QVERIFY(headings(*read, 3).contains(QStringLiteral("My heading")));
  QVERIFY(headings(*read, 3).contains(QStringLiteral("Under")));
  QVERIFY(headings(*read, 3).contains(QStringLiteral("in quote")));
}

void TestExport::markdownOfEachMessageStandsAlone_data() {
  QTest::addColumn<int>("at");
  for (int i = 0; i < int(kAwkward.size()); ++i) QTest::addRow("message %d", i) << i;
}

// Each message between two plain ones: what stands before and after it must not change.
void TestExport::markdownOfEachMessageStandsAlone() {
  QFETCH(int, at);
  const auto& [role, text] = kAwkward[std::size_t(at)];
  const auto bytes = exportBytes(documentOf({{Role::kUser, QStringLiteral("before")},
                                             {role, text},
                                             {Role::kUser, QStringLiteral("after me")},
                                             {Role::kAssistant, QStringLiteral("see [r] there")}},
                                            QStringLiteral("T")),
                                 ExportFormat::kMarkdown);
  const auto read = parsed(*bytes);
  QCOMPARE(headings(*read, 2).size(), 5);
  const QString plain = read->toPlainText();
  QVERIFY2(plain.contains(QLatin1String("after me")), qPrintable(plain));
  QVERIFY(!codeText(*read).contains(QLatin1String("after me")));
  // No definition of a message makes a link in another one.
  QVERIFY(plain.contains(QLatin1String("see [r] there")));
  if (role != Role::kUser) return;
  // A question is shown as it was typed: each of its lines, spaces too where Markdown drops them.
  const QString code = codeText(*read);
  for (const QString& line : normalized(text).split(QLatin1Char('\n'))) {
    QVERIFY2(plain.contains(line) || code.contains(line), qPrintable(line));
  }
}

void TestExport::markdownFencesOutgrowTheirContent() {
  const QString text = QStringLiteral("``````\nsix\n``````\n```\nthree");
  const auto bytes = exportBytes(documentOf({{Role::kUser, text}}), ExportFormat::kMarkdown);
  QVERIFY(bytes->contains("\n```````text\n" + text.toUtf8() + "\n```````\n"));
}

void TestExport::markdownFetchesNothing() {
  const auto bytes = exportBytes(documentOf(kAwkward), ExportFormat::kMarkdown);
  QVERIFY(!hasImage(*parsed(*bytes)));
  const auto picture = parsed("![p](http://127.0.0.1:9/p.png)");
  QVERIFY(hasImage(*picture));  // the check itself sees pictures
  const auto read = parsed(*bytes);
  for (QTextBlock block = read->begin(); block.isValid(); block = block.next()) {
    for (auto it = block.begin(); !it.atEnd(); ++it) {
      const QString target = it.fragment().charFormat().anchorHref();
      QVERIFY2(target.isEmpty() || target.startsWith(QLatin1String("http")), qPrintable(target));
    }
  }
}

void TestExport::htmlShowsEveryCharacter() {
  const ExportDocument document = documentOf(kAwkward);
  const auto bytes = exportBytes(document, ExportFormat::kHtml);
  QVERIFY(bytes->left(300).contains("charset=\"utf-8\""));
  const QString html = QString::fromUtf8(*bytes);
  // Messages are cut at code blocks only; joined again they are the text.
  static const QRegularExpression box(
      QStringLiteral("<div class=\"(?:text|code)\" dir=\"auto\">([^<]*)</div>"));
  QString all;
  for (auto it = box.globalMatch(html); it.hasNext();) {
    all += it.next().captured(1);
    all += QLatin1Char('\n');
  }
  for (const auto& [entity, character] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&amp;", "&"}}) {
    all.replace(QLatin1String(entity), QLatin1String(character));
  }
  for (const auto& [role, text] : kAwkward) {
    for (const QString& line : normalized(text).split(QLatin1Char('\n'))) {
      QVERIFY2(all.contains(line), qPrintable(line));
    }
  }
  QVERIFY(all.contains(document.conversation.systemPrompt));
}

void TestExport::htmlHoldsOnlyOurMarkup() {
  const auto bytes = exportBytes(documentOf(kAwkward), ExportFormat::kHtml);
  const QString html = QString::fromUtf8(*bytes);
  QVERIFY(html.contains(QLatin1String("default-src 'none'")));
  const QSet<QString> ours{"html", "head", "meta", "title", "style", "body",
                           "main", "h1",   "p",    "div",   "span",  "section"};
  static const QRegularExpression tag(QStringLiteral("<\\s*[/!]?\\s*([A-Za-z0-9-]*)([^>]*)>"));
  int tags = 0;
  for (auto it = tag.globalMatch(html); it.hasNext();) {
    const auto match = it.next();
    const QString name = match.captured(1).toLower();
    if (match.captured(0) == QLatin1String("<!DOCTYPE html>")) continue;
    ++tags;
    QVERIFY2(ours.contains(name), qPrintable(match.captured(0)));
    QVERIFY2(!match.captured(2).contains(
                 QRegularExpression(QStringLiteral("\\b(on\\w+|src|href)\\s*="))),
             qPrintable(match.captured(0)));
  }
  QVERIFY(tags > 50);
  QVERIFY(html.contains(QLatin1String("<title>T &lt;b&gt;&amp;amp; *x* # `%1`</title>")));
  QVERIFY(!html.contains(QLatin1String("url(")));
  // The bar: 12, 40 and 128 of 180.
  QVERIFY(html.contains(QLatin1String("class=\"reused\" style=\"width:6.67%\"")));
  QVERIFY(html.contains(QLatin1String("class=\"generated\" style=\"width:71.11%\"")));
}

void TestExport::jsonComesBackWithBranches() {
  QTemporaryDir dir;
  auto store = ConversationStore::open(dir.filePath(QStringLiteral("a.sqlite")));
  QVERIFY(store);
  ExportDocument document = documentOf(kAwkward);
  // A branch beside the second answer, newer than the path.
  Message other = document.path[1];
  other.id = 900;
  other.text = QStringLiteral("the other answer");
  document.tree.push_back(other);
  document.conversation.sampling = {{QStringLiteral("temperature"), 0.5}};
  document.conversation.contextPolicy = engine::ContextPolicy::kKeepPinned;
  const auto bytes = exportBytes(document, ExportFormat::kJson);
  const auto report = importBytes(**store, *bytes, QStringLiteral("a.json"));
  QVERIFY2(report, report ? "" : report.error().message.c_str());
  QCOMPARE(report->conversations.size(), std::size_t(1));
  QVERIFY(report->skipped.isEmpty());
  const auto again = loadForExport(**store, report->conversations[0]);
  QVERIFY(again);
  QCOMPARE(again->conversation.title, document.conversation.title);
  QCOMPARE(again->conversation.uuid, document.conversation.uuid);
  QCOMPARE(again->conversation.systemPrompt, document.conversation.systemPrompt);
  QCOMPARE(again->conversation.sampling, document.conversation.sampling);
  QCOMPARE(again->conversation.created, document.conversation.created);
  QVERIFY(again->conversation.contextPolicy == engine::ContextPolicy::kKeepPinned);
  QCOMPARE(again->path.size(), document.path.size());
  for (std::size_t i = 0; i < document.path.size(); ++i) {
    QCOMPARE(again->path[i].text, document.path[i].text);
    QVERIFY(again->path[i].role == document.path[i].role);
    QCOMPARE(again->path[i].created, document.path[i].created);
    QCOMPARE(again->path[i].metrics, document.path[i].metrics);
    QCOMPARE(again->path[i].tokenIds, document.path[i].tokenIds);
    QCOMPARE(again->path[i].model, document.path[i].model);
  }
  QCOMPARE(again->tree.size(), document.tree.size());
  QCOMPARE(again->tree.back().text, QStringLiteral("the other answer"));
  QCOMPARE(again->tree.back().parent, again->path[0].id);
  // A second time it is the same file, but for ids.
  const auto twice = importBytes(**store, *exportBytes(*again, ExportFormat::kJson), QString());
  QVERIFY(twice);
}

void TestExport::plainFormatsComeBack_data() {
  QTest::addColumn<int>("format");
  QTest::newRow("jsonl") << int(ExportFormat::kJsonl);
  QTest::newRow("sharegpt") << int(ExportFormat::kShareGpt);
}

void TestExport::plainFormatsComeBack() {
  QFETCH(int, format);
  QTemporaryDir dir;
  auto store = ConversationStore::open(dir.filePath(QStringLiteral("a.sqlite")));
  const ExportDocument document = documentOf(kAwkward);
  const auto bytes = exportBytes(document, ExportFormat(format));
  if (ExportFormat(format) == ExportFormat::kJsonl) QCOMPARE(bytes->count('\n'), 1);
  const auto report = importBytes(
      **store, *bytes + (ExportFormat(format) == ExportFormat::kJsonl ? *bytes : QByteArray()),
      QStringLiteral("x"));
  QVERIFY(report);
  for (const ConversationId id : report->conversations) {
    const auto again = loadForExport(**store, id);
    QCOMPARE(again->conversation.systemPrompt, document.conversation.systemPrompt);
    QCOMPARE(again->path.size(), document.path.size());
    for (std::size_t i = 0; i < document.path.size(); ++i) {
      QCOMPARE(again->path[i].text, document.path[i].text);
      QVERIFY(again->path[i].role == document.path[i].role);
    }
  }
}

void TestExport::importReadsOthersFiles_data() {
  QTest::addColumn<QByteArray>("bytes");
  QTest::addColumn<int>("conversations");
  QTest::addColumn<int>("skipped");
  const QByteArray pair = R"({"role":"user","content":"q"},{"role":"assistant","content":"a"})";
  QTest::newRow("list of messages") << "[" + pair + "]" << 1 << 0;
  QTest::newRow("openai") << "{\"messages\":[" + pair + "]}" << 1 << 0;
  QTest::newRow("with a byte order mark") << "\xef\xbb\xbf{\"messages\":[" + pair + "]}" << 1 << 0;
  QTest::newRow("list of openai") << "[{\"messages\":[" + pair + "]},{\"messages\":[" + pair + "]}]"
                                  << 2 << 0;
  QTest::newRow("list of lists") << "[[" + pair + "],[" + pair + "]]" << 2 << 0;
  QTest::newRow("jsonl, one line broken")
      << "{\"messages\":[" + pair + "]}\nnot json\n\n{\"messages\":[" + pair + "]}\n"
      << 2 << 1;
  QTest::newRow("parts")
      << QByteArray(
             R"({"messages":[{"role":"developer","content":"s"},{"role":"user","content":[{"type":"text","text":"q"},{"type":"image_url","image_url":{"url":"http://x"}}]},{"role":"assistant","content":"a"},{"role":"tool","content":"r"}]})")
      << 1 << 0;
  QTest::newRow("sharegpt")
      << QByteArray(
             R"([{"id":"1","conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}])")
      << 1 << 0;
  QTest::newRow("one of two unknown") << "[{\"messages\":[" + pair + "]},{\"x\":1}]" << 1 << 1;
}

void TestExport::importReadsOthersFiles() {
  QFETCH(QByteArray, bytes);
  QFETCH(int, conversations);
  QFETCH(int, skipped);
  QTemporaryDir dir;
  auto store = ConversationStore::open(dir.filePath(QStringLiteral("a.sqlite")));
  const auto report = importBytes(**store, bytes, QStringLiteral("file.json"));
  QVERIFY2(report, report ? "" : report.error().message.c_str());
  QCOMPARE(int(report->conversations.size()), conversations);
  QCOMPARE(int(report->skipped.size()), skipped);
  for (const ConversationId id : report->conversations) {
    const auto document = loadForExport(**store, id);
    QCOMPARE(document->path.size(), std::size_t(2));
    QCOMPARE(document->path[0].text, QStringLiteral("q"));
    QCOMPARE(document->path[1].text, QStringLiteral("a"));
    QCOMPARE(document->conversation.title, QStringLiteral("q"));
  }
}

void TestExport::importRefusesWithASentence_data() {
  QTest::addColumn<QByteArray>("bytes");
  QTest::newRow("empty") << QByteArray();
  QTest::newRow("no json") << QByteArray("hello\nworld");
  QTest::newRow("a number") << QByteArray("5");
  QTest::newRow("nothing known") << QByteArray("{\"a\":1}");
  QTest::newRow("empty list") << QByteArray("[]");
  QTest::newRow("deeply nested") << QByteArray("[").repeated(100000);
  QTest::newRow("wrong kinds") << QByteArray(
      R"({"messages":[1,{"role":5},{"role":"user","content":{}}]})");
  QTest::newRow("our format, damaged") << QByteArray(
      R"({"format":"vitrine-conversation","messages":[{"role":"wizard","content":"x"}]})");
}

void TestExport::importRefusesWithASentence() {
  QFETCH(QByteArray, bytes);
  QTemporaryDir dir;
  auto store = ConversationStore::open(dir.filePath(QStringLiteral("a.sqlite")));
  const auto report = importBytes(**store, bytes, QStringLiteral("some file"));
  QVERIFY(!report);
  QVERIFY(report.error().message.find("some file") != std::string::npos);
  QVERIFY((*store)->conversations().empty());
  QVERIFY(!importFile(**store, dir.path()));
  QVERIFY(!importFile(**store, dir.filePath(QStringLiteral("missing"))));
}

void TestExport::pdfIsMadeFromAnyText() {
  auto turns = kAwkward;
  turns.push_back({Role::kAssistant, QStringLiteral("x").repeated(5000)});
  turns.push_back({Role::kUser, QStringLiteral("word ").repeated(5000)});
  const auto bytes = exportBytes(documentOf(turns), ExportFormat::kPdf);
  QVERIFY2(bytes, bytes ? "" : bytes.error().message.c_str());
  QVERIFY(bytes->startsWith("%PDF-"));
  QVERIFY(bytes->contains("%%EOF"));
  // Long text runs over several pages instead of off the paper.
  QVERIFY(bytes->count("/Type /Page\n") > 3);
}

void TestExport::filesAreWrittenWholeOrNotAtAll() {
  QTemporaryDir dir;
  const ExportDocument document = documentOf(kAwkward);
  const QString file = dir.filePath(QStringLiteral("田中　🙂.json"));
  QVERIFY(exportToFile(document, ExportFormat::kJson, file));
  QFile written(file);
  QVERIFY(written.open(QIODevice::ReadOnly));
  QCOMPARE(written.readAll(), *exportBytes(document, ExportFormat::kJson));
  const auto failed =
      exportToFile(document, ExportFormat::kJson, dir.filePath(QStringLiteral("no/such/x.json")));
  QVERIFY(!failed);
  QVERIFY(failed.error().message.find("no/such") != std::string::npos);
  QCOMPARE(QDir(dir.path()).entryList(QDir::Files | QDir::Hidden).size(), 1);  // nothing half done
}

void TestExport::fileNamesAreHarmless() {
  Conversation conversation;
  const auto name = [&](const QString& title) {
    conversation.title = title;
    return suggestedFileName(conversation, ExportFormat::kMarkdown);
  };
  QCOMPARE(name(QStringLiteral("a/b\\c:d*?\"<>|\n")), QStringLiteral("a b c d.md"));
  QCOMPARE(name(QStringLiteral("../../etc")), QStringLiteral("etc.md"));
  QCOMPARE(name({}), QStringLiteral("chat.md"));
  QCOMPARE(name(QStringLiteral("漢字 🙂")), QStringLiteral("漢字 🙂.md"));
  QVERIFY(name(QStringLiteral("漢").repeated(300)).toUtf8().size() < 200);
  for (const ExportFormat format :
       {ExportFormat::kMarkdown, ExportFormat::kJson, ExportFormat::kJsonl, ExportFormat::kShareGpt,
        ExportFormat::kHtml, ExportFormat::kPdf}) {
    QVERIFY(exportFormatFromString(nameOf(format)) == format);
  }
  QVERIFY(!exportFormatFromString(QStringLiteral("docx")));
}

void TestExport::metricsComeBack() {
  const ExportDocument document = documentOf(kAwkward);
  const TurnMetrics metrics = turnMetricsFromJson(document.path[1].metrics);
  QVERIFY(metrics.known());
  QCOMPARE(metrics.report.reusedTokens, 12);
  QCOMPARE(metrics.report.seed, 18446744073709551615ULL);
  QCOMPARE(metrics.report.ttftMs, 120.25);
  QCOMPARE(metrics.contextUsed(), 180);
  QCOMPARE(toJson(metrics), document.path[1].metrics);
  QVERIFY(!turnMetricsFromJson({}).known());
  // A file may hold anything.
  QVERIFY(!turnMetricsFromJson({{QStringLiteral("prompt_tokens"), QStringLiteral("x")},
                                {QStringLiteral("kv"), 5},
                                {QStringLiteral("token_ms"), QJsonObject()}})
               .known());
}

void TestExport::whereTheTimeWentComesBack() {
  TurnMetrics metrics;
  engine::TurnReport& report = metrics.report;
  report.promptTokens = 600;
  report.reusedTokens = 57;
  report.ttft.restore = 4.5F;
  report.ttft.detokenize = 0.25F;
  report.chunks = {{256, 900.5F, 0}, {87, 410.25F, 12}};
  report.reuse = {57, 57, engine::ReuseCause::kChanged, "changed at token 57", "a <b>", "漢字\n"};
  report.restore = {4096, 123456789, 60.5, 3100.25, true};
  report.forecastTtftMs = 1300;
  report.tokenMs = {1311, 9, 30, 9, 12};
  report.tokenCauses = {engine::StallCause::kNone, engine::StallCause::kOthersPrefill,
                        engine::StallCause::kLargerBatch, engine::StallCause::kPutBack,
                        engine::StallCause::kSystem};
  report.tokenRows = {343, 1, 58, 1, 1};
  metrics.beforeRequestMs = 1.5;
  const QJsonObject stored = toJson(metrics);
  QCOMPARE(stored.value(QStringLiteral("token_causes")).toString(), QStringLiteral("-pbrs"));
  QCOMPARE(stored.value(QStringLiteral("token_rows")).toArray().size(), 3);

  const TurnMetrics again = turnMetricsFromJson(stored);
  const engine::TurnReport& r = again.report;
  QCOMPARE(r.ttft.restore, 4.5F);
  QCOMPARE(r.ttft.detokenize, 0.25F);
  QCOMPARE(r.chunks.size(), std::size_t(2));
  QCOMPARE(r.chunks[1].tokens, 87);
  QCOMPARE(r.chunks[1].milliseconds, 410.25F);
  QCOMPARE(r.chunks[1].othersTokens, 12);
  QVERIFY(r.reuse.cause == engine::ReuseCause::kChanged);
  QCOMPARE(r.reuse.cachedText, std::string("a <b>"));
  QCOMPARE(r.reuse.promptText, std::string("漢字\n"));
  QVERIFY(r.restore.restored);
  QCOMPARE(r.restore.tokens, 4096);
  QCOMPARE(r.restore.bytes, std::uint64_t(123456789));
  QCOMPARE(r.restore.recomputeMs, 3100.25);
  QCOMPARE(r.forecastTtftMs, 1300.0);
  QCOMPARE(again.beforeRequestMs, 1.5);
  QVERIFY(r.tokenCauses == report.tokenCauses);
  QVERIFY(r.tokenRows == report.tokenRows);
  QCOMPARE(toJson(again), stored);

  // The receipt in an exported chat carries them as they are.
  ExportDocument document = documentOf(kAwkward);
  document.path[1].metrics = stored;
  const QJsonObject json =
      QJsonDocument::fromJson(*exportBytes(document, ExportFormat::kJson)).object();
  bool found = false;
  for (const QJsonValue message : json.value(QStringLiteral("messages")).toArray()) {
    found |= message.toObject().value(QStringLiteral("metrics")).toObject() == stored;
  }
  QVERIFY(found);

  // What an earlier version stored has none of it.
  const QJsonObject old{{QStringLiteral("prompt_tokens"), 10},
                        {QStringLiteral("reused_tokens"), 4},
                        {QStringLiteral("reuse_reason"), QStringLiteral("edited")}};
  const TurnMetrics before = turnMetricsFromJson(old);
  QVERIFY(before.known());
  QCOMPARE(before.report.forecastTtftMs, -1.0);
  QCOMPARE(before.report.reuse.firstNewPosition, 4);
  QVERIFY(before.report.chunks.empty() && before.report.tokenRows.empty());
  QVERIFY(before.report.reuse.cause == engine::ReuseCause::kNone);
}

QTEST_MAIN(TestExport)
#include "tst_export.moc"

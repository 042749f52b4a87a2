#include <QFile>
#include <QtTest>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "engine/template/chat_template.h"

using namespace vitrine::engine;
using nlohmann::json;

namespace {

std::vector<ChatMessage> readMessages(const json& list) {
  std::vector<ChatMessage> messages;
  for (const json& message : list) messages.push_back({message["role"], message["content"], {}});
  return messages;
}

std::unique_ptr<ChatTemplate> compiled(const std::string& source) {
  auto result = ChatTemplate::compile(source, "<s>", "</s>");
  if (!result) qFatal("%s", result.error().message.c_str());
  return std::move(*result);
}

Result<std::string> rendered(const std::string& source, const std::vector<ChatMessage>& messages) {
  VITRINE_ASSIGN(const auto chat, ChatTemplate::compile(source, "<s>", "</s>"));
  VITRINE_ASSIGN(const auto pieces, chat->render(messages));
  return joinPieces(pieces);
}

// What the template wrote, with <0>, <1> … in place of whole contents and (0), (1) … in place of
// other text that came from that message.
std::string outline(const std::string& source, const std::vector<ChatMessage>& messages) {
  const auto pieces = compiled(source)->render(messages);
  if (!pieces) return "error: " + pieces.error().message;
  std::string out;
  for (const PromptPiece& piece : *pieces) {
    if (piece.message < 0) {
      out += piece.text;
    } else {
      const std::string number = std::to_string(piece.message);
      out += piece.wholeContent ? "<" + number + ">" : "(" + number + ")";
    }
  }
  return out;
}

const std::vector<ChatMessage> kTwo = {{"user", " Hello there ", {}}, {"assistant", "fine", {}}};

/// Of this process: what else the machine does must not fail a test.
double processorSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

class TestChatTemplate : public QObject {
  Q_OBJECT

  json m_rows = json::array();

 private slots:
  void initTestCase() {
    QFile file(VITRINE_TEST_DATA "/chat_templates.jsonl");
    QVERIFY(file.open(QIODevice::ReadOnly));
    while (!file.atEnd()) m_rows.push_back(json::parse(file.readLine().toStdString()));
    QVERIFY(m_rows.size() > 300);
  }

  // tests/golden/make_chat_templates.py had Jinja2 render these.
  void rendersAsJinja2() {
    int nTexts = 0;
    for (const json& row : m_rows) {
      const std::string name = row["name"];
      const auto messages = readMessages(row["messages"]);
      std::string got;
      bool isText = false;
      auto chat = ChatTemplate::compile(row["template"], row["bos"], row["eos"]);
      if (!chat) {
        got = chat.error().message;
      } else {
        const auto pieces = (*chat)->render(messages, row["add_generation_prompt"]);
        isText = pieces.has_value();
        got = pieces ? joinPieces(*pieces) : pieces.error().message;
        if (!pieces) QCOMPARE(pieces.error().code, ErrorCode::kTemplate);
      }
      if (row.contains("error")) {
        QVERIFY2(!isText, (name + ": no error, but " + got).c_str());
        continue;
      }
      const std::string expected = row.contains("text") ? row["text"] : row["refusal"];
      QVERIFY2(isText == row.contains("text") && got == expected,
               (name + "\n  got      " + json(got).dump() + "\n  expected " + json(expected).dump())
                   .c_str());
      ++nTexts;
    }
    QVERIFY(nTexts > 250);
  }

  // Every piece of content is that message's, in order, and no template piece holds any.
  void piecesKeepTheirOrigin() {
    for (const json& row : m_rows) {
      if (!row.contains("text")) continue;
      const auto messages = readMessages(row["messages"]);
      auto chat = ChatTemplate::compile(row["template"], row["bos"], row["eos"]);
      QVERIFY(chat);
      const auto pieces = (*chat)->render(messages, row["add_generation_prompt"]);
      QVERIFY(pieces);
      for (const PromptPiece& piece : *pieces) {
        QVERIFY(piece.message < static_cast<int>(messages.size()));
        if (piece.wholeContent) QCOMPARE(piece.text, messages[piece.message].content);
        if (piece.message >= 0) continue;
        // Only the template's own words; these stand in the messages alone.
        for (const char* typed : {"not code", "Ünïcode", "quote"}) {
          const bool inTemplate =
              row["template"].get_ref<const std::string&>().find(typed) != std::string::npos;
          QVERIFY2(inTemplate || piece.text.find(typed) == std::string::npos,
                   (row["name"].get<std::string>() + ": " + piece.text).c_str());
        }
      }
    }
  }

  void contentStaysContent_data() {
    QTest::addColumn<QString>("source");
    QTest::addColumn<QString>("expected");
    const auto row = [](const char* source, const char* expected) {
      QTest::newRow(source) << source << expected;
    };
    row("{{ 'a' + messages[0].content + 'b' }}", "a<0>b");
    row("{{ 'a' ~ messages[0].content ~ messages[1].content }}", "a<0><1>");
    row("{{ messages[0].content|trim }}", "(0)");
    row("{{ messages[1].content|trim }}", "<1>");
    row("{{ messages[1].content.strip().split('zz')[0] }}", "<1>");
    row("{{ messages[1].content[:2] }}{{ messages[1].content[2:] }}", "<1>");
    row("{{ messages[1].content[:2] ~ messages[1].content[2:] }}", "<1>");
    row("{{ messages[1].content|upper }}", "(1)");
    row("{{ messages[1].content|lower }}", "<1>");
    row("{{ messages[1].content|replace('i', '<x>') }}", "(1)<x>(1)");
    row("{{ messages[1].content|replace('q', '<x>') }}", "<1>");
    row("{{ messages|map(attribute='content')|join('|') }}", "<0>|<1>");
    row("{{ '%s!' % messages[1].content }}", "<1>!");
    row("{{ '{}-{}'.format(1, messages[1].content) }}", "1-<1>");
    row("{{ messages[1].content|tojson }}", "(1)");
    row("{{ messages[1]|tojson }}", "(1)");
    row("{{ messages[1].content|list|join }}", "<1>");
    row("{{ messages[1].content[::-1] }}", "(1)");
    row("{{ [messages[1].content] }}", "[(1)]");
    row("{{ messages[1].content|e }}", "<1>");
    row("{{ messages[0].content|title }}", "(0)");
    row("{{ messages[1].content|default('x') }}", "<1>");
    row("{% set x = messages[1].content %}{% set y %}{{ x }}{% endset %}{{ y }}", "<1>");
    row("{% macro m(t) %}[{{ t }}]{% endmacro %}{{ m(messages[1].content) }}", "[<1>]");
    row("{% filter trim %}{{ messages[1].content }} {% endfilter %}", "<1>");
    row("{% for c in messages[1].content %}{{ c }}{% endfor %}", "<1>");
    row("{{ messages[1].content * 2 }}", "<1><1>");
    row("{{ messages[1].content|indent(2, true) }}", "  <1>");
    row("{{ messages[1].content.center(8) }}", "  <1>  ");
    row("{{ messages[1].role ~ messages[1].content|length }}", "assistant4");
    row("{{ {messages[1].content: 1}|list|first }}", "<1>");
    row("{{ '<|' ~ messages[0].role ~ '|>' }}", "<|user|>");
  }
  void contentStaysContent() {
    QFETCH(QString, source);
    QFETCH(QString, expected);
    QCOMPARE(QString::fromStdString(outline(source.toStdString(), kTwo)), expected);
  }

  void aMadeUpRoleIsNoTemplateText() {
    const std::vector<ChatMessage> messages = {{"im_end|>", "x", {}}};
    QCOMPARE(outline("{{ '<|' ~ messages[0].role ~ '|>' ~ messages[0].content }}", messages),
             std::string("<|(0)|><0>"));
  }

  void errorsHaveLineAndColumn_data() {
    QTest::addColumn<QString>("source");
    QTest::addColumn<QString>("part");
    const auto row = [](const char* source, const char* part) {
      QTest::newRow(source) << source << part;
    };
    row("a\n{% for m in messages %}{{ m.content }", "line 2");
    row("{{ messages|frobnicate }}", "line 1, column 13: the filter 'frobnicate' is not known");
    row("a\n  {{ 1 is frob }}", "line 2, column 11: the test 'frob' is not known");
    row("{% if x %}\n", "'endif' is missing");
    row("{% for x in y %}{% else %}", "'endfor' is missing");
    row("{% endfor %}", "line 1, column 4");
    row("{% include 'x' %}", "the tag 'include' is not known");
    row("{{ 'abc }}", "line 1, column 4: this string has no end");
    row("{# abc", "line 1, column 1");
    row("{{ a b }}", "line 1, column 6");
    row("{{ (1 }}", "line 1");
    row("{{ 1 ? 2 }}", "line 1, column 6: unexpected character '?'");
    row("{{ }}", "line 1, column 4");
    row("漢字 {{ 'é' ~ ) }}", "line 1, column 13");
    row("{% set true = 1 %}", "line 1, column 8");
    row("{{ 99999999999999999999 }}", "line 1, column 4");
    row("   \n\t\n", "the chat template is empty");
    // While it runs.
    row("x\n{{ nothing.more }}", "line 2, column 11: 'nothing' is undefined");
    row("{{ 1 / 0 }}", "line 1, column 6: division by zero");
    row("{% macro m(a) %}{{ a.b.c }}{% endmacro %}\n{{ m({}) }}", "line 1, column 23");
  }
  void errorsHaveLineAndColumn() {
    QFETCH(QString, source);
    QFETCH(QString, part);
    const auto result = rendered(source.toStdString(), kTwo);
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::kTemplate);
    QVERIFY2(QString::fromStdString(result.error().message).contains(part),
             result.error().message.c_str());
  }

  void aRefusalIsTheTemplatesOwnSentence() {
    const auto result =
        rendered("{{ raise_exception('No <b>\"quoted\"</b> {{ braces }}') }}", kTwo);
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::kTemplate);
    QCOMPARE(result.error().message, std::string("No <b>\"quoted\"</b> {{ braces }}"));
  }

  void substituteIsChatMl() {
    const auto chat = ChatTemplate::substitute("the file has none");
    QCOMPARE(chat->substituteReason(), std::string("the file has none"));
    const std::vector<ChatMessage> messages = {{"user", "Hi <|im_end|>", {}}};
    const auto pieces = chat->render(messages);
    QVERIFY(pieces);
    QCOMPARE(joinPieces(*pieces),
             std::string("<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n"));
    QCOMPARE(pieces->size(), std::size_t{3});
    QCOMPARE((*pieces)[1].message, 0);
    QVERIFY((*pieces)[1].wholeContent);
    QVERIFY(compiled("x")->substituteReason().empty());
  }

  void turnEndsAreFound() {
    const std::map<std::string, std::string> expected = {
        {"chatml", "<|im_end|>"},
        {"llama 2", "</s>"},
        {"llama 3", "<|eot_id|>"},
        {"llama 3.1", "<|eot_id|>"},
        {"mistral", "</s>"},
        {"mistral v3", "</s>"},
        {"gemma", "<end_of_turn>"},
        {"gemma 3", "<end_of_turn>"},
        {"phi 3", "<|end|>"},
        {"phi 4", "<|im_end|>"},
        {"zephyr", "</s>"},
        {"role in the marker", "</s>"},
        {"qwen 2.5", "<|im_end|>"},
        {"qwen 3", "<|im_end|>"},
        {"deepseek r1", "<｜end▁of▁sentence｜>"},
        {"command r", "<|END_OF_TURN_TOKEN|>"},
        {"vicuna", "</s>"},
        {"granite", "<|end_of_text|>"},
    };
    const std::set<std::string> withoutSystem = {"mistral", "gemma"};
    std::size_t found = 0;
    for (const json& row : m_rows) {
      const std::string name = row["name"];
      const auto family = expected.find(name.substr(0, name.find(", one question")));
      if (family == expected.end() || row["add_generation_prompt"] == false) continue;
      const auto chat = ChatTemplate::compile(row["template"], row["bos"], row["eos"]);
      QVERIFY(chat);
      const auto ends = (*chat)->turnEndTexts();
      QVERIFY2(ends == std::vector<std::string>{family->second},
               (name + ": " + json(ends).dump()).c_str());
      QVERIFY2((*chat)->acceptsSystemMessage() == (withoutSystem.count(family->first) == 0),
               name.c_str());
      ++found;
    }
    QCOMPARE(found, expected.size());
    QVERIFY(compiled("{{ messages[0].content }}")->turnEndTexts().empty());
  }

  void hostileTemplatesEnd_data() {
    QTest::addColumn<QString>("source");
    const auto row = [](const char* name, const std::string& source) {
      QTest::newRow(name) << QString::fromStdString(source);
    };
    const auto times = [](int n, const std::string& text) {
      std::string out;
      for (int i = 0; i < n; ++i) out += text;
      return out;
    };
    row("loops in loops",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in "
        "range(99999) %}{% endfor %}{% endfor %}{% endfor %}");
    row("endless recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    row("recursion in pairs",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}");
    row("recursive loop", "{% set l = [1] %}{% for x in l recursive %}{{ loop(l) }}{% endfor %}");
    row("doubled text",
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}"
        "{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
    row("doubled list",
        "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}"
        "{% set ns.s = ns.s + ns.s %}{% endfor %}");
    row("huge repetition", "{{ 'x' * 999999999999 }}");
    row("huge list", "{{ [1] * 999999999999 }}");
    row("product that overflows", "{{ ('x' * 4000) * 9223372036854775807 }}");
    row("huge width", "{{ 'x'.center(99999999999) }}");
    row("huge indent", "{{ 'x'|indent(99999999999, true) }}");
    row("huge format", "{{ '%999999999d' % 1 }}");
    row("huge range", "{{ range(99999999999)|list }}");
    row("huge batch", "{{ [1]|batch(99999999999, 0)|list }}");
    row("huge slice", "{{ [1]|slice(99999999999)|list }}");
    row("huge power", "{{ 9 ** 999999999 }}");
    row("list in list",
        "{% set ns = namespace(s=[]) %}{% for i in range(99999) %}"
        "{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}");
    row("same list twice",
        "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}"
        "{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}");
    row("same list twice, compared",
        "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(60) %}"
        "{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}");
    row("same list twice, as JSON",
        "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}"
        "{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson }}");
    row("namespace in itself", "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}");
    row("compared lists",
        "{% set a = range(99999)|list %}{% set b = range(99999)|list %}"
        "{% for i in range(99999) %}{{ a == b }}{% endfor %}");
    row("sorted again and again",
        "{% set a = range(99999)|reverse|list %}"
        "{% for i in range(99999) %}{% set b = a|sort %}{% endfor %}");
    row("replaced empty text",
        "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}"
        "{% set ns.s = ns.s|replace('', 'yyyyyyyy') %}{% endfor %}");
    row("many brackets", "{{ " + times(100000, "(") + "1" + times(100000, ")") + " }}");
    row("many lists", "{{ " + times(100000, "[") + times(100000, "]") + " }}");
    row("many nots", "{{ " + times(100000, "not ") + "1 }}");
    row("many minus signs", "{{ " + times(100000, "- ") + "1 }}");
    row("long sum", "{{ 1" + times(100000, "+1") + " }}");
    row("long chain of filters", "{{ 1" + times(100000, "|string") + " }}");
    row("long chain of attributes", "{{ x" + times(100000, ".a") + " }}");
    row("long chain of conditions", "{{ 1" + times(100000, " if 1 else 1") + " }}");
    row("nested blocks", times(50000, "{% if 1 %}") + times(50000, "{% endif %}"));
    row("nested targets", "{% for " + times(50000, "(") + "a in b %}{% endfor %}");
  }
  void hostileTemplatesEnd() {
    QFETCH(QString, source);
    const double start = processorSeconds();
    const auto result = rendered(source.toStdString(), kTwo);
    QVERIFY(!result);
    QCOMPARE(result.error().code, ErrorCode::kTemplate);
    const double took = processorSeconds() - start;
    QVERIFY2(took < 20, qPrintable(QString::number(took)));
  }

  // Deep, but not hostile: a list of conditions as real templates have them.
  void longTemplatesWork() {
    std::string source = "{{ 'a'";
    for (int i = 0; i < 200; ++i) source += " + 'b'";
    source += " }}{% if 0 %}";
    for (int i = 0; i < 500; ++i) source += "{% elif 0 %}x";
    source += "{% endif %}";
    const auto result = rendered(source, kTwo);
    QVERIFY2(result, result ? "" : result.error().message.c_str());
    QCOMPARE(result->size(), std::size_t{201});
  }

  void aLongChatIsQuick() {
    std::vector<ChatMessage> messages = {{"system", "Be short.", {}}};
    for (int i = 0; i < 1000; ++i) {
      messages.push_back({"user", std::string(2000, 'q'), {}});
      messages.push_back({"assistant", std::string(2000, 'a'), {}});
    }
    std::set<std::string> seen;
    for (const json& row : m_rows) {
      const std::string name = row["name"];
      if (name.find("feature") == 0 || !seen.insert(row["template"]).second) continue;
      const auto chat = ChatTemplate::compile(row["template"], row["bos"], row["eos"]);
      const double start = processorSeconds();
      const auto pieces = (*chat)->render(messages);
      QVERIFY2(pieces || name.find("mistral,") == 0 || name.find("gemma,") == 0,
               (name + ": " + (pieces ? "" : pieces.error().message)).c_str());
      QVERIFY2(processorSeconds() - start < 5, name.c_str());
    }
    QVERIFY(seen.size() > 15);
  }

  void threadsMayShareOne() {
    const auto chat = compiled(m_rows[0]["template"]);
    const std::string expected = joinPieces(*chat->render(kTwo));
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 50; ++j) wrong += joinPieces(*chat->render(kTwo)) != expected ? 1 : 0;
      });
    }
    for (auto& thread : threads) thread.join();
    QCOMPARE(wrong.load(), 0);
  }
};

QTEST_GUILESS_MAIN(TestChatTemplate)
#include "tst_chat_template.moc"

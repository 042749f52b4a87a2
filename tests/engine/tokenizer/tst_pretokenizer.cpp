// The pieces that each family of pre-tokenizers makes, against Hugging Face's tokenizers.
#include <QTest>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/pretokenizer.h"

using namespace vitrine::engine;

class TestPreTokenizer : public QObject {
  Q_OBJECT

 private:
  static std::vector<std::string> pieces(std::string_view family, std::string_view text) {
    const auto made = PreTokenizer::compile(*findPreTokenizerRule(family));
    std::vector<std::string> found;
    (*made)->split(text, [&](std::string_view piece) { found.emplace_back(piece); });
    return found;
  }

 private slots:
  void everyRuleIsKnownByItsNames() {
    QVERIFY(!preTokenizerRules().empty());
    for (const PreTokenizerRule& rule : preTokenizerRules()) {
      QVERIFY(!rule.names.empty());
      for (const std::string_view name : rule.names) QCOMPARE(findPreTokenizerRule(name), &rule);
      QVERIFY(PreTokenizer::compile(rule).has_value());
    }
    QVERIFY(findPreTokenizerRule("no such rule") == nullptr);
    QVERIFY(findPreTokenizerRule("") == nullptr);
  }

  void cutsEqualTheOriginals_data() {
    QTest::addColumn<QString>("family");
    for (const PreTokenizerRule& rule : preTokenizerRules()) {
      const QString family = QString::fromUtf8(rule.family.data(), qsizetype(rule.family.size()));
      QTest::newRow(qPrintable(family)) << family;
    }
  }

  void cutsEqualTheOriginals() {
    QFETCH(QString, family);
    // dbrx has llama-bpe's expressions; the corpus has them once.
    const std::string key = family == "dbrx" ? "llama-bpe" : family.toStdString();
    const auto made = PreTokenizer::compile(*findPreTokenizerRule(family.toStdString()));
    QVERIFY(made.has_value());
    std::ifstream corpus(VITRINE_TEST_DATA "/tokenizer_corpus.jsonl");
    int nTexts = 0;
    for (std::string line; std::getline(corpus, line); ++nTexts) {
      const auto row = nlohmann::json::parse(line);
      QVERIFY2(row["cuts"].contains(key), "the corpus lacks this family; extend its script");
      std::vector<std::size_t> cuts;
      const auto text = row["text"].get<std::string>();
      (*made)->split(text, [&](std::string_view piece) { cuts.push_back(piece.size()); });
      const auto expected = row["cuts"][key].get<std::vector<std::size_t>>();
      QVERIFY2(cuts == expected, fmt::format("{}: got {}, expected {}", row["text"].dump(),
                                             nlohmann::json(cuts).dump(), row["cuts"][key].dump())
                                     .c_str());
    }
    QVERIFY(nTexts > 300);
  }

  void invalidBytesArePiecesOfTheirOwn() {
    for (const PreTokenizerRule& rule : preTokenizerRules()) {
      for (const std::string text :
           {"a\xFF\xFE b", "\xC3", "x\xE2\x82", "\xED\xA0\x80y", "ok\xF0\x9F\x99", "\x80\x80 1"}) {
        std::string joined;
        for (const std::string& piece : pieces(rule.family, text)) joined += piece;
        QVERIFY(joined == text);
      }
    }
    QVERIFY(pieces("gpt-2", "a\xFF\xFE b") == (std::vector<std::string>{"a", "\xFF\xFE", " b"}));
  }

  // Long runs without a boundary: no deep recursion, no time beyond linear.
  void longRunsAreFast_data() {
    QTest::addColumn<QByteArray>("unit");
    for (const char* unit :
         {"A", " ", "\n", "7", ".", "漢", "🙂", "e\u0301", " \n", "'s", "aB"}) {
      QTest::newRow(unit) << QByteArray(unit);
    }
  }

  void longRunsAreFast() {
    QFETCH(QByteArray, unit);
    const std::string run = "x" + unit.repeated(200000).toStdString() + "y";
    for (const PreTokenizerRule& rule : preTokenizerRules()) {
      QElapsedTimer timer;
      timer.start();
      std::size_t bytes = 0;
      for (const std::string& piece : pieces(rule.family, run)) bytes += piece.size();
      QCOMPARE(bytes, run.size());
      QVERIFY2(timer.elapsed() < 5000, std::string(rule.family).c_str());
    }
  }
};

QTEST_GUILESS_MAIN(TestPreTokenizer)
#include "tst_pretokenizer.moc"

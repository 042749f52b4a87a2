#include <QtTest>

#include <string>
#include <vector>

#include "engine/schedule/answer_text.h"

using vitrine::engine::AnswerText;

class TestAnswerText : public QObject {
  Q_OBJECT

 private slots:
  void stopTextsAreFoundAcrossTokens_data() {
    QTest::addColumn<QByteArrayList>("tokens");
    QTest::addColumn<QByteArrayList>("stops");
    QTest::addColumn<QByteArray>("expected");
    QTest::addColumn<bool>("stopped");
    QTest::addColumn<int>("shownTokens");
    const auto row = [](const char* name, QByteArrayList tokens, QByteArrayList stops,
                        QByteArray expected, bool stopped, int shown) {
      QTest::newRow(name) << tokens << stops << expected << stopped << shown;
    };
    row("no stop text", {"a", "b"}, {}, "ab", false, 2);
    row("inside one token", {"one END two"}, {"END"}, "one ", true, 1);
    row("over three tokens", {"one ", "E", "N", "D", " x"}, {"END"}, "one ", true, 1);
    row("begins inside a token", {"oneE", "ND"}, {"END"}, "one", true, 1);
    row("only its beginning comes", {"one ", "E", "N", "x"}, {"END"}, "one ENx", false, 4);
    row("beginning at the very end", {"one ", "EN"}, {"END"}, "one EN", false, 2);
    row("false start, then the real one", {"a", "a", "b"}, {"ab"}, "a", true, 1);
    row("false start inside itself", {"aa", "ba", "a", "c"}, {"aac"}, "aab", true, 2);
    row("the earlier of two", {"x STOP y END"}, {"END", "STOP"}, "x ", true, 1);
    row("line ends", {"a\n", "\nb"}, {"\n\n"}, "a", true, 1);
    row("at once", {"END"}, {"END"}, "", true, 0);
    row("empty ones are ignored", {"a"}, {""}, "a", false, 1);
    row("with characters of several bytes", {"\xE6\xBC", "\xA2\xE5\xAD", "\x97!"}, {"字"}, "漢",
        true, 2);
  }
  void stopTextsAreFoundAcrossTokens() {
    QFETCH(QByteArrayList, tokens);
    QFETCH(QByteArrayList, stops);
    QFETCH(QByteArray, expected);
    QFETCH(bool, stopped);
    QFETCH(int, shownTokens);
    std::vector<std::string> texts;
    for (const QByteArray& stop : stops) texts.push_back(stop.toStdString());
    AnswerText answer(texts);
    std::string streamed;
    for (const QByteArray& token : tokens) {
      if (!answer.stopped()) streamed += answer.append(token.toStdString());
    }
    streamed += answer.finish();
    QCOMPARE(QByteArray::fromStdString(streamed), expected);
    QCOMPARE(QByteArray::fromStdString(answer.text()), expected);
    QCOMPARE(answer.stopped(), stopped);
    QCOMPARE(answer.shownTokens(), shownTokens);
  }

  void holdsBackOnlyWhatMayBecomeAStopText() {
    AnswerText answer({"<end>"});
    QCOMPARE(answer.append("a<"), std::string("a"));
    QCOMPARE(answer.append("b"), std::string("<b"));
    QCOMPARE(answer.append("<e"), std::string());
    QCOMPARE(answer.append("x"), std::string("<ex"));
  }

  void halfACharacterAtTheEndIsOneReplacement() {
    AnswerText answer;
    QCOMPARE(answer.append("a\xF0\x9F"), std::string("a"));
    QCOMPARE(answer.finish(), std::string("\xEF\xBF\xBD"));
    QCOMPARE(answer.text(), std::string("a\xEF\xBF\xBD"));
  }
};

QTEST_APPLESS_MAIN(TestAnswerText)
#include "tst_answer_text.moc"

// Why a prompt was not reused whole, in words and with the place where it differs.
#include <QtTest>

#include "engine/schedule/reuse_history.h"
#include "tests/engine/test_tokenizer.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;

namespace {

using Messages = std::vector<ChatMessage>;

/// A template of one letter a role.
std::string rendered(const Messages& messages, const std::string& date = {}) {
  std::string text = date;
  for (const ChatMessage& message : messages) text += message.role.substr(0, 1) + message.content;
  return text + "A";
}

}  // namespace

class TestReuseHistory : public QObject {
  Q_OBJECT

 private:
  TestTokenizer tokenizer;
  ReuseHistory history;
  std::vector<TokenId> cached;

  static PromptOutline outlineOf(const Messages& messages, std::size_t tokens, int dropped = 0) {
    GenerateRequest request;
    request.prompt = ChatPrompt{messages};
    return PromptOutline::of(request, static_cast<int>(tokens), dropped);
  }

  void answered(const Messages& messages, const std::string& answer) {
    const auto prompt = tokenizer.encode(rendered(messages));
    cached = tokenizer.encode(rendered(messages) + answer);
    history.record("c", cached, outlineOf(messages, prompt.size()));
  }

  ReuseReport why(const Messages& messages, int lost = 0, const std::string& date = {},
                  int dropped = 0) {
    const auto prompt = tokenizer.encode(rendered(messages, date));
    const auto limit = std::min(prompt.size(), cached.size());
    const auto end =
        std::mismatch(prompt.begin(), prompt.begin() + static_cast<long>(limit), cached.begin());
    const int common =
        std::min(static_cast<int>(end.first - prompt.begin()), static_cast<int>(prompt.size()) - 1);
    return history.explain("c", prompt, outlineOf(messages, prompt.size(), dropped),
                           std::max(0, common - lost), tokenizer);
  }

 private slots:
  void init() {
    history = ReuseHistory();
    answered({{"system", "BE KIND", {}}, {"user", "HELLO THERE", {}}}, "HI");
  }

  void whatGoesOnIsReusedWhole() {
    const ReuseReport report = why({{"system", "BE KIND", {}},
                                    {"user", "HELLO THERE", {}},
                                    {"assistant", "HI", {}},
                                    {"user", "MORE", {}}});
    // "A" opens the answer, and so did "A" in the next prompt's "assistant".
    QCOMPARE(report.cause, ReuseCause::kChanged);
    const ReuseReport again = why({{"system", "BE KIND", {}}, {"user", "HELLO THERE", {}}});
    QCOMPARE(again.cause, ReuseCause::kNone);
    QCOMPARE(again.reason, std::string("same prompt again"));
    QVERIFY(again.cachedText.empty() && again.promptText.empty());
  }

  void anEditIsShownFromItsFirstDifference() {
    const ReuseReport report = why({{"system", "BE KIND", {}}, {"user", "HELLO WORLD", {}}});
    QCOMPARE(report.cause, ReuseCause::kChanged);
    QCOMPARE(report.firstNewPosition, 15);
    QCOMPARE(report.reason, std::string("edited at token 15"));
    QCOMPARE(report.cachedText, std::string("THEREAHI"));
    QCOMPARE(report.promptText, std::string("WORLDA"));
  }

  void theDiffIsAtMostTwentyFourTokens() {
    answered({{"user", std::string(80, 'X'), {}}}, "Y");
    const ReuseReport report = why({{"user", "Z" + std::string(80, 'X'), {}}});
    QCOMPARE(report.cachedText, std::string(24, 'X'));
    QCOMPARE(report.promptText, "Z" + std::string(23, 'X'));
  }

  void otherChangesHaveTheirNames() {
    QCOMPARE(why({{"system", "BE BRIEF", {}}, {"user", "HELLO THERE", {}}}).reason,
             std::string("system prompt changed at token 4"));
    QCOMPARE(why({{"user", "HELLO THERE", {}}}).reason,
             std::string("system prompt changed at token 0"));
    QCOMPARE(why({{"system", "BE KIND", {}}, {"user", "HELLO THERE", {}}}, 0, "MONDAY").reason,
             std::string("template renders otherwise at token 0"));
    const ReuseReport answer =
        why({{"system", "BE KIND", {}}, {"user", "HELLO THERE", {}}, {"Assistant", "HO", {}}});
    QCOMPARE(answer.reason, std::string("answer changed at token 22"));
    QCOMPARE(why({{"system", "BE KIND", {}}, {"user", "THERE", {}}}, 0, {}, 2).reason,
             std::string("oldest messages left out at token 9"));
  }

  void whatWasLostIsSaid() {
    const Messages same{{"system", "BE KIND", {}}, {"user", "HELLO THERE", {}}};
    QCOMPARE(why(same, 5).cause, ReuseCause::kEvicted);
    QCOMPARE(why(same, 5).reason, std::string("evicted"));
    history.emptied(ReuseCause::kEvicted, "cache cleared");
    QCOMPARE(why(same, 5).cause, ReuseCause::kEvicted);
    QCOMPARE(why(same, 5).reason, std::string("cache cleared"));
    history.emptied(ReuseCause::kPrecision, "precision changed");
    QCOMPARE(why(same, 5).cause, ReuseCause::kPrecision);
    QCOMPARE(why(same, 5).reason, std::string("precision changed"));
    history.emptied(ReuseCause::kEvicted, "cache cleared");
    QCOMPARE(why(same, 5).reason, std::string("precision changed"));
    answered(same, "HI");
    QCOMPARE(why(same).cause, ReuseCause::kNone);
  }

  void anUnknownConversationIsNew() {
    history.forget("c");
    QCOMPARE(why({{"user", "HELLO", {}}}).cause, ReuseCause::kNew);
  }
};

QTEST_GUILESS_MAIN(TestReuseHistory)
#include "tst_reuse_history.moc"

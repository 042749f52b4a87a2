#include <QTemporaryDir>
#include <QtTest>
#include <filesystem>
#include <set>

#include "engine/model/model.h"
#include "engine/schedule/context_plan.h"
#include "engine/schedule/prompt_builder.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
namespace test = vitrine::test;

namespace {

constexpr int kContext = 512;

// Questions and answers must take turns here, as Gemma's and Mistral's templates want it.
const char* const kStrict =
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ m['content'] + '\\n' }}"
    "{% else %}{% if (m['role'] == 'user') == (loop.previtem is defined and "
    "loop.previtem['role'] == 'user') %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:\\n' }}{% endif %}";

ChatMessage message(const char* role, const std::string& text, bool pinned = false) {
  ChatMessage made{role, text, {}};
  made.pinned = pinned;
  return made;
}

// A system prompt, `turns` turns of about 30 tokens, and a question. `pinned`: indices.
std::vector<ChatMessage> chatOf(int turns, const std::vector<int>& pinned) {
  std::vector<ChatMessage> chat{message("system", "KEEP THIS")};
  for (int turn = 0; turn < turns; ++turn) {
    chat.push_back(message("user", "question " + std::to_string(turn)));
    chat.push_back(message("assistant", "answer " + std::to_string(turn)));
  }
  chat.push_back(message("user", "last"));
  for (const int index : pinned) chat[static_cast<std::size_t>(index)].pinned = true;
  return chat;
}

}  // namespace

/// Which messages leave a prompt that does not fit.
class TestContextPlan : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY(folder.isValid());
    free = load("free.gguf", test::kChatMl);
    strict = load("strict.gguf", kStrict);
  }

  void theTemplateSaysWhetherTurnsAlternate() {
    QVERIFY(free->chatTemplate().acceptsAnyOrder());
    QVERIFY(!strict->chatTemplate().acceptsAnyOrder());
  }

  void nothingLeavesWhatFits() {
    for (const ContextPolicy policy :
         {ContextPolicy::kStop, ContextPolicy::kDropOldest, ContextPolicy::kKeepPinned}) {
      const auto plan = planOf(*free, chatOf(3, {1}), policy);
      QVERIFY(plan.dropped.empty());
      QCOMPARE(int(plan.tokens.size()), plan.wholeTokens);
    }
    // And the policy that stops leaves out nothing ever.
    const auto plan = planOf(*free, chatOf(40, {1}), ContextPolicy::kStop);
    QVERIFY(plan.dropped.empty());
    QVERIFY(plan.wholeTokens > kContext);
  }

  void theOldestTurnsLeaveWithoutLookingAtPins() {
    const auto chat = chatOf(40, {1, 5});
    const auto plan = planOf(*free, chat, ContextPolicy::kDropOldest);
    QVERIFY(plan.dropped.size() > 2);
    for (std::size_t i = 0; i < plan.dropped.size(); ++i) {
      QCOMPARE(plan.dropped[i], int(i) + 1);  // the system prompt stays
    }
    QCOMPARE(plan.dropped.size() % 2, std::size_t{0});  // turns leave whole
    QVERIFY(int(plan.tokens.size()) <= kContext - kContext / 4);
    QCOMPARE(plan.tokens, tokensWithout(*free, chat, plan.dropped));
  }

  void aPinnedMessageStays() {
    const auto chat = chatOf(40, {1, 6});  // a question, and the answer of another turn
    const auto plan = planOf(*free, chat, ContextPolicy::kKeepPinned);
    QVERIFY(!contains(plan.dropped, 1) && !contains(plan.dropped, 6));
    // This template takes any order: the rest of the two turns goes.
    QVERIFY(contains(plan.dropped, 2) && contains(plan.dropped, 5));
    QVERIFY(!contains(plan.dropped, 0) && !contains(plan.dropped, int(chat.size()) - 1));
    QVERIFY(int(plan.tokens.size()) <= kContext - kContext / 4);
    QCOMPARE(plan.tokens, tokensWithout(*free, chat, plan.dropped));
  }

  void itsWholeTurnStaysWhereTurnsMustAlternate() {
    const auto chat = chatOf(40, {1, 6});
    const auto plan = planOf(*strict, chat, ContextPolicy::kKeepPinned);
    for (const int kept : {1, 2, 5, 6}) QVERIFY(!contains(plan.dropped, kept));
    for (const int left : {3, 4, 7, 8}) QVERIFY(contains(plan.dropped, left));
    QVERIFY(int(plan.tokens.size()) <= kContext - kContext / 4);
    QCOMPARE(plan.tokens, tokensWithout(*strict, chat, plan.dropped));
  }

  void withoutPinsBothPoliciesAgree() {
    const auto chat = chatOf(40, {});
    const auto oldest = planOf(*free, chat, ContextPolicy::kDropOldest);
    const auto pinned = planOf(*free, chat, ContextPolicy::kKeepPinned);
    QCOMPARE(oldest.dropped, pinned.dropped);
    QCOMPARE(oldest.tokens, pinned.tokens);
  }

  void whatLeavesStaysTheSameForSomeTurns() {
    auto chat = chatOf(40, {3});
    std::vector<std::vector<int>> dropped;
    for (int turn = 0; turn < 4; ++turn) {
      dropped.push_back(planOf(*free, chat, ContextPolicy::kKeepPinned).dropped);
      chat.push_back(message("assistant", "yes"));
      chat.push_back(message("user", "and?"));
    }
    const auto changes = std::set(dropped.begin(), dropped.end()).size() - 1;
    QVERIFY2(changes <= 1, qPrintable(QString("%1 changes in 4 turns").arg(changes)));
  }

  void planningAheadIsAsIfThePromptWereLonger() {
    const auto chat = chatOf(8, {});
    ContextLimits limits{kContext, 0, 0};
    const auto now = planContext(free->chatTemplate(), free->tokenizer(), chat,
                                 ContextPolicy::kDropOldest, limits);
    QVERIFY(now && now->dropped.empty());
    limits.extraTokens = kContext - kContext / 4 - now->wholeTokens;
    const auto justFits = planContext(free->chatTemplate(), free->tokenizer(), chat,
                                      ContextPolicy::kDropOldest, limits);
    QVERIFY(justFits && justFits->dropped.empty());
    ++limits.extraTokens;
    const auto then = planContext(free->chatTemplate(), free->tokenizer(), chat,
                                  ContextPolicy::kDropOldest, limits);
    QVERIFY(then && !then->dropped.empty());
    QVERIFY(then->wholeTokens - int(then->tokens.size()) >= kContext / 4);  // a step at once
  }

  void pinsThatDoNotFitAreNamed() {
    std::vector<int> all;
    for (int i = 1; i <= 80; ++i) all.push_back(i);
    GenerateRequest request;
    request.prompt = ChatPrompt{chatOf(40, all)};
    request.contextPolicy = ContextPolicy::kKeepPinned;
    const auto built = buildPrompt(free->chatTemplate(), free->tokenizer(), request, kContext);
    QVERIFY(!built);
    QCOMPARE(built.error().code, ErrorCode::kContextFull);
    QVERIFY2(built.error().message.find("unpin") != std::string::npos,
             built.error().message.c_str());
    QVERIFY(built.error().message.find("512") != std::string::npos);
  }

 private:
  static bool contains(const std::vector<int>& list, int value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }

  std::shared_ptr<const Model> load(const char* name, const char* chatTemplate) {
    test::ParrotOptions options;
    options.chatTemplate = chatTemplate;
    const auto path = std::filesystem::path(folder.path().toStdString()) / name;
    const auto model = Model::load(test::parrotModel("fine", options).save(path), {}, {});
    if (!model) qFatal("%s", model.error().message.c_str());
    return *model;
  }

  static ContextPlan planOf(const Model& model, const std::vector<ChatMessage>& chat,
                            ContextPolicy policy) {
    const auto plan = planContext(model.chatTemplate(), model.tokenizer(), chat, policy,
                                  ContextLimits{kContext, 0, 0});
    if (!plan) qFatal("%s", plan.error().message.c_str());
    return *plan;
  }

  static std::vector<TokenId> tokensWithout(const Model& model,
                                            const std::vector<ChatMessage>& chat,
                                            const std::vector<int>& dropped) {
    std::vector<ChatMessage> kept;
    for (std::size_t i = 0; i < chat.size(); ++i) {
      if (!contains(dropped, int(i))) kept.push_back(chat[i]);
    }
    return model.tokenizer().encode(model.chatTemplate().render(kept).value(), kept);
  }

  QTemporaryDir folder;
  std::shared_ptr<const Model> free, strict;
};

QTEST_APPLESS_MAIN(TestContextPlan)
#include "tst_context_plan.moc"

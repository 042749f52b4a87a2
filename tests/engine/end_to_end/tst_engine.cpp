#include <QTemporaryDir>
#include <QtTest>

#include <filesystem>
#include <set>

#include "engine/engine.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/engine_harness.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
using namespace vitrine::engine::test;
using namespace vitrine::test;

namespace {

ChatMessage user(std::string text) {
  return {"user", std::move(text), {}};
}
ChatMessage systemText(std::string text) {
  return {"system", std::move(text), {}};
}
ChatMessage assistant(std::string text) {
  return {"assistant", std::move(text), {}};
}

/// What the model says, computed without the engine: the reference backend, a fresh cache, the
/// whole prompt at once.
std::vector<TokenId> freshAnswer(const std::shared_ptr<const Model>& model,
                                 std::vector<TokenId> tokens, int count) {
  auto backend = makeReferenceBackend(model, {}, {}, {}).value();
  KvShape shape;
  shape.nKvHeads = model->config().nKvHeads;
  shape.nBlocks = (static_cast<int>(tokens.size()) + count) / 16 + 1;
  if (!backend->configureCache(shape)) qFatal("no pool");
  std::vector<BlockId> table;
  for (int i = 0; i < shape.nBlocks; ++i) table.push_back(i);
  std::vector<TokenId> answer;
  for (int i = 0; i < count; ++i) {
    BatchSequence all{tokens, 0, std::span(table).first((tokens.size() + 15) / 16), 1};
    const auto logits = backend->forward(std::span(&all, 1)).value();
    const auto row = logits.row(0);
    answer.push_back(static_cast<TokenId>(std::ranges::max_element(row) - row.begin()));
    tokens.push_back(answer.back());
  }
  return answer;
}

std::vector<TokenId> promptTokens(const Model& model, const std::vector<ChatMessage>& messages) {
  return model.tokenizer().encode(model.chatTemplate().render(messages).value(), messages);
}

}  // namespace

/// The whole engine on small real models: loading, switching, full contexts, texts.
class TestEngine : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    QVERIFY(folder.isValid());
    random = randomModel().save(path("random.gguf"));
    ParrotOptions options;
    options.contextLength = 256;
    parrot = parrotModel("still here and fine", options).save(path("parrot.gguf"));
    config.backend = BackendKind::kReference;
  }

  void tellsWhatABlockHolds() {
    EngineHarness h;
    const auto early = h.wait(h.engine.inspectBlock(0));
    QCOMPARE(early.error->code, ErrorCode::kNotFound);
    QVERIFY(h.load(parrot, config).info);
    const std::string history = "one two three four five six seven eight nine ten eleven twelve";
    GenerateRequest request = greedyChat({user(history)}, 4, "chat");
    request.branch = "main";
    QVERIFY(h.ask(request).report);
    request.branch = "9";
    std::get<ChatPrompt>(request.prompt).messages[0].content += " and more than that";
    QVERIFY(h.ask(request).report);

    const auto snapshot = h.idleSnapshot();
    QCOMPARE(snapshot->owners.size(), std::size_t{2});
    const CacheOwner& first = snapshot->owners[0];
    QVERIFY(first.sharedBlocks > 0);
    QCOMPARE(first.sharedBlocks, snapshot->owners[1].sharedBlocks);
    QCOMPARE(snapshot->contiguousBytes, 2 * 256 / 16 * snapshot->bytesPerBlock);
    const auto tokens = promptTokens(*h.engine.model(), {user(history)});
    const auto heard = h.wait(h.engine.inspectBlock(first.chain[0]));
    QVERIFY2(heard.block, heard.error ? heard.error->message.c_str() : "");
    QCOMPARE(heard.block->firstPosition, 0);
    QCOMPARE(heard.block->tokens, std::vector<TokenId>(tokens.begin(), tokens.begin() + 16));
    QCOMPARE(heard.block->holders.size(), std::size_t{2});
    QCOMPARE(heard.block->holders[1].branch, std::string("9"));

    for (BlockId block = 0; block < static_cast<int>(snapshot->blocks.size()); ++block) {
      if (snapshot->blocks[static_cast<std::size_t>(block)].state != BlockState::kFree) continue;
      const auto free = h.wait(h.engine.inspectBlock(block));
      QCOMPARE(free.error->code, ErrorCode::kNotFound);
      break;
    }
  }

  void loadsAnswersAndReports() {
    EngineHarness h;
    QCOMPARE(h.engine.snapshot()->state, EngineState::kEmpty);
    const auto loaded = h.load(parrot, config);
    QVERIFY2(loaded.info, loaded.error ? loaded.error->message.c_str() : "");
    QVERIFY(!loaded.stages.empty());
    QCOMPARE(loaded.info->contextTokens, 256);
    QCOMPARE(loaded.info->backend.kind, BackendKind::kReference);
    QCOMPARE(loaded.info->running, config);
    const auto heard = h.ask(greedyChat({user("hello")}));
    QVERIFY2(heard.report, heard.error ? heard.error->message.c_str() : "");
    const TurnReport& report = *heard.report;
    QCOMPARE(report.text, std::string("still here and fine"));
    QCOMPARE(heard.streamed, report.text);
    QCOMPARE(report.stopReason, StopReason::kEnd);
    QCOMPARE(report.generatedTokens, static_cast<int>(report.tokenIds.size()) + 1);
    QCOMPARE(report.tokenMs.size(), static_cast<std::size_t>(report.generatedTokens));
    QVERIFY(report.ttftMs > 0 && report.tpotMs > 0 && report.prefillTps > 0);
    QVERIFY(report.ttft.prefill > 0 && report.ttft.prefill <= report.ttftMs);
    const float parts = report.ttft.render + report.ttft.tokenize + report.ttft.match +
                        report.ttft.queue + report.ttft.prefill + report.ttft.sample;
    QVERIFY2(parts <= report.ttftMs * 1.01 && parts > report.ttftMs * 0.5,
             qPrintable(QString("%1 of %2 ms").arg(parts).arg(report.ttftMs)));
    QCOMPARE(report.backend, std::string("reference"));
    // FP16 K and V of 2 layers, 2 heads of 16: the formula and the allocator agree to the byte.
    const auto positions = static_cast<std::uint64_t>(report.promptTokens) + report.tokenIds.size();
    QCOMPARE(report.kv.bytesFormula, positions * 2 * 2 * 2 * 16 * 2);
    QCOMPARE(report.kv.bytesUsed, report.kv.bytesFormula);
    QCOMPARE(report.kv.bytesReserved, static_cast<std::uint64_t>(report.kv.blocksUsed) * 16 * 256);
    const auto snapshot = h.idleSnapshot();
    QCOMPARE(snapshot->state, EngineState::kReady);
    QCOMPARE(snapshot->owners.size(), std::size_t{1});
    QCOMPARE(static_cast<std::uint64_t>(snapshot->owners[0].tokens), positions);
    QCOMPARE(snapshot->generatedTokens, static_cast<std::uint64_t>(report.generatedTokens));
  }

  void withoutAModelATurnFails() {
    EngineHarness h;
    const auto heard = h.ask(greedyChat({user("hello")}));
    QCOMPARE(heard.error->code, ErrorCode::kNotFound);
    QCOMPARE(h.reconfigure(config).error->code, ErrorCode::kNotFound);
  }

  void aFailedLoadKeepsTheOldModel() {
    EngineHarness h;
    QVERIFY(h.load(parrot, config).info);
    writeFile(path("broken.gguf"), "GGUF and then nothing");
    const auto failed = h.load(path("broken.gguf"), config);
    QVERIFY(failed.error && failed.kept);
    QVERIFY(h.load(path("missing.gguf"), config).kept);
    QCOMPARE(h.ask(greedyChat({user("a")})).report->text, std::string("still here and fine"));
    EngineHarness empty;
    QVERIFY(!empty.load(path("broken.gguf"), config).kept);
  }

  void theAnswerDoesNotDependOnWhatWasAskedBefore_data() {
    QTest::addColumn<bool>("enabled");
    QTest::addColumn<bool>("contiguous");
    QTest::addColumn<bool>("int8");
    QTest::newRow("paged") << true << false << false;
    QTest::newRow("contiguous") << true << true << false;
    QTest::newRow("cache off") << false << false << false;
    QTest::newRow("paged, INT8 KV") << true << false << true;
  }
  void theAnswerDoesNotDependOnWhatWasAskedBefore() {
    QFETCH(bool, enabled);
    QFETCH(bool, contiguous);
    QFETCH(bool, int8);
    const std::map<std::string, std::vector<ChatMessage>> questions{
        {"short", {user("tell me about z")}},
        {"long", {user("tell me about z z z z z z z z z z")}},
        {"beginning of long", {user("tell me about z z z")}},
        {"one letter more", {user("tell me about z.")}},
        {"system", {systemText("be brief"), user("tell me about z")}},
        {"two turns", {user("first question"), assistant("qqqqq"), user("second question")}}};
    EngineHarness h;
    EngineConfig wanted = config;
    wanted.cache.enabled = enabled;
    if (contiguous) wanted.cache.layout = KvLayout::kContiguous;
    if (int8) wanted.cache.type = KvType::kInt8;
    QVERIFY(h.load(random, wanted).info);
    const auto model = h.engine.model();
    std::map<std::string, std::vector<TokenId>> first;
    const auto ask = [&](const std::string& name) {
      const auto heard = h.ask(greedyChat(questions.at(name), 12));
      auto& expected = first[name];
      if (expected.empty()) {
        expected = int8 ? heard.report->tokenIds
                        : freshAnswer(model, promptTokens(*model, questions.at(name)), 12);
      }
      QCOMPARE(heard.report->tokenIds, expected);
      QCOMPARE(heard.streamed, heard.report->text);
    };
    for (const char* name :
         {"short", "short", "short", "long", "beginning of long", "short", "one letter more",
          "long", "long", "two turns", "two turns", "system", "short", "system"}) {
      ask(name);
      h.ask(greedyChat(questions.at("long"), 3, "another"));
      ask(name);
    }
    if (int8) {  // and none of the first ones came from a cache that another had filled
      for (const auto& [name, messages] : questions) {
        h.engine.clearCache();
        QCOMPARE(h.ask(greedyChat(messages, 12)).report->tokenIds, first[name]);
      }
    }
  }

  void togetherAsAlone() {
    EngineHarness h;
    EngineConfig wanted = config;
    wanted.prefillChunk = 7;
    QVERIFY(h.load(random, wanted).info);
    std::vector<RequestId> ids;
    for (int i = 0; i < 4; ++i) {
      ids.push_back(h.engine.generate(greedyChat(
          {user(std::string(static_cast<std::size_t>(5 + 9 * i), 'a'))}, 20, std::to_string(i))));
    }
    for (int i = 0; i < 4; ++i) {
      const std::vector<ChatMessage> messages{
          user(std::string(static_cast<std::size_t>(5 + 9 * i), 'a'))};
      const auto model = h.engine.model();
      QCOMPARE(h.wait(ids[static_cast<std::size_t>(i)]).report->tokenIds,
               freshAnswer(model, promptTokens(*model, messages), 20));
    }
  }

  void changesTheModeBetweenTurns() {
    EngineHarness h;
    QVERIFY(h.load(random, config).info);
    const auto model = h.engine.model();
    const std::vector<ChatMessage> messages{user("hello")};
    const RequestId running = h.engine.generate(greedyChat(messages, 60));
    h.waitFor(running, [](const auto& heard) { return !heard.tokens.empty(); });
    EngineConfig int8 = config;
    int8.cache.type = KvType::kInt8;
    const RequestId change = h.engine.reconfigure(int8);
    const auto heard = h.wait(running);
    QCOMPARE(heard.report->stopReason, StopReason::kLength);
    QCOMPARE(heard.report->kvType, std::string("fp16"));
    QCOMPARE(heard.report->tokenIds, freshAnswer(model, promptTokens(*model, messages), 60));
    const auto changed = h.wait(change);
    QVERIFY2(changed.info, changed.error ? changed.error->message.c_str() : "");
    QCOMPARE(changed.info->running.cache.type, KvType::kInt8);
    const auto after = h.ask(greedyChat(messages, 5));
    QCOMPARE(after.report->kvType, std::string("int8"));
    QCOMPARE(after.report->reusedTokens, 0);  // the old cache was of another kind
    QCOMPARE(after.report->reuse.reason, std::string("precision changed"));
    QVERIFY(h.ask(greedyChat(messages, 5)).report->reusedTokens > 0);

    EngineConfig off = int8;
    off.cache.reuse = false;
    QVERIFY(h.reconfigure(off).info);
    QCOMPARE(h.ask(greedyChat(messages, 5)).report->reuse.reason, std::string("reuse off"));
    QVERIFY(h.reconfigure(int8).info);  // what was cached meanwhile is found again
    QVERIFY(h.ask(greedyChat(messages, 5)).report->reusedTokens > 0);

    EngineConfig weights = int8;
    weights.precision.weights = WeightMode::kInt8;
    QVERIFY(h.reconfigure(weights).info);
    const auto quantized = h.ask(greedyChat(messages, 5));
    QCOMPARE(quantized.report->weights, std::string("int8"));
    QCOMPARE(quantized.report->reusedTokens, 0);
  }

  void refusesSettingsWithoutMeaning() {
    EngineHarness h;
    QVERIFY(h.load(random, config).info);
    EngineConfig wrong = config;
    wrong.cache.blockSize = 10;
    QCOMPARE(h.reconfigure(wrong).error->code, ErrorCode::kInvalidArgument);
    wrong = config;
    wrong.cache.budgetBytes = 100;
    const auto small = h.reconfigure(wrong);
    QCOMPARE(small.error->code, ErrorCode::kInvalidArgument);
    QVERIFY(small.kept);
    wrong = config;
    wrong.prefillChunk = 0;
    QVERIFY(h.reconfigure(wrong).error);
    auto request = greedyChat({user("a")}, 3);
    request.sampling.topP = 7;
    QCOMPARE(h.ask(request).error->code, ErrorCode::kInvalidArgument);
    request = greedyChat({}, 3);
    QCOMPARE(h.ask(request).error->code, ErrorCode::kInvalidArgument);
    request.prompt = TokenPrompt{1, 99999};
    QCOMPARE(h.ask(request).error->code, ErrorCode::kInvalidArgument);
    request.prompt = RawPrompt{};
    QCOMPARE(h.ask(request).error->code, ErrorCode::kInvalidArgument);
    QVERIFY(h.ask(greedyChat({user("a")}, 3)).report);
  }

  void aConversationLongerThanTheContext() {
    EngineHarness h;
    QVERIFY(h.load(parrot, config).info);
    const auto model = h.engine.model();
    const auto fill = [&](int total) {
      std::vector<ChatMessage> messages{systemText("KEEP THIS"), user("")};
      const int base = static_cast<int>(promptTokens(*model, messages).size());
      messages[1].content = std::string(static_cast<std::size_t>(total - base), 'x');
      return messages;
    };
    const auto fits = h.ask(greedyChat(fill(236)));
    QCOMPARE(fits.report->text, std::string("still here and fine"));
    QCOMPARE(fits.report->promptTokens, 236);
    const auto cut = h.ask(greedyChat(fill(253)));
    QCOMPARE(cut.report->stopReason, StopReason::kContext);
    QCOMPARE(cut.report->generatedTokens, 3);
    QCOMPARE(h.ask(greedyChat(fill(255))).report->generatedTokens, 1);
    for (const int tokens : {256, 257, 5000}) {
      const auto refused = h.ask(greedyChat(fill(tokens)));
      QCOMPARE(refused.error->code, ErrorCode::kContextFull);
      QVERIFY(refused.error->message.find(std::to_string(tokens)) != std::string::npos);
      QVERIFY(refused.error->message.find("256") != std::string::npos);
    }

    auto request = greedyChat(fill(300));
    request.contextPolicy = ContextPolicy::kDropOldest;
    QCOMPARE(h.ask(request).error->code, ErrorCode::kContextFull);  // there is nothing to drop
    QCOMPARE(h.ask(greedyChat({user("hi")})).report->text, std::string("still here and fine"));
  }

  void theOldestTurnsAreDroppedInSteps() {
    ParrotOptions options;
    options.contextLength = 1024;
    EngineHarness h;
    QVERIFY(
        h.load(parrotModel("still here and fine", options).save(path("wide.gguf")), config).info);
    const auto model = h.engine.model();
    std::vector<ChatMessage> chat{systemText("KEEP THIS")};
    for (int i = 0; i < 30; ++i) {
      chat.push_back(user("turn " + std::to_string(i) + " says hello"));
      chat.push_back(assistant("still here and fine"));
    }
    chat.push_back(user("last"));
    QCOMPARE(h.ask(greedyChat(chat)).error->code, ErrorCode::kContextFull);
    auto request = greedyChat(chat);
    request.contextPolicy = ContextPolicy::kDropOldest;
    std::vector<int> dropped;
    for (int turn = 0; turn < 12; ++turn) {
      request.prompt = ChatPrompt{chat};
      const auto heard = h.ask(request);
      QVERIFY2(heard.report, heard.error ? heard.error->message.c_str() : "");
      QCOMPARE(heard.report->text, std::string("still here and fine"));
      const int count = heard.report->droppedMessages;
      QVERIFY(count > 0 && count % 2 == 0);
      std::vector<ChatMessage> shorter{chat[0]};  // the system message stays
      shorter.insert(shorter.end(), chat.begin() + 1 + count, chat.end());
      const int promptLength = static_cast<int>(promptTokens(*model, shorter).size());
      QCOMPARE(heard.report->promptTokens, promptLength);
      QVERIFY(promptLength <= 1024 - 256);
      // While the same ones are left out, the rest is found in the cache.
      if (!dropped.empty() && count == dropped.back()) {
        QVERIFY(heard.report->prefilledTokens < 60);
      }
      dropped.push_back(count);
      chat.push_back(assistant("still here and fine"));
      chat.push_back(user("and turn " + std::to_string(turn)));
    }
    const auto changes = std::set<int>(dropped.begin(), dropped.end()).size() - 1;
    QVERIFY2(changes >= 1 && changes <= 3, qPrintable(QString("%1 changes").arg(changes)));
  }

  void everyTurnEndStopsAndNoneIsShown() {
    struct Row {
      std::string marker;
      int kind;
    };
    for (const auto& [marker, kind] :
         {Row{"<|im_end|>", 3}, Row{"<|eot_id|>", 3}, Row{"<end_of_turn>", 1}, Row{"<|end|>", 4}}) {
      ParrotOptions options;
      options.endToken = marker;
      options.eosTokenId = 0;  // the file calls the end of a document its end
      options.chatTemplate =
          "{% for m in messages %}{{ m['role'] + ':' + m['content'] + '" + marker +
          "' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant:\n' }}{% endif %}";
      EngineHarness h;
      const auto loaded = h.load(parrotModel("Done.", options).save(path("end.gguf")), config);
      QVERIFY2(loaded.info, loaded.error ? loaded.error->message.c_str() : "");
      const auto heard = h.ask(greedyChat({user("hello")}, 30));
      QCOMPARE(heard.streamed, std::string("Done."));
      QCOMPARE(heard.report->stopReason, StopReason::kEnd);
    }
    // The same characters as ordinary text end nothing.
    EngineHarness h;
    ParrotOptions options;
    options.pieces = {"The text ", "<|im", "_end|>", " is shown"};
    QVERIFY(h.load(parrotModel(options).save(path("text.gguf")), config).info);
    QCOMPARE(h.ask(greedyChat({user("a")}, 30)).report->text,
             std::string("The text <|im_end|> is shown"));
  }

  void charactersComeWhole() {
    const std::string text = "Hi 😀 kanji 漢字 coder 👩‍💻 end";
    EngineHarness h;
    QVERIFY(h.load(parrotModel(text).save(path("utf8.gguf")), config).info);
    const auto all = h.ask(greedyChat({user("a")}));
    QCOMPARE(all.report->text, text);
    for (int length = 1; length < all.report->generatedTokens; ++length) {
      const auto heard = h.ask(greedyChat({user("a")}, length));
      QCOMPARE(heard.streamed, heard.report->text);
      QVERIFY(!QString::fromUtf8(heard.streamed.c_str()).chopped(1).contains(QChar(0xFFFD)));
    }
    auto request = greedyChat({user("a")});
    request.stop = {"字 co"};
    QCOMPARE(h.ask(request).report->text, text.substr(0, text.find("字 co")));
  }

  void aTemplateThatRefusesSaysItsSentence() {
    ParrotOptions options;
    options.chatTemplate = "{{ raise_exception('I \"never\" answer <b>you</b>') }}";
    EngineHarness h;
    QVERIFY(h.load(parrotModel("x", options).save(path("refuses.gguf")), config).info);
    const auto heard = h.ask(greedyChat({user("a")}));
    QCOMPARE(heard.error->code, ErrorCode::kTemplate);
    QVERIFY2(heard.error->message.find("I \"never\" answer <b>you</b>") != std::string::npos,
             heard.error->message.c_str());
  }

  void logProbabilitiesComeWithEveryToken() {
    EngineHarness h;
    QVERIFY(h.load(random, config).info);
    auto request = greedyChat({user("a")}, 5);
    request.nLogprobs = 3;
    const auto heard = h.ask(request);
    QCOMPARE(heard.tokens.size(), std::size_t{5});
    for (const GeneratedToken& token : heard.tokens) {
      QCOMPARE(token.top.size(), std::size_t{3});
      QCOMPARE(token.top[0].id, token.id);
      QVERIFY(token.logprob <= 0 && token.logprob == token.top[0].logprob);
    }
  }

 private:
  std::filesystem::path path(const char* name) const {
    return std::filesystem::path(folder.path().toStdString()) / name;
  }

  QTemporaryDir folder;
  std::filesystem::path random, parrot;
  EngineConfig config;
};

QTEST_APPLESS_MAIN(TestEngine)
#include "tst_engine.moc"

// The command line contract: exit codes, sentences, JSON fields, and the real small model.
#include <QFile>
#include <QTemporaryDir>
#include <QTest>
#include <algorithm>

#include "tests/cli/cli_process.h"
#include "tests/test_model.h"

namespace {

QString model() {
  return QString::fromStdString(vitrine::test::testModelPath().string());
}

QStringList greedy(const QStringList& more) {
  return QStringList{"run", "-m", model(), "--temp", "0", "--json"} + more;
}

}  // namespace

class TestCli : public QObject {
  Q_OBJECT

 private slots:
  void wrongUseExitsWithTwo_data();
  void wrongUseExitsWithTwo();
  void missingModelIsNamed();
  void versionAndHelpSucceed();
  void runHasTheFieldsOfTheContract();
  void kvHeadsChangeTheCacheAndSayWhatTheyCost();
  void sameSeedGivesSameText();
  void stopTextEndsTheAnswerUnseen();
  void forcedBackendRuns();
  void cudaIsRefusedWhereThereIsNoGpu();
  void tenTurnsPrefillOnlyWhatIsNew();
  void editAndRegenerateBranch();
  void verifyProvesTheCacheOfEachTurn();
  void turnsFileFaultsAreNamed_data();
  void turnsFileFaultsAreNamed();
  void tokenizeAndDetokenizeAreInverse();
  void templateIsTheModelsOwn();
  void chatAnswersAndObeysCommands();

 private:
  QTemporaryDir m_folder;
  QString write(const QString& name, const QByteArray& bytes) {
    QFile file(m_folder.filePath(name));
    if (!file.open(QIODevice::WriteOnly)) qFatal("cannot write %s", qPrintable(file.fileName()));
    file.write(bytes);
    return file.fileName();
  }
};

void TestCli::wrongUseExitsWithTwo_data() {
  QTest::addColumn<QStringList>("arguments");
  QTest::addColumn<QByteArray>("named");
  QTest::newRow("nothing") << QStringList{} << QByteArray("subcommand");
  QTest::newRow("unknown subcommand") << QStringList{"sing"} << QByteArray("sing");
  QTest::newRow("unknown option") << QStringList{"run", "--sing"} << QByteArray("--sing");
  QTest::newRow("unknown KV type")
      << QStringList{"run", "--kv", "int7", "-p", "x"} << QByteArray("int7");
  QTest::newRow("KV type by number")
      << QStringList{"run", "--kv", "1", "-p", "x"} << QByteArray("one of fp16, int8, not 1");
  QTest::newRow("outliers") << QStringList{"run", "--outliers", "some", "-p", "x"}
                            << QByteArray("one of none, mixed, smooth, not some");
  QTest::newRow("block size") << QStringList{"run", "--block-size", "17", "-p", "x"}
                              << QByteArray("17");
  QTest::newRow("budget") << QStringList{"run", "--kv-budget", "many", "-p", "x"}
                          << QByteArray("many");
  QTest::newRow("zero tokens") << QStringList{"run", "-n", "0", "-p", "x"} << QByteArray("0");
  QTest::newRow("two prompts") << QStringList{"run", "-p", "x", "-f", "y"} << QByteArray("-");
  QTest::newRow("no prompt") << QStringList{"run"} << QByteArray("-p");
  QTest::newRow("KV heads of none")
      << QStringList{"run", "--kv-heads", "0", "-p", "x"} << QByteArray("--kv-heads");
  QTest::newRow("KV heads of a wrong number")
      << QStringList{"run", "-m", model(), "--kv-heads", "2", "-p", "x"}
      << QByteArray("it may be 1, 3, 9");
  QTest::newRow("more KV heads than query heads")
      << QStringList{"run", "-m", model(), "--kv-heads", "18", "-p", "x"}
      << QByteArray("18 KV heads");
  QTest::newRow("temperature") << QStringList{"run", "-m", model(), "-p", "x", "--temp", "-1"}
                               << QByteArray("temperature");
}

void TestCli::wrongUseExitsWithTwo() {
  QFETCH(QStringList, arguments);
  QFETCH(QByteArray, named);
  const CliResult result = runCli(arguments);
  QCOMPARE(result.exitCode, 2);
  QVERIFY2(result.err.contains(named), result.err);
  QVERIFY(result.out.isEmpty());
}

void TestCli::missingModelIsNamed() {
  const CliResult result = runCli({"run", "-m", "/nowhere/ghost.gguf", "-p", "x"});
  QCOMPARE(result.exitCode, 1);
  QVERIFY2(result.err.contains("/nowhere/ghost.gguf"), result.err);
  QVERIFY(result.out.isEmpty());
}

void TestCli::versionAndHelpSucceed() {
  const CliResult version = runCli({"--version"});
  QCOMPARE(version.exitCode, 0);
  QVERIFY(version.out.contains("CUDA"));
  for (const char* name : {"chat", "run", "bench", "perplexity", "logits", "tokenize", "detokenize",
                           "template", "inspect", "export", "import", "conversations", "serve",
                           "calibrate", "sensitivity", "lab", "devices"}) {
    const CliResult help = runCli({name, "--help"});
    QCOMPARE(help.exitCode, 0);
    QVERIFY2(help.out.contains(QByteArray("vitrine-cli ") + name), help.out);
    const bool plain = std::ranges::all_of(
        help.out, [](char c) { return c == '\n' || static_cast<unsigned char>(c) >= ' '; });
    QVERIFY2(plain && !help.out.contains("ENUM"), help.out);
  }
}

void TestCli::runHasTheFieldsOfTheContract() {
  const CliResult result = runCli(greedy({"-p", "Name three colours.", "-n", "12"}));
  QVERIFY2(result.exitCode == 0, result.err);
  const QJsonObject json = result.json();
  for (const char* field : {"text",          "token_ids",        "prompt_tokens",
                            "reused_tokens", "prefilled_tokens", "generated_tokens",
                            "stop_reason",   "ttft_ms",          "tpot_ms",
                            "prefill_tps",   "decode_tps",       "kv",
                            "backend",       "weights",          "activations",
                            "kv_type",       "kv_heads",         "ttft_parts_ms",
                            "chunks",        "forecast_ttft_ms", "token_ms",
                            "token_rows",    "token_causes",     "reuse",
                            "restore"}) {
    QVERIFY2(json.contains(field), field);
  }
  for (const char* field : {"bytes_used", "bytes_reserved", "bytes_formula", "blocks_used",
                            "blocks_total", "block_size"}) {
    QVERIFY2(json["kv"].toObject().contains(field), field);
  }
  QCOMPARE(json["stop_reason"].toString(), "length");
  QCOMPARE(json["generated_tokens"].toInt(), 12);
  QCOMPARE(json["token_ids"].toArray().size(), 12);
  QCOMPARE(json["reused_tokens"].toInt() + json["prefilled_tokens"].toInt(),
           json["prompt_tokens"].toInt());
  QVERIFY(json["ttft_ms"].toDouble() > 0);
  QVERIFY(json["tpot_ms"].toDouble() > 0);
  double parts = 0;
  for (const QJsonValue part : json["ttft_parts_ms"].toObject()) parts += part.toDouble();
  QVERIFY2(std::abs(parts - json["ttft_ms"].toDouble()) < 0.01 * json["ttft_ms"].toDouble() + 0.01,
           result.out);
  QVERIFY(json["forecast_ttft_ms"].toDouble() > 0);
  QCOMPARE(json["chunks"].toArray().size(), 1);
  QCOMPARE(json["token_ms"].toArray().size(), 12);
  QCOMPARE(json["token_rows"][0].toInt(), json["prompt_tokens"].toInt());
  QCOMPARE(json["token_rows"][11].toInt(), 1);
  QCOMPARE(json["reuse"]["cause"].toString(), "new");
  // SmolLM2: 30 layers, 3 KV heads of 64, FP16. The last token was drawn but not yet fed.
  const int positions = json["prompt_tokens"].toInt() + 11;
  const auto kv = json["kv"].toObject();
  QCOMPARE(kv["bytes_formula"].toInteger(), qint64(positions) * 30 * 3 * 64 * 2 * 2);
  QVERIFY(kv["bytes_reserved"].toInteger() >= kv["bytes_used"].toInteger());
}

void TestCli::kvHeadsChangeTheCacheAndSayWhatTheyCost() {
  const auto run = [&](const QStringList& more) {
    const CliResult result =
        runCli(greedy(QStringList{"-p", "Why is the sky blue?", "-n", "24"} + more));
    if (result.exitCode != 0) qWarning("%s", result.err.constData());
    return result.json();
  };
  const QJsonObject own = run({});
  QCOMPARE(own["kv_heads"].toInt(), 3);
  const qint64 bytes = own["kv"].toObject()["bytes_used"].toInteger();
  QVERIFY(bytes > 0);
  const QJsonObject repeated = run({"--kv-heads", "9"});
  QCOMPARE(repeated["kv_heads"].toInt(), 9);
  QCOMPARE(repeated["token_ids"], own["token_ids"]);
  QCOMPARE(repeated["kv"].toObject()["bytes_used"].toInteger(), 3 * bytes);
  QCOMPARE(repeated["kv"].toObject()["bytes_formula"].toInteger(), 3 * bytes);
  const QJsonObject pooled = run({"--kv-heads", "1"});
  QCOMPARE(pooled["kv_heads"].toInt(), 1);
  // An answer of its own, of its own length; the last token was drawn but not yet fed.
  const int positions = pooled["prompt_tokens"].toInt() + pooled["generated_tokens"].toInt() - 1;
  QCOMPARE(pooled["kv"].toObject()["bytes_used"].toInteger(), qint64(positions) * 30 * 64 * 2 * 2);

  const QString text = write("text.txt", QByteArray("The ferry came in at nine, late as ever, and "
                                                    "the two men on the quay tied it up without "
                                                    "a word before they went home to bed.\n")
                                             .repeated(3));
  const auto distance = [&](const char* heads) {
    const CliResult result = runCli({"perplexity", "-m", model(), "-f", text, "--kv-heads", heads,
                                     "--reference", "--kv-heads 3", "--json"});
    if (result.exitCode != 0) qWarning("%s", result.err.constData());
    return result.json();
  };
  const QJsonObject exact = distance("9");
  QCOMPARE(exact["kl_mean"].toDouble(), 0.0);
  QCOMPARE(exact["top1_agreement"].toDouble(), 1.0);
  const QJsonObject lossy = distance("1");
  QVERIFY2(lossy["kl_mean"].toDouble() > 0.1, qPrintable(lossy["kl_mean"].toVariant().toString()));
  QVERIFY(lossy["top1_agreement"].toDouble() < 1.0);
}

void TestCli::sameSeedGivesSameText() {
  const QStringList arguments = {"run",    "-m", model(), "--json", "-p",    "Tell me a story.",
                                 "--temp", "1",  "-n",    "24",     "--seed"};
  const QString first = runCli(arguments + QStringList{"7"}).json()["text"].toString();
  QVERIFY(!first.isEmpty());
  QCOMPARE(runCli(arguments + QStringList{"7"}).json()["text"].toString(), first);
  QVERIFY(runCli(arguments + QStringList{"8"}).json()["text"].toString() != first);
}

void TestCli::stopTextEndsTheAnswerUnseen() {
  const QString whole =
      runCli(greedy({"-p", "Count from one to ten.", "-n", "40"})).json()["text"].toString();
  QVERIFY(whole.size() > 12);
  const QString stop = whole.mid(8, 3);  // cut somewhere, most likely inside a token
  const QJsonObject json =
      runCli(greedy({"-p", "Count from one to ten.", "-n", "40", "--stop", stop})).json();
  QCOMPARE(json["stop_reason"].toString(), "stop");
  QCOMPARE(json["text"].toString(), whole.left(whole.indexOf(stop)));
}

void TestCli::forcedBackendRuns() {
  const QStringList prompt = {"-p", "Hello", "-n", "3"};
  QCOMPARE(runCli(greedy(prompt + QStringList{"--backend", "reference"})).json()["backend"],
           QJsonValue("reference"));
  QCOMPARE(runCli(greedy(prompt), {}, {"VITRINE_BACKEND=reference"}).json()["backend"],
           QJsonValue("reference"));
  QCOMPARE(runCli(greedy(prompt + QStringList{"--backend", "cpu"})).json()["backend"],
           QJsonValue("cpu"));
}

void TestCli::cudaIsRefusedWhereThereIsNoGpu() {
  const CliResult devices = runCli({"devices", "--json"});
  QCOMPARE(devices.exitCode, 0);
  if (!devices.json()["gpus"].toArray().isEmpty()) QSKIP("there is a GPU");
  const QString problem = devices.json()["problem"].toString();
  QVERIFY(!problem.isEmpty());
  const CliResult result = runCli(greedy({"-p", "Hello", "--backend", "cuda"}));
  QCOMPARE(result.exitCode, 1);
  QVERIFY2(result.err.contains(problem.toUtf8()), result.err);
}

void TestCli::tenTurnsPrefillOnlyWhatIsNew() {
  QByteArray turns;
  for (int i = 1; i <= 10; ++i) {
    turns += QString(R"({"user": "Question %1: what is %1 plus %2?"})"
                     "\n")
                 .arg(i)
                 .arg(i + 3)
                 .toUtf8();
  }
  const CliResult result = runCli(greedy({"--turns", write("ten.jsonl", turns), "-n", "24"}));
  QVERIFY2(result.exitCode == 0, result.err);
  const auto lines = result.jsonLines();
  QCOMPARE(lines.size(), 10);
  for (int i = 1; i < 10; ++i) {
    const QJsonObject& before = lines[i - 1];
    const int known = before["prompt_tokens"].toInt() + int(before["token_ids"].toArray().size());
    const int fresh = lines[i]["prompt_tokens"].toInt() - known;
    QVERIFY(fresh > 0);
    QVERIFY2(lines[i]["prefilled_tokens"].toInt() <= fresh + 16,
             qPrintable(QString("turn %1 prefilled %2 for %3 new tokens")
                            .arg(i + 1)
                            .arg(lines[i]["prefilled_tokens"].toInt())
                            .arg(fresh)));
  }
}

void TestCli::editAndRegenerateBranch() {
  const QByteArray turns =
      "{\"user\": \"My cat is called Tom.\"}\n"
      "{\"user\": \"What is my cat called?\"}\n"
      "{\"regenerate\": true}\n"
      "{\"edit\": 2, \"user\": \"Write one word about rain.\"}\n"
      "{\"edit\": 1, \"user\": \"My dog is called Rex.\"}\n";
  const CliResult result = runCli(greedy({"--turns", write("edit.jsonl", turns), "-n", "16"}));
  QVERIFY2(result.exitCode == 0, result.err);
  const auto lines = result.jsonLines();
  QCOMPARE(lines.size(), 5);
  QCOMPARE(lines[2]["token_ids"], lines[1]["token_ids"]);
  QCOMPARE(lines[2]["prompt_tokens"], lines[1]["prompt_tokens"]);
  // A regenerated answer finds its whole prompt in the cache and computes the last token again.
  QVERIFY(lines[2]["prefilled_tokens"].toInt() <= 16);
  QVERIFY(lines[3]["reused_tokens"].toInt() > 0);
  QVERIFY(lines[4]["prompt_tokens"].toInt() < lines[3]["prompt_tokens"].toInt());
  // Each branch answers as if the other had never been asked.
  const QByteArray alone = "{\"user\": \"My dog is called Rex.\"}\n";
  const auto fresh =
      runCli(greedy({"--turns", write("alone.jsonl", alone), "-n", "16"})).jsonLines();
  QCOMPARE(fresh.size(), 1);
  QCOMPARE(lines[4]["token_ids"], fresh[0]["token_ids"]);
}

void TestCli::verifyProvesTheCacheOfEachTurn() {
  const QByteArray turns =
      "{\"user\": \"My cat is called Tom.\"}\n"
      "{\"user\": \"What is my cat called?\"}\n"
      "{\"edit\": 2, \"user\": \"Write one word about rain.\"}\n";
  const CliResult result = runCli(greedy(
      {"--turns", write("proof.jsonl", turns), "-n", "8", "--verify", "--batching", "static"}));
  QVERIFY2(result.exitCode == 0, result.err);
  const auto lines = result.jsonLines();
  QCOMPARE(lines.size(), 3);
  for (const QJsonObject& line : lines) {
    const QJsonObject proof = line["proof"].toObject();
    // All but the answer's last token, which was drawn and never fed.
    QVERIFY(proof["tokens"].toInt() >=
            line["prompt_tokens"].toInt() + line["generated_tokens"].toInt() - 1);
    QCOMPARE(proof["different_blocks"].toInt(-1), 0);
    QCOMPARE(proof["largest_logit_difference"].toDouble(-1), 0.0);
    QCOMPARE(proof["first_different_token"].toInt(), -1);
    QCOMPARE(proof["continued_tokens"].toInt(), 16);
  }
  QCOMPARE(lines[2]["reuse"]["cause"].toString(), "changed");
  QVERIFY(lines[2]["reuse"]["prompt_text"].toString().contains("rain"));
  QVERIFY(lines[2]["reuse"]["cached_text"].toString().contains("cat"));
  const CliResult off = runCli({"run", "-p", "a", "--batching", "sometimes"});
  QCOMPARE(off.exitCode, 2);
}

void TestCli::turnsFileFaultsAreNamed_data() {
  QTest::addColumn<QByteArray>("text");
  QTest::addColumn<QByteArray>("named");
  QTest::newRow("no JSON") << QByteArray("{\"user\": \"a\"}\nhello\n") << QByteArray("line 2");
  QTest::newRow("other field") << QByteArray("{\"assistant\": \"a\"}\n") << QByteArray("line 1");
  QTest::newRow("nothing") << QByteArray("\n\n") << QByteArray("no turn");
  QTest::newRow("edit of nothing")
      << QByteArray("{\"edit\": 3, \"user\": \"a\"}\n") << QByteArray("user message 3");
  QTest::newRow("regenerate nothing")
      << QByteArray("{\"regenerate\": true}\n") << QByteArray("no answer");
}

void TestCli::turnsFileFaultsAreNamed() {
  QFETCH(QByteArray, text);
  QFETCH(QByteArray, named);
  const CliResult result = runCli(greedy({"--turns", write("bad.jsonl", text)}));
  QCOMPARE(result.exitCode, 2);
  QVERIFY2(result.err.contains(named), result.err);
}

void TestCli::tokenizeAndDetokenizeAreInverse() {
  const QByteArray text = "def f(x):\n\treturn x**2  # 漢字 🎉 <|im_end|>\r\n\n  end";
  const QString file = write("text.txt", text);
  const QJsonObject plain =
      runCli({"tokenize", "-m", model(), "-f", file, "--no-special", "--json"}).json();
  const QJsonArray ids = plain["ids"].toArray();
  QVERIFY(ids.size() > 10);
  QCOMPARE(plain["pieces"].toArray().size(), ids.size());
  QVERIFY(!ids.contains(2));  // <|im_end|> as typed text
  QVERIFY(runCli({"tokenize", "-m", model(), "-f", file, "--json"})
              .json()["ids"]
              .toArray()
              .contains(2));
  QStringList words;
  for (const QJsonValue& id : ids) words << QString::number(id.toInt());
  QCOMPARE(runCli({"detokenize", "-m", model(), words.join(',')}).out, text);
  const CliResult wrong = runCli({"detokenize", "-m", model(), "99999999"});
  QCOMPARE(wrong.exitCode, 2);
  QVERIFY(wrong.err.contains("99999999"));
}

void TestCli::templateIsTheModelsOwn() {
  const QString file =
      write("messages.json", R"([{"role":"system","content":"Be brief."},)"
                             R"({"role":"user","content":[{"type":"text","text":"Hi"}]}])");
  const CliResult result = runCli({"template", "-m", model(), "-f", file});
  QVERIFY2(result.exitCode == 0, result.err);
  QCOMPARE(result.out, QByteArray("<|im_start|>system\nBe brief.<|im_end|>\n"
                                  "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"));
  const CliResult closed =
      runCli({"template", "-m", model(), "-f", file, "--no-generation-prompt", "--json"});
  QVERIFY(closed.json()["text"].toString().endsWith("Hi<|im_end|>\n"));
  QCOMPARE(runCli({"template", "-m", model(), "-f", write("no.json", "{\"a\":1}")}).exitCode, 2);
}

void TestCli::chatAnswersAndObeysCommands() {
  const CliResult result = runCli(
      {"chat", "-m", model(), "--temp", "0", "-n", "12"},
      "/stats\nHello\n/stats\n/cache\n/regenerate\n/edit Bye\n/nonsense\n/help\n/quit\nnever\n");
  QVERIFY2(result.exitCode == 0, result.err);
  QVERIFY(result.out.contains("No turn yet."));
  QVERIFY(result.out.contains("prefilled"));
  QVERIFY(result.out.contains("blocks of 16 tokens"));
  QVERIFY(result.out.contains("/nonsense is no command"));
  QVERIFY(result.out.contains("/regenerate"));
  QVERIFY(!result.out.contains("never"));
}

QTEST_GUILESS_MAIN(TestCli)
#include "tst_cli.moc"

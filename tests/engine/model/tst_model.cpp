// Loading: what a model must be, what is refused, what ends an answer, and the real model.
#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>
#include <cmath>
#include <limits>

#include "engine/backend/backend.h"
#include "engine/model/architecture.h"
#include "engine/model/inspect.h"
#include "engine/model/model.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/test_model.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
using namespace vitrine::test;
namespace fs = std::filesystem;

namespace {

/// A chat template with markers of a family's own.
std::string templateWith(const std::string& open, const std::string& close,
                         const std::string& end) {
  return "{% for m in messages %}{{ '" + open + "' + m['role'] + '" + close +
         "' + m['content'] + '" + end +
         "' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '" + open + "assistant" + close +
         "' }}{% endif %}";
}

}  // namespace

class TestModel : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir m_folder;

  fs::path path(const char* name) const { return m_folder.filePath(name).toStdString(); }
  Result<std::shared_ptr<const Model>> load(const GgufWriter& writer) const {
    return Model::load(writer.save(path("m.gguf")));
  }
  std::string errorOf(const GgufWriter& writer) const {
    const auto model = load(writer);
    return model ? "" : model.error().message;
  }

 private slots:
  // Every row of the table loads a model made for it: a row that was forgotten somewhere fails
  // here.
  void everyArchitectureLoads() {
    QVERIFY(!architectures().empty());
    for (const Architecture& architecture : architectures()) {
      QCOMPARE(findArchitecture(architecture.name), &architecture);
      TinyModelOptions options;
      options.architecture = architecture.name;
      options.attentionBias = architecture.attentionBias == Presence::kAlways;
      options.headNorm = architecture.headNorm == Presence::kAlways;
      const auto model = load(randomModel(options));
      QVERIFY2(model.has_value(), model ? "" : model.error().message.c_str());
      const ModelConfig& config = (*model)->config();
      QCOMPARE(config.architecture, std::string(architecture.name));
      QVERIFY(config.rope.style == architecture.ropeStyle);
      QVERIFY(config.activation == architecture.activation);
      for (const LayerWeights& layer : (*model)->weights().layers) {
        QCOMPARE(bool(layer.bq), options.attentionBias);
        QCOMPARE(bool(layer.qNorm), options.headNorm);
      }
      QVERIFY((*model)->warnings().empty());
    }
    QVERIFY(findArchitecture("no-such-architecture") == nullptr);
  }

  // Some llamas have biases; they are used where they are.
  void biasesAreOptionalForLlama() {
    TinyModelOptions options;
    options.attentionBias = true;
    const auto model = load(randomModel(options));
    QVERIFY2(model.has_value(), model ? "" : model.error().message.c_str());
    QCOMPARE((*model)->weights().layers[1].bk.cols, std::int64_t{32});
    QVERIFY((*model)->warnings().empty());
  }

  void shapesAndViewsAreRight() {
    TinyModelOptions options;
    options.name = "name <b>with</b> markup";
    options.weightType = vitrine::kernels::TensorType::kQ8_0;
    const auto model = load(randomModel(options));
    QVERIFY2(model.has_value(), model ? "" : model.error().message.c_str());
    const ModelConfig& config = (*model)->config();
    QCOMPARE(config.name, options.name);
    QCOMPARE(config.nLayers, 2);
    QCOMPARE(config.headDim, 16);
    QCOMPARE(config.groupSize(), 2);
    QCOMPARE(config.kvDim(), 32);
    QCOMPARE(config.vocabSize, 263);
    QCOMPARE(config.contextLength, 512);
    QCOMPARE(config.rope.dims, 16);
    const Weights& weights = (*model)->weights();
    QCOMPARE(weights.layers.size(), std::size_t{2});
    QCOMPARE(weights.layers[1].wDown.rows, std::int64_t{64});
    QCOMPARE(weights.layers[1].wDown.cols, std::int64_t{96});
    QVERIFY(weights.layers[0].wq.type == vitrine::kernels::TensorType::kQ8_0);
    QVERIFY(weights.layers[0].attentionNorm.type == vitrine::kernels::TensorType::kF32);
    QVERIFY(!weights.tiedOutput);
    QCOMPARE((*model)->quantizationName(), std::string("Q8_0"));
    QVERIFY((*model)->parameterCount() > 2 * 263 * 64);
    QCOMPARE((*model)->fileBytes(), std::uint64_t(fs::file_size(path("m.gguf"))));

    options.tiedOutput = true;
    const auto tied = load(randomModel(options));
    QVERIFY((*tied)->weights().tiedOutput);
    QVERIFY((*tied)->weights().output.data == (*tied)->weights().tokenEmbedding.data);
  }

  void fingerprintsTellModelsApart() {
    TinyModelOptions options;
    const auto one = load(randomModel(options));
    const auto same = Model::load(randomModel(options).save(path("copy.gguf")));
    options.seed = 2;
    const auto other = load(randomModel(options));
    QCOMPARE((*one)->fingerprint(), (*same)->fingerprint());
    QVERIFY((*one)->fingerprint() != (*other)->fingerprint());
    QCOMPARE((*one)->fingerprint().size(), std::size_t{32});
  }

  void nonsenseNumbersAreRefused_data() {
    QTest::addColumn<QString>("key");
    QTest::addColumn<double>("value");
    QTest::addColumn<QString>("message");
    const auto row = [](const char* key, double value, const char* message) {
      QTest::addRow("%s %g", key, value) << key << value << message;
    };
    row("llama.block_count", 0, "block_count is 0");
    row("llama.block_count", 3, "tensor blk.2.attn_norm.weight is missing");
    row("llama.block_count", 4e9, "block_count is 4000000000");
    row("llama.embedding_length", 0, "embedding_length is 0");
    row("llama.embedding_length", 33, "which 4 heads do not divide");
    row("llama.embedding_length", 128, "token_embd.weight has the shape [64, 263");
    row("llama.feed_forward_length", 0, "feed_forward_length is 0");
    row("llama.feed_forward_length", 95, "ffn_gate.weight has the shape");
    row("llama.attention.head_count", 0, "head_count is 0");
    row("llama.attention.head_count", 3, "which 2 KV heads do not divide");
    row("llama.attention.head_count", 64, "must be even");
    row("llama.attention.head_count_kv", 0, "head_count_kv is 0");
    row("llama.attention.head_count_kv", 4, "attn_k.weight has the shape");
    row("llama.rope.dimension_count", 0, "dimension_count is 0");
    row("llama.rope.dimension_count", 15, "must be even");
    row("llama.rope.dimension_count", 18, "at most the 16 elements of a head");
    row("llama.rope.dimension_count", 4096, "at most the 16 elements of a head");
    row("llama.expert_count", 8, "experts (8 here)");
    row("llama.context_length", 4e9, "context_length is 4000000000");
    row("llama.attention.key_length", 32, "attn_q.weight has the shape");
    row("llama.attention.value_length", 8, "16 elements for keys and 8 for values");
    row("eps", 0, "must lie between 0 and 1");
    row("eps", -1e-5, "must lie between 0 and 1");
    row("eps", std::numeric_limits<double>::quiet_NaN(), "is nan");
    row("eps", std::numeric_limits<double>::infinity(), "is inf");
    row("base", 0, "freq_base is 0");
    row("base", std::numeric_limits<double>::quiet_NaN(), "is nan");
    row("scale", -4, "scaling.factor is -4");
  }

  void nonsenseNumbersAreRefused() {
    QFETCH(QString, key);
    QFETCH(double, value);
    QFETCH(QString, message);
    GgufWriter writer = randomModel();
    const auto asFloat = static_cast<float>(value);
    if (key == "eps") {
      writer.setF32("llama.attention.layer_norm_rms_epsilon", asFloat);
    } else if (key == "base") {
      writer.setF32("llama.rope.freq_base", asFloat);
    } else if (key == "scale") {
      writer.setF32("llama.rope.scaling.factor", asFloat);
    } else {
      writer.setU32(key.toStdString(), static_cast<std::uint32_t>(value));
    }
    const std::string error = errorOf(writer);
    QVERIFY2(QString::fromStdString(error).contains(message), error.c_str());
    QVERIFY(error.find("m.gguf") != std::string::npos);
  }

  void otherThingsThatCannotRunAreRefused() {
    const auto expect = [&](const GgufWriter& writer, const char* part, ErrorCode code) {
      const auto model = load(writer);
      QVERIFY(!model.has_value());
      QVERIFY2(model.error().message.find(part) != std::string::npos,
               model.error().message.c_str());
      QVERIFY(model.error().code == code);
    };
    GgufWriter writer = randomModel();
    writer.setText("general.architecture", "made\x01up");
    expect(writer, "architecture made up is not supported yet (supported: llama",
           ErrorCode::kUnsupported);
    writer.remove("general.architecture");
    expect(writer, "general.architecture is missing", ErrorCode::kInvalidFile);

    writer = randomModel();
    writer.removeTensor("blk.1.ffn_up.weight");
    expect(writer, "tensor blk.1.ffn_up.weight is missing", ErrorCode::kInvalidFile);

    writer = randomModel();
    writer.setRawTensor("blk.0.attn_q.weight", {256, 16}, 12, std::string(16 * 144, '\0'));
    expect(writer, "Q4_K (1 tensor)", ErrorCode::kUnsupported);

    writer = randomModel();
    writer.setTexts("tokenizer.ggml.tokens", TinyVocabulary().tokens);
    TinyVocabulary larger;
    larger.addSpecial("<more>");
    writer.setTexts("tokenizer.ggml.tokens", larger.tokens);
    writer.setI32s("tokenizer.ggml.token_type", larger.kinds);
    expect(writer, "vocabulary has 264 tokens, but token_embd.weight has 263 rows",
           ErrorCode::kInvalidFile);

    writer = randomModel();
    writer.setTensor("rope_freqs.weight", 0, 8, {1, 1, 1, -1, 1, 1, 1, 1});
    expect(writer, "value 3 of tensor rope_freqs.weight is -1", ErrorCode::kInvalidFile);
    writer.setTensor("rope_freqs.weight", 0, 4, {1, 1, 1, 1});
    expect(writer, "must hold 8", ErrorCode::kInvalidFile);

    writer = randomModel();
    writer.setI32s("llama.attention.head_count_kv", {2, 1});
    expect(writer, "differs between layers (2 and 1)", ErrorCode::kUnsupported);
    writer.setI32s("llama.attention.head_count_kv", {2, 2});
    QVERIFY(load(writer).has_value());
  }

  void odditiesAreAcceptedWithAWarning() {
    GgufWriter writer = randomModel();
    writer.setU32("llama.context_length", 0);
    auto model = load(writer);
    QVERIFY(model.has_value());
    QCOMPARE((*model)->config().contextLength, 2048);
    QCOMPARE((*model)->warnings().size(), std::size_t{1});

    writer = randomModel();
    writer.setTensor("blk.0.something.weight", 0, 4, {1, 2, 3, 4});
    model = load(writer);
    QVERIFY((*model)->warnings().at(0).find("blk.0.something.weight") != std::string::npos);

    writer = randomModel();
    writer.setText("llama.rope.scaling.type", "yarn");
    writer.setU32("llama.rope.scaling.original_context_length", 100);
    model = load(writer);
    QCOMPARE((*model)->config().contextLength, 100);
    QCOMPARE((*model)->warnings().size(), std::size_t{1});
  }

  void ropeScalingAndSamplingDefaultsAreRead() {
    GgufWriter writer = randomModel();
    writer.setText("llama.rope.scaling.type", "linear");
    writer.setF32("llama.rope.scaling.factor", 4.0F);
    writer.setTensor("rope_freqs.weight", 0, 8, {1, 1, 1, 1, 2, 4, 8, 8});
    writer.setF32("general.sampling.temp", 0.6F);
    writer.setI32("general.sampling.top_k", 20);
    writer.setF32("general.sampling.top_p", 7.0F);  // out of range: ignored
    const auto model = load(writer);
    QVERIFY2(model.has_value(), model ? "" : model.error().message.c_str());
    QCOMPARE((*model)->config().rope.linearScale, 4.0F);
    QCOMPARE((*model)->config().rope.freqFactors, (std::vector<float>{1, 1, 1, 1, 2, 4, 8, 8}));
    QCOMPARE((*model)->generationDefaults().temperature.value(), 0.6F);
    QCOMPARE((*model)->generationDefaults().topK.value(), 20);
    QVERIFY(!(*model)->generationDefaults().topP);
    QVERIFY((*model)->warnings().empty());
  }

  void everyTurnEndIsFound_data() {
    QTest::addColumn<QString>("end");
    QTest::addColumn<QString>("chatTemplate");
    QTest::addColumn<int>("kind");
    const auto row = [](const char* name, const std::string& end, const std::string& source,
                        int kind = 3) {
      QTest::newRow(name) << QString::fromStdString(end) << QString::fromStdString(source) << kind;
    };
    row("im_end", "<|im_end|>", kChatMl);
    row("im_end as ordinary", "<|im_end|>", kChatMl, 1);
    row("eot_id", "<|eot_id|>",
        templateWith("<|start_header_id|>", "<|end_header_id|>\\n", "<|eot_id|>"));
    row("end_of_turn", "<end_of_turn>", templateWith("<start_of_turn>", "\\n", "<end_of_turn>"));
    row("end_of_turn user-defined", "<end_of_turn>",
        templateWith("<start_of_turn>", "\\n", "<end_of_turn>"), 4);
    row("phi", "<|end|>", templateWith("<|", "|>\\n", "<|end|>"));
    row("made up", "<[turn/over]>", templateWith("<[", "]>\\n", "<[turn/over]>"));
    row("instruct", "</s>", templateWith("[", "]", "</s>"), 1);
  }

  // The file's eos names the end of a document; a turn ends with the template's own marker.
  void everyTurnEndIsFound() {
    QFETCH(QString, end);
    QFETCH(QString, chatTemplate);
    QFETCH(int, kind);
    ParrotOptions options;
    options.pieces = {"Do", "ne."};
    options.dModel = 32;
    options.endToken = end.toStdString();
    options.chatTemplate = chatTemplate.toStdString();
    options.eosTokenId = 0;
    GgufWriter writer = parrotModel(options);
    TinyVocabulary vocabulary;
    for (const std::string& piece : options.pieces) vocabulary.add(piece);
    const int id = vocabulary.addSpecial(options.endToken);
    vocabulary.kinds[static_cast<std::size_t>(id)] = kind;
    writer.setI32s("tokenizer.ggml.token_type", vocabulary.kinds);
    const auto model = load(writer);
    QVERIFY2(model.has_value(), model ? "" : model.error().message.c_str());
    const auto& ends = (*model)->endTokens();
    QVERIFY(std::is_sorted(ends.begin(), ends.end()));
    QVERIFY(ends == (std::vector<TokenId>{0, id}));
    // Not shown, and not made by typing it.
    const Tokenizer& tokenizer = (*model)->tokenizer();
    QVERIFY(tokenizer.bytes(id).empty());
    QVERIFY(tokenizer.encode(options.endToken).size() > 1);
    QVERIFY(tokenizer.encodeWithControlTokens(options.endToken) == std::vector<TokenId>{id});
  }

  void markersThatTheTemplateDoesNotWriteEndNothing() {
    ParrotOptions options;
    options.pieces = {"Do", "ne."};
    options.chatTemplate = templateWith("[", "]", "\\n");
    options.eosTokenId = 0;
    const auto model = load(parrotModel(options));  // the vocabulary has <|im_end|>
    QVERIFY((*model)->endTokens() == std::vector<TokenId>{0});
  }

  void aMissingOrBrokenTemplateIsReplaced() {
    TinyModelOptions options;
    for (const char* source : {"", " \n", "{% for m in messages %}", "{{ 1 +* }}"}) {
      options.chatTemplate = source;
      const auto model = load(randomModel(options));
      QVERIFY2(model.has_value(), model ? "" : model.error().message.c_str());
      QVERIFY(!(*model)->chatTemplate().substituteReason().empty());
      QCOMPARE((*model)->warnings().size(), std::size_t{1});
      QVERIFY((*model)->endTokens() == std::vector<TokenId>{2});
    }
  }

  void loadingReportsProgressAndCanBeStopped() {
    const fs::path file = randomModel().save(path("p.gguf"));
    std::vector<double> fractions;
    const auto model = Model::load(file, [&](const std::string& stage, double fraction) {
      QVERIFY(!stage.empty());
      fractions.push_back(fraction);
    });
    QVERIFY(model.has_value());
    QVERIFY(std::is_sorted(fractions.begin(), fractions.end()));
    QCOMPARE(fractions.back(), 1.0);
    std::stop_source stop;
    const auto stopped = Model::load(
        file,
        [&](const std::string&, double fraction) {
          if (fraction > 0.5) stop.request_stop();
        },
        stop.get_token());
    QVERIFY(!stopped.has_value());
    QVERIFY(stopped.error().code == ErrorCode::kCancelled);
  }

  void aModelWhoseFileShrinksSaysSo() {
    const fs::path file = randomModel().save(path("shrinks.gguf"));
    const auto model = Model::load(file);
    QVERIFY(!(*model)->fileLost());
    fs::resize_file(file, 4096);
    const TensorView& last = (*model)->weights().layers.back().wDown;
    unsigned sum = 0;
    for (std::size_t i = 0; i < last.bytes(); ++i) sum += static_cast<unsigned>(last.data[i]);
    QCOMPARE(sum, 0U);
    QVERIFY((*model)->fileLost());
    QVERIFY((*model)->checkFile().error().message.find("shrinks.gguf") != std::string::npos);
  }

  // The file shrinks between two steps: an error, not a signal, and no made-up answer.
  void aRunningBackendNoticesThatTheFileShrank() {
    for (const BackendKind kind : {BackendKind::kReference, BackendKind::kCpu}) {
      TinyModelOptions options;
      options.dModel = 128;  // the embedding alone is many pages
      const fs::path file = randomModel(options).save(path("running.gguf"));
      const std::shared_ptr<const Model> model = Model::load(file).value();
      const auto backend = makeBackend(kind, model, {});
      QVERIFY2(backend.has_value(), backend ? "" : backend.error().message.c_str());
      KvShape shape;
      shape.nBlocks = 4;
      shape.nKvHeads = model->config().nKvHeads;
      QVERIFY((*backend)->configureCache(shape).has_value());
      const std::vector<BlockId> blocks{0, 1};
      const std::vector<TokenId> tokens{200, 201, 202};
      BatchSequence sequence;
      sequence.tokens = tokens;
      sequence.blockTable = blocks;
      QVERIFY((*backend)->forward({&sequence, 1}).has_value());
      fs::resize_file(file, 4096);
      const auto after = (*backend)->forward({&sequence, 1});
      QVERIFY(!after.has_value());
      QVERIFY(after.error().code == ErrorCode::kIo);
      QVERIFY2(after.error().message.find("running.gguf") != std::string::npos,
               after.error().message.c_str());
    }
  }

  void inspectionWorksOnWhatCannotRun() {
    GgufWriter writer = randomModel();
    auto found = inspectModel(writer.save(path("i.gguf")));
    QVERIFY(found->supported && found->problem.empty());
    QCOMPARE(found->nLayers, 2);
    QCOMPARE(found->headDim, 16);
    QCOMPARE(found->contextLength, std::int64_t{512});
    QCOMPARE(found->tensorTypes.at("F32"), 21);
    // 2 layers × 2 KV heads × 16 elements × K and V × 2 bytes; INT8 has a 4-byte scale a head.
    QCOMPARE(found->kvBytesPerToken(KvType::kFp16), std::uint64_t{2 * 2 * 16 * 2 * 2});
    QCOMPARE(found->kvBytesPerToken(KvType::kInt8), std::uint64_t{2 * 2 * (16 + 4) * 2});
    QCOMPARE(found->contextThatFits(found->fileBytes + 256 * 100, KvType::kFp16),
             std::int64_t{100});
    QCOMPARE(found->contextThatFits(1ULL << 40, KvType::kFp16), std::int64_t{512});
    QCOMPARE(found->contextThatFits(1000, KvType::kFp16), std::int64_t{0});

    writer.setText("general.architecture", "gemma9");
    writer.setU32("gemma9.block_count", 26);
    writer.setU32("gemma9.attention.head_count", 4);
    writer.setU32("gemma9.attention.key_length", 256);
    writer.setRawTensor("blk.0.attn_q.weight", {256, 16}, 12, std::string(16 * 144, '\0'));
    found = inspectModel(writer.save(path("i.gguf")));
    QVERIFY(found.has_value() && !found->supported);
    QVERIFY(found->problem.find("gemma9") != std::string::npos);
    QCOMPARE(found->nLayers, 26);
    QCOMPARE(found->nKvHeads, 4);
    QCOMPARE(found->headDim, 256);
    QCOMPARE(found->tensorTypes.at("Q4_K"), 1);

    writer.setText("general.name", "caf\xE9");  // no UTF-8: reports must not break on it
    QCOMPARE(inspectModel(writer.save(path("i.gguf")))->name, std::string("caf\uFFFD"));

    GgufWriter empty;
    found = inspectModel(empty.save(path("i.gguf")));
    QVERIFY(found.has_value() && !found->supported);
    QCOMPARE(found->kvBytesPerToken(KvType::kFp16), std::uint64_t{0});
    QVERIFY(!inspectModel(path("missing.gguf")).has_value());
  }

  void theRealModelLoadsFast() {
    QVERIFY2(haveTestModel(), missingModelMessage().c_str());
    qint64 best = 1000000;
    for (int i = 0; i < 3; ++i) {
      QElapsedTimer timer;
      timer.start();
      const auto model = Model::load(testModelPath());
      best = std::min(best, timer.elapsed());
      QVERIFY2(model.has_value(), model ? "" : model.error().message.c_str());
      const Model& m = **model;
      for (const std::string& warning : m.warnings()) qWarning("%s", warning.c_str());
      QVERIFY(m.warnings().empty());
      QCOMPARE(m.config().nLayers, 30);
      QCOMPARE(m.config().dModel, 576);
      QCOMPARE(m.config().nHeads, 9);
      QCOMPARE(m.config().nKvHeads, 3);
      QCOMPARE(m.config().contextLength, 8192);
      QCOMPARE(m.parameterCount(), std::uint64_t{134515008});
      QVERIFY(m.weights().tiedOutput);
      QCOMPARE(m.quantizationName(), std::string("Q4_1"));
      QVERIFY(m.endTokens() == std::vector<TokenId>{2});
      QVERIFY(m.chatTemplate().substituteReason().empty());
    }
    qInfo("loaded in %lld ms", static_cast<long long>(best));
  }
};

QTEST_GUILESS_MAIN(TestModel)
#include "tst_model.moc"

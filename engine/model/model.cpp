#include "engine/model/model.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>

#include "engine/base/display_text.h"
#include "engine/model/architecture.h"
#include "engine/model/fingerprint.h"
#include "engine/model/gguf_file.h"
#include "engine/model/tensor_types.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {

struct Model::Impl {
  std::shared_ptr<const GgufFile> file;
  std::filesystem::path path;
  ModelConfig config;
  Weights weights;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chatTemplate;
  GenerationDefaults defaults;
  std::vector<TokenId> endTokens;
  std::uint64_t parameterCount = 0;
  std::string quantizationName;
  std::string fingerprint;
  std::vector<std::string> warnings;
};

namespace {

/// Metadata that only recommends: what is out of range is ignored, not refused.
template <typename T>
Result<void> readDefault(const GgufFile& file, std::string_view key, double low, double high,
                         std::optional<T>& value) {
  VITRINE_ASSIGN(const auto number, file.number(key));
  if (number && std::isfinite(*number) && *number >= low && *number <= high) {
    value = static_cast<T>(*number);
  }
  return {};
}

Result<GenerationDefaults> readGenerationDefaults(const GgufFile& file) {
  GenerationDefaults defaults;
  VITRINE_TRY(readDefault(file, "general.sampling.temp", 0, 10, defaults.temperature));
  VITRINE_TRY(readDefault(file, "general.sampling.top_k", 0, 1e6, defaults.topK));
  VITRINE_TRY(readDefault(file, "general.sampling.top_p", 0, 1, defaults.topP));
  VITRINE_TRY(readDefault(file, "general.sampling.min_p", 0, 1, defaults.minP));
  VITRINE_TRY(
      readDefault(file, "general.sampling.penalty_repeat", 0.01, 10, defaults.repeatPenalty));
  return defaults;
}

std::unique_ptr<ChatTemplate> readTemplate(const GgufFile& file, const Tokenizer& tokenizer,
                                           std::vector<std::string>& warnings) {
  const auto substitute = [&](std::string reason) {
    warnings.push_back(fmt::format("{} The ChatML template is used instead.", reason));
    return ChatTemplate::substitute(std::move(reason));
  };
  const auto source = file.text("tokenizer.chat_template");
  if (!source) return substitute("The file's chat template is not a text.");
  if (!*source || (*source)->find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return substitute("The file has no chat template.");
  }
  const auto text = [&](std::optional<TokenId> id) {
    return id ? std::string(tokenizer.piece(*id)) : std::string();
  };
  auto compiled =
      ChatTemplate::compile(std::string(**source), text(tokenizer.bos()), text(tokenizer.eos()));
  if (compiled) return std::move(*compiled);
  return substitute(fmt::format("The file's chat template cannot be used ({}).",
                                displayText(compiled.error().message, 300)));
}

/// "<|im_end|>", "[/INST]", "</s>": spelled to be told apart from text.
bool looksLikeMarker(std::string_view piece) {
  return piece.size() >= 3 && ((piece.front() == '<' && piece.back() == '>') ||
                               (piece.front() == '[' && piece.back() == ']'));
}

/// The token that a text at the end of a turn stands for, whatever its kind in the file.
std::optional<TokenId> turnEndToken(const Tokenizer& tokenizer, std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
  if (const auto id = tokenizer.find(text);
      id && (tokenizer.isControl(*id) || looksLikeMarker(text))) {
    return id;
  }
  const std::vector<TokenId> ids = tokenizer.encodeWithControlTokens(text);
  if (!ids.empty() && tokenizer.isControl(ids.front())) return ids.front();
  return std::nullopt;
}

Result<std::vector<TokenId>> findEndTokens(const GgufFile& file, const Tokenizer& tokenizer,
                                           const ChatTemplate& chatTemplate) {
  std::vector<TokenId> ids;
  const auto add = [&](std::optional<TokenId> id) {
    if (id) ids.push_back(*id);
  };
  add(tokenizer.eos());
  add(tokenizer.eot());
  VITRINE_ASSIGN(const auto eom, file.integer("tokenizer.ggml.eom_token_id"));
  if (eom && *eom < static_cast<std::uint64_t>(tokenizer.vocabSize())) {
    add(static_cast<TokenId>(*eom));
  }
  for (const std::string& text : chatTemplate.turnEndTexts()) add(turnEndToken(tokenizer, text));
  // Markers of families whose templates may not show their turn end by rendering alone.
  for (const std::string_view marker : {"<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>"}) {
    if (chatTemplate.source().find(marker) != std::string::npos) add(tokenizer.find(marker));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// Tells the caller what is done, and whether to go on.
class Steps {
 public:
  Steps(const Progress& progress, const std::stop_token& stop)
      : m_progress(progress), m_stop(stop) {}
  Result<void> next(const char* stage, double fraction) const {
    if (m_stop.stop_requested()) return fail(ErrorCode::kCancelled, "loading was stopped");
    if (m_progress) m_progress(stage, fraction);
    return {};
  }

 private:
  const Progress& m_progress;
  const std::stop_token& m_stop;
};

}  // namespace

Model::Model() : m_impl(std::make_unique<Impl>()) {}
Model::~Model() = default;

Result<std::shared_ptr<const Model>> Model::load(const std::filesystem::path& path,
                                                 const Progress& progress, std::stop_token stop) {
  const Steps steps(progress, stop);
  try {
    const std::shared_ptr<Model> model(new Model);
    Impl& impl = *model->m_impl;
    impl.path = path;
    VITRINE_TRY(steps.next("Checking the file", 0.0));
    VITRINE_ASSIGN(impl.file, GgufFile::open(path));
    const GgufFile& file = *impl.file;
    VITRINE_ASSIGN(const Architecture* architecture, architectureOf(file));
    VITRINE_ASSIGN(impl.config, readConfig(file, *architecture, impl.warnings));
    VITRINE_ASSIGN(impl.weights, readWeights(file, *architecture, impl.config, impl.warnings));
    VITRINE_TRY(steps.next("Reading the vocabulary", 0.2));
    VITRINE_ASSIGN(impl.tokenizer, Tokenizer::fromGguf(file, impl.warnings));
    VITRINE_TRY(checkVocabulary(file, impl.config, impl.tokenizer->vocabSize()));
    VITRINE_TRY(steps.next("Compiling the chat template", 0.8));
    impl.chatTemplate = readTemplate(file, *impl.tokenizer, impl.warnings);
    VITRINE_ASSIGN(impl.endTokens, findEndTokens(file, *impl.tokenizer, *impl.chatTemplate));
    for (const TokenId id : impl.endTokens) {
      if (looksLikeMarker(impl.tokenizer->piece(id))) impl.tokenizer->markControl(id);
    }
    VITRINE_ASSIGN(impl.defaults, readGenerationDefaults(file));
    for (const GgufTensor& tensor : file.tensors()) impl.parameterCount += tensor.elements();
    impl.quantizationName = commonestMatrixType(file);
    VITRINE_TRY(steps.next("Identifying the model", 0.9));
    impl.fingerprint = fingerprintOf(file);
    VITRINE_TRY(model->checkFile());
    VITRINE_TRY(steps.next("Loaded", 1.0));
    return model;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "not enough memory to load {}", displayPath(path));
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, "cannot load {}: {}", displayPath(path), exception.what());
  }
}

const std::filesystem::path& Model::path() const {
  return m_impl->path;
}
const ModelConfig& Model::config() const {
  return m_impl->config;
}
const Weights& Model::weights() const {
  return m_impl->weights;
}
const Tokenizer& Model::tokenizer() const {
  return *m_impl->tokenizer;
}
const ChatTemplate& Model::chatTemplate() const {
  return *m_impl->chatTemplate;
}
const GenerationDefaults& Model::generationDefaults() const {
  return m_impl->defaults;
}
const std::vector<TokenId>& Model::endTokens() const {
  return m_impl->endTokens;
}
std::uint64_t Model::parameterCount() const {
  return m_impl->parameterCount;
}
std::uint64_t Model::fileBytes() const {
  return m_impl->file->fileBytes();
}
const std::string& Model::quantizationName() const {
  return m_impl->quantizationName;
}
const std::string& Model::fingerprint() const {
  return m_impl->fingerprint;
}
const std::vector<std::string>& Model::warnings() const {
  return m_impl->warnings;
}
bool Model::fileLost() const {
  return m_impl->file->lost();
}

Result<void> Model::checkFile() const {
  if (!fileLost()) return {};
  return fail(ErrorCode::kIo,
              "{} became shorter or unreadable while it was in use; load the model again",
              displayPath(m_impl->path));
}

}  // namespace vitrine::engine

#include "engine/model/architecture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/base/display_text.h"
#include "engine/model/gguf_file.h"
#include "engine/model/tensor_types.h"

namespace vitrine::engine {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "llama",
     .ropeStyle = RopeStyle::kInterleaved,
     .activation = Activation::kSilu,
     .attentionBias = Presence::kMaybe},
};

// Above anything that exists, and far below what would overflow an int when multiplied.
constexpr int kMaxLayers = 4096;
constexpr int kMaxHeads = 4096;
constexpr int kMaxHeadDim = 4096;
constexpr int kMaxWidth = 1 << 20;
constexpr int kMaxContext = 1 << 30;
constexpr int kDefaultContext = 2048;

/// Reads an architecture's keys and says what is wrong with them.
class ConfigReader {
 public:
  ConfigReader(const GgufFile& file, std::string_view prefix) : m_file(file), m_prefix(prefix) {}

  std::string key(std::string_view name) const { return fmt::format("{}.{}", m_prefix, name); }

  template <typename... Args>
  tl::unexpected<Error> wrong(std::string_view name, fmt::format_string<Args...> format,
                              Args&&... args) const {
    return fail(ErrorCode::kInvalidFile, "{}: {} {}", displayPath(m_file.path()), key(name),
                fmt::format(format, std::forward<Args>(args)...));
  }

  /// nullopt: no such key. An array of equal numbers, one a layer, counts as that number.
  Result<std::optional<int>> find(std::string_view name, int low, int high) const {
    const std::string full = key(name);
    std::uint64_t number = 0;
    const GgufValue* entry = m_file.find(full);
    if (entry != nullptr && entry->type == GgufType::kArray) {
      const auto& array = std::get<GgufArray>(entry->value);
      if (!array.holdsIntegers() || array.count == 0)
        return wrong(name, "is not a list of integers");
      for (std::uint64_t i = 1; i < array.count; ++i) {
        if (array.integer(i) == array.integer(0)) continue;
        return fail(ErrorCode::kUnsupported,
                    "{}: {} differs between layers ({} and {}), which is not "
                    "supported",
                    displayPath(m_file.path()), full, array.integer(0), array.integer(i));
      }
      number = array.integer(0) < 0 ? std::numeric_limits<std::uint64_t>::max()
                                    : static_cast<std::uint64_t>(array.integer(0));
    } else {
      VITRINE_ASSIGN(const auto value, m_file.integer(full));
      if (!value) return std::nullopt;
      number = *value;
    }
    if (number < static_cast<std::uint64_t>(low) || number > static_cast<std::uint64_t>(high)) {
      return wrong(name, "is {}, but must lie between {} and {}", number, low, high);
    }
    return static_cast<int>(number);
  }

  Result<int> require(std::string_view name, int low, int high) const {
    VITRINE_ASSIGN(const auto value, find(name, low, high));
    if (!value) return wrong(name, "is missing");
    return *value;
  }

  Result<std::optional<double>> number(std::string_view name) const {
    VITRINE_ASSIGN(const auto value, m_file.number(key(name)));
    if (value && !std::isfinite(*value)) return wrong(name, "is {}, which is not a number", *value);
    return value;
  }

 private:
  const GgufFile& m_file;
  std::string_view m_prefix;
};

Result<void> readShapes(const GgufFile& file, const ConfigReader& reader, ModelConfig& config) {
  VITRINE_ASSIGN(config.nLayers, reader.require("block_count", 1, kMaxLayers));
  VITRINE_ASSIGN(config.dModel, reader.require("embedding_length", 1, kMaxWidth));
  VITRINE_ASSIGN(config.dFfn, reader.require("feed_forward_length", 1, kMaxWidth));
  VITRINE_ASSIGN(config.nHeads, reader.require("attention.head_count", 1, kMaxHeads));
  VITRINE_ASSIGN(const auto nKvHeads, reader.find("attention.head_count_kv", 1, kMaxHeads));
  config.nKvHeads = nKvHeads.value_or(config.nHeads);
  if (config.nHeads % config.nKvHeads != 0) {
    return reader.wrong("attention.head_count", "is {}, which {} KV heads do not divide",
                        config.nHeads, config.nKvHeads);
  }
  VITRINE_ASSIGN(const auto keyLength, reader.find("attention.key_length", 1, kMaxHeadDim));
  VITRINE_ASSIGN(const auto valueLength, reader.find("attention.value_length", 1, kMaxHeadDim));
  if (!keyLength && config.dModel % config.nHeads != 0) {
    return reader.wrong("embedding_length", "is {}, which {} heads do not divide", config.dModel,
                        config.nHeads);
  }
  config.headDim = keyLength.value_or(config.dModel / config.nHeads);
  if (config.headDim % 2 != 0 || config.headDim > kMaxHeadDim) {
    return reader.wrong("embedding_length",
                        "and attention.head_count give heads of {} elements, "
                        "which must be even and at most {}",
                        config.headDim, kMaxHeadDim);
  }
  if (valueLength && *valueLength != config.headDim) {
    return fail(ErrorCode::kUnsupported,
                "{}: heads with {} elements for keys and {} for values are not supported",
                displayPath(file.path()), config.headDim, *valueLength);
  }
  return {};
}

Result<void> readRope(const GgufFile& file, const ConfigReader& reader, ModelConfig& config,
                      std::vector<std::string>& warnings) {
  RopeConfig& rope = config.rope;
  VITRINE_ASSIGN(const auto dims, reader.find("rope.dimension_count", 2, kMaxHeadDim));
  rope.dims = dims.value_or(config.headDim);
  if (rope.dims > config.headDim || rope.dims % 2 != 0) {
    return reader.wrong("rope.dimension_count",
                        "is {}, but must be even and at most the {} elements "
                        "of a head",
                        rope.dims, config.headDim);
  }
  VITRINE_ASSIGN(const auto base, reader.number("rope.freq_base"));
  if (base && (*base < 1.0 || *base > 1e12)) {
    return reader.wrong("rope.freq_base", "is {}, but must lie between 1 and 1e12", *base);
  }
  rope.base = static_cast<float>(base.value_or(10000.0));

  VITRINE_ASSIGN(const auto type, file.text(reader.key("rope.scaling.type")));
  VITRINE_ASSIGN(auto factor, reader.number("rope.scaling.factor"));
  if (!factor) {
    VITRINE_ASSIGN(factor, reader.number("rope.scale_linear"));  // its name in older files
  }
  const std::string_view scaling = type.value_or(factor ? "linear" : "none");
  if (scaling == "linear" && factor && *factor != 0.0) {  // 0 means "not set"
    if (*factor < 1e-3 || *factor > 1e6) {
      return reader.wrong("rope.scaling.factor", "is {}, but must lie between 0.001 and 1e6",
                          *factor);
    }
    rope.linearScale = static_cast<float>(*factor);
  } else if (scaling != "none" && scaling != "linear") {
    VITRINE_ASSIGN(const auto original,
                   reader.find("rope.scaling.original_context_length", 1, kMaxContext));
    if (original) config.contextLength = std::min(config.contextLength, *original);
    warnings.push_back(
        fmt::format("The model stretches its context by {} scaling, which is not "
                    "supported yet; {} tokens of context can be used.",
                    displayText(scaling), config.contextLength));
  }

  if (const GgufTensor* factors = file.findTensor("rope_freqs.weight")) {
    const auto n = static_cast<std::uint64_t>(rope.dims / 2);
    if (factors->type.runnable != kernels::TensorType::kF32 || factors->elements() != n) {
      return fail(ErrorCode::kInvalidFile,
                  "{}: tensor rope_freqs.weight holds {} values of type {}, "
                  "but must hold {} of type F32",
                  displayPath(file.path()), factors->elements(), factors->type.name, n);
    }
    const GgufArray values{GgufType::kFloat32, n, factors->data, {}};
    for (std::uint64_t i = 0; i < n; ++i) {
      const auto value = static_cast<float>(values.number(i));
      if (!std::isfinite(value) || value <= 0.0F) {
        return fail(ErrorCode::kInvalidFile, "{}: value {} of tensor rope_freqs.weight is {}",
                    displayPath(file.path()), i, value);
      }
      rope.freqFactors.push_back(value);
    }
  }
  return {};
}

/// Finds tensors by name and checks their shapes; remembers which were asked for.
class WeightReader {
 public:
  explicit WeightReader(const GgufFile& file) : m_file(file) {}

  Result<TensorView> matrix(const std::string& name, int rows, int cols) {
    return find(name, rows, cols, Presence::kAlways);
  }
  Result<TensorView> vector(const std::string& name, int cols,
                            Presence presence = Presence::kAlways) {
    return find(name, 1, cols, presence);
  }
  bool has(const std::string& name) const { return m_file.findTensor(name) != nullptr; }
  const std::set<std::string>& asked() const { return m_asked; }

 private:
  Result<TensorView> find(const std::string& name, int rows, int cols, Presence presence) {
    if (presence == Presence::kNever) return TensorView{};
    const GgufTensor* tensor = m_file.findTensor(name);
    if (tensor == nullptr) {
      if (presence == Presence::kMaybe) return TensorView{};
      return fail(ErrorCode::kInvalidFile, "{}: tensor {} is missing", displayPath(m_file.path()),
                  name);
    }
    m_asked.insert(name);
    const auto& dims = tensor->dims;
    if (dims[0] != static_cast<std::uint64_t>(cols) ||
        dims[1] != static_cast<std::uint64_t>(rows) || dims[2] != 1 || dims[3] != 1) {
      return fail(
          ErrorCode::kInvalidFile,
          "{}: tensor {} has the shape [{}, {}, {}, {}], but the model's numbers need [{}, {}]",
          displayPath(m_file.path()), name, dims[0], dims[1], dims[2], dims[3], cols, rows);
    }
    if (!tensor->type.runnable) {
      return fail(ErrorCode::kUnsupported,
                  "{}: tensor {} has the type {}, which is not supported yet",
                  displayPath(m_file.path()), name, tensor->type.name);
    }
    return TensorView{*tensor->type.runnable, rows, cols, tensor->data};
  }

  const GgufFile& m_file;
  std::set<std::string> m_asked;
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture* findArchitecture(std::string_view name) {
  const auto* row = std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                                 [&](const Architecture& each) { return each.name == name; });
  return row == std::end(kArchitectures) ? nullptr : row;
}

Result<const Architecture*> architectureOf(const GgufFile& file) {
  VITRINE_ASSIGN(const auto name, file.text("general.architecture"));
  if (!name) {
    return fail(ErrorCode::kInvalidFile,
                "{}: general.architecture is missing; it is not a language "
                "model, or damaged",
                displayPath(file.path()));
  }
  if (const Architecture* row = findArchitecture(*name)) return row;
  std::string known;
  for (const Architecture& row : kArchitectures) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  return fail(ErrorCode::kUnsupported,
              "{}: the architecture {} is not supported yet (supported: {})",
              displayPath(file.path()), displayText(*name), known);
}

Result<ModelConfig> readConfig(const GgufFile& file, const Architecture& architecture,
                               std::vector<std::string>& warnings) {
  const ConfigReader reader(file, architecture.name);
  ModelConfig config;
  config.architecture = architecture.name;
  config.activation = architecture.activation;
  config.rope.style = architecture.ropeStyle;
  VITRINE_ASSIGN(const auto name, file.text("general.name"));
  if (name) config.name = validUtf8(*name);

  VITRINE_ASSIGN(const auto experts, file.integer(reader.key("expert_count")));
  if (experts.value_or(0) > 0) {
    return fail(ErrorCode::kUnsupported, "{}: models with experts ({} here) are not supported yet",
                displayPath(file.path()), *experts);
  }
  VITRINE_TRY(readShapes(file, reader, config));

  VITRINE_ASSIGN(const auto context, reader.find("context_length", 0, kMaxContext));
  config.contextLength = context.value_or(0);
  if (config.contextLength == 0) {
    config.contextLength = kDefaultContext;
    warnings.push_back(
        fmt::format("The file does not say for how many tokens of context the model "
                    "was trained; {} are assumed.",
                    kDefaultContext));
  }
  VITRINE_TRY(readRope(file, reader, config, warnings));

  constexpr std::string_view kEps = "attention.layer_norm_rms_epsilon";
  VITRINE_ASSIGN(const auto eps, reader.number(kEps));
  if (!eps) return reader.wrong(kEps, "is missing");
  if (*eps <= 0.0 || *eps >= 1.0)
    return reader.wrong(kEps, "is {}, but must lie between 0 and 1", *eps);
  config.normEps = static_cast<float>(*eps);

  const GgufTensor* embedding = file.findTensor("token_embd.weight");
  if (embedding == nullptr) {
    return fail(ErrorCode::kInvalidFile, "{}: tensor token_embd.weight is missing",
                displayPath(file.path()));
  }
  if (embedding->dims[1] > static_cast<std::uint64_t>(1 << 26)) {
    return fail(ErrorCode::kInvalidFile, "{}: token_embd.weight has {} rows",
                displayPath(file.path()), embedding->dims[1]);
  }
  config.vocabSize = static_cast<int>(embedding->dims[1]);
  return config;
}

Result<Weights> readWeights(const GgufFile& file, const Architecture& architecture,
                            const ModelConfig& config, std::vector<std::string>& warnings) {
  if (const std::string problem = unsupportedTypes(file); !problem.empty()) {
    return fail(ErrorCode::kUnsupported, "{}: {}", displayPath(file.path()), problem);
  }
  const int d = config.dModel, q = config.qDim(), kv = config.kvDim();
  WeightReader reader(file);
  Weights weights;
  VITRINE_ASSIGN(weights.tokenEmbedding, reader.matrix("token_embd.weight", config.vocabSize, d));
  VITRINE_ASSIGN(weights.outputNorm, reader.vector("output_norm.weight", d));
  weights.tiedOutput = !reader.has("output.weight");
  weights.output = weights.tokenEmbedding;
  if (!weights.tiedOutput) {
    VITRINE_ASSIGN(weights.output, reader.matrix("output.weight", config.vocabSize, d));
  }
  for (int i = 0; i < config.nLayers; ++i) {
    const auto name = [i](std::string_view tensor) { return fmt::format("blk.{}.{}", i, tensor); };
    LayerWeights layer;
    VITRINE_ASSIGN(layer.attentionNorm, reader.vector(name("attn_norm.weight"), d));
    VITRINE_ASSIGN(layer.wq, reader.matrix(name("attn_q.weight"), q, d));
    VITRINE_ASSIGN(layer.wk, reader.matrix(name("attn_k.weight"), kv, d));
    VITRINE_ASSIGN(layer.wv, reader.matrix(name("attn_v.weight"), kv, d));
    VITRINE_ASSIGN(layer.wo, reader.matrix(name("attn_output.weight"), d, q));
    const Presence bias = architecture.attentionBias;
    VITRINE_ASSIGN(layer.bq, reader.vector(name("attn_q.bias"), q, bias));
    VITRINE_ASSIGN(layer.bk, reader.vector(name("attn_k.bias"), kv, bias));
    VITRINE_ASSIGN(layer.bv, reader.vector(name("attn_v.bias"), kv, bias));
    const Presence headNorm = architecture.headNorm;
    VITRINE_ASSIGN(layer.qNorm,
                   reader.vector(name("attn_q_norm.weight"), config.headDim, headNorm));
    VITRINE_ASSIGN(layer.kNorm,
                   reader.vector(name("attn_k_norm.weight"), config.headDim, headNorm));
    VITRINE_ASSIGN(layer.ffnNorm, reader.vector(name("ffn_norm.weight"), d));
    VITRINE_ASSIGN(layer.wGate, reader.matrix(name("ffn_gate.weight"), config.dFfn, d));
    VITRINE_ASSIGN(layer.wUp, reader.matrix(name("ffn_up.weight"), config.dFfn, d));
    VITRINE_ASSIGN(layer.wDown, reader.matrix(name("ffn_down.weight"), d, config.dFfn));
    weights.layers.push_back(layer);
  }

  // A tensor that is there but not used changes what the model should say; the user must know.
  std::size_t nUnused = 0;
  std::string_view example;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == "rope_freqs.weight" || tensor.name.ends_with("rot_embd") ||
        reader.asked().contains(std::string(tensor.name))) {
      continue;
    }
    if (nUnused++ == 0) example = tensor.name;
  }
  if (nUnused > 0) {
    warnings.push_back(
        fmt::format("{} tensor{} of the file {} not used ({}{}); answers may be wrong.", nUnused,
                    nUnused == 1 ? "" : "s", nUnused == 1 ? "is" : "are", displayText(example),
                    nUnused == 1 ? "" : ", …"));
  }
  return weights;
}

Result<void> checkVocabulary(const GgufFile& file, const ModelConfig& config, int nTokens) {
  if (nTokens == config.vocabSize) return {};
  return fail(ErrorCode::kInvalidFile,
              "{}: the vocabulary has {} tokens, but token_embd.weight has {} rows",
              displayPath(file.path()), nTokens, config.vocabSize);
}

}  // namespace vitrine::engine

#include "engine/model/inspect.h"

#include <algorithm>
#include <limits>
#include <new>

#include "engine/backend/backend.h"
#include "engine/backend/kv_regroup.h"
#include "engine/backend/weight_bytes.h"
#include "engine/base/display_text.h"
#include "engine/model/architecture.h"
#include "engine/model/gguf_file.h"
#include "engine/model/tensor_types.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {
namespace {

/// A number of any architecture's metadata; the largest where it is a list, one a layer. 0: none.
std::int64_t looseNumber(const GgufFile& file, std::string_view prefix, std::string_view name) {
  const GgufValue* value = file.find(fmt::format("{}.{}", prefix, name));
  if (value == nullptr) return 0;
  std::int64_t number = 0;
  if (const auto* array = std::get_if<GgufArray>(&value->value)) {
    if (!array->holdsIntegers()) return 0;
    for (std::uint64_t i = 0; i < array->count; ++i) number = std::max(number, array->integer(i));
  } else if (const auto* positive = std::get_if<std::uint64_t>(&value->value)) {
    number = static_cast<std::int64_t>(
        std::min<std::uint64_t>(*positive, std::numeric_limits<std::int64_t>::max()));
  } else if (const auto* any = std::get_if<std::int64_t>(&value->value)) {
    number = *any;
  }
  return std::max<std::int64_t>(number, 0);
}

/// The same for what is multiplied with others; absurd numbers count as not said.
int looseInt(const GgufFile& file, std::string_view prefix, std::string_view name) {
  const std::int64_t number = looseNumber(file, prefix, name);
  return number <= 1 << 17 ? static_cast<int>(number) : 0;
}

/// All that loading would check, without keeping anything but what the weights would take.
Result<void> tryToRead(const GgufFile& file, ModelInspection& found) {
  std::vector<std::string>& warnings = found.warnings;
  VITRINE_ASSIGN(const Architecture* architecture, architectureOf(file));
  VITRINE_ASSIGN(const ModelConfig config, readConfig(file, *architecture, warnings));
  VITRINE_ASSIGN(const Weights weights, readWeights(file, *architecture, config, warnings));
  VITRINE_ASSIGN(const auto tokenizer, Tokenizer::fromGguf(file, warnings));
  VITRINE_TRY(checkVocabulary(file, config, tokenizer->vocabSize()));
  found.mappedBytes = weights.tokenEmbedding.bytes();
  for (const WeightMode mode :
       {WeightMode::kNative, WeightMode::kFp16, WeightMode::kBf16, WeightMode::kInt8}) {
    for (const int heads : possibleKvHeads(config.nHeads, config.nKvHeads)) {
      WeightPrecision precision;
      precision.weights = mode;
      found.weightNeeds.push_back(
          {mode, heads, cpuWeightBytes(weights, config.nKvHeads, precision, heads)});
    }
  }
  return {};
}

}  // namespace

std::uint64_t ModelInspection::kvBytesPerToken(KvType type) const {
  ModelConfig config;
  config.nLayers = nLayers;
  config.headDim = headDim;
  KvShape shape;
  shape.type = type;
  shape.nKvHeads = nKvHeads;
  return kvBytesPerBlock(config, shape) / static_cast<std::uint64_t>(shape.blockSize);
}

std::uint64_t ModelInspection::weightBytes(WeightMode mode, int heads) const {
  for (const WeightNeed& need : weightNeeds) {
    if (need.mode == mode && need.kvHeads == heads) return need.bytes;
  }
  return 0;
}

std::int64_t ModelInspection::contextThatFits(std::uint64_t memoryBytes, KvType type) const {
  const std::uint64_t bytes = kvBytesPerToken(type);
  if (bytes == 0 || memoryBytes <= fileBytes) return 0;
  const std::uint64_t tokens = (memoryBytes - fileBytes) / bytes;
  return std::min<std::int64_t>(static_cast<std::int64_t>(tokens), contextLength);
}

Result<ModelInspection> inspectModel(const std::filesystem::path& path) {
  try {
    VITRINE_ASSIGN(const auto file, GgufFile::open(path));
    ModelInspection found;
    found.path = path;
    found.nParts = file->nParts();
    found.fileBytes = file->fileBytes();
    const auto text = [&](std::string_view key) {
      const auto value = file->text(key);
      return value && *value ? validUtf8(**value) : std::string();
    };
    found.name = text("general.name");
    found.architecture = text("general.architecture");
    found.chatTemplate = text("tokenizer.chat_template");
    found.quantization = commonestMatrixType(*file);
    for (const GgufTensor& tensor : file->tensors()) {
      ++found.tensorTypes[tensor.type.name];
      found.parameters += tensor.elements();
    }
    const std::string& prefix = found.architecture;
    found.nLayers = looseInt(*file, prefix, "block_count");
    found.dModel = looseInt(*file, prefix, "embedding_length");
    found.nHeads = looseInt(*file, prefix, "attention.head_count");
    found.nKvHeads = looseInt(*file, prefix, "attention.head_count_kv");
    if (found.nKvHeads == 0) found.nKvHeads = found.nHeads;
    found.headDim = looseInt(*file, prefix, "attention.key_length");
    if (found.headDim == 0 && found.nHeads > 0) found.headDim = found.dModel / found.nHeads;
    found.contextLength = looseNumber(*file, prefix, "context_length");
    if (const GgufTensor* embedding = file->findTensor("token_embd.weight")) {
      found.vocabSize = static_cast<int>(std::min<std::uint64_t>(embedding->dims[1], 1 << 30));
    }
    const Result<void> read = tryToRead(*file, found);
    found.supported = read.has_value();
    if (!read) found.problem = read.error().message;
    return found;
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "not enough memory to inspect {}", displayPath(path));
  }
}

}  // namespace vitrine::engine

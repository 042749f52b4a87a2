#include "app/compare/compare_types.h"

#include <QStringList>
#include <algorithm>

#include "app/text.h"
#include "engine/backend/weight_bytes.h"
#include "engine/model/model.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app {

using namespace engine;

namespace {

// Characters of the whole text that these tokens make; one that is not finished yet counts with the
// token that finishes it.
qsizetype charactersOf(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::string bytes = tokenizer.decode(std::vector<TokenId>(ids.begin(), ids.end()));
  constexpr std::size_t kLongestCharacter = 4;
  for (std::size_t cut = 1; cut < kLongestCharacter && cut <= bytes.size(); ++cut) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - cut]);
    if (byte < 0x80) break;
    if (byte < 0xC0) continue;  // a byte within a character
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    if (length > cut) bytes.resize(bytes.size() - cut);
    break;
  }
  return toQString(bytes).size();
}

}  // namespace

FirstDifference firstDifference(const Tokenizer& tokenizer, const CompareAnswer& a,
                                const CompareAnswer& b) {
  const CompareAnswer* answers[] = {&a, &b};
  const std::size_t common = std::min(a.tokenIds.size(), b.tokenIds.size());
  const auto parted =
      std::mismatch(a.tokenIds.begin(), a.tokenIds.begin() + static_cast<std::ptrdiff_t>(common),
                    b.tokenIds.begin());
  const auto same = static_cast<std::size_t>(parted.first - a.tokenIds.begin());
  if (same == common) {
    // One has more: a difference only if the other has ended.
    const bool aEndedFirst = a.ended && b.tokenIds.size() > common;
    const bool bEndedFirst = b.ended && a.tokenIds.size() > common;
    if (!aEndedFirst && !bEndedFirst) return {};
  }
  FirstDifference difference;
  difference.token = static_cast<int>(same);
  for (std::size_t side = 0; side < 2; ++side) {
    const auto& ids = answers[side]->tokenIds;
    const qsizetype size = answers[side]->text.size();
    const std::span<const TokenId> all(ids);
    difference.offset[side] = std::min(size, charactersOf(tokenizer, all.first(same)));
    if (same < ids.size()) {
      const qsizetype end = charactersOf(tokenizer, all.first(same + 1));
      difference.length[side] = std::min(size, end) - difference.offset[side];
    }
  }
  return difference;
}

bool computesTheSame(const EngineConfig& a, const EngineConfig& b) {
  return a.precision == b.precision && a.cache == b.cache && a.kvHeads == b.kvHeads &&
         a.backend == b.backend;
}

std::uint64_t memoryForSecondEngine(const engine::Model& model, const ModelInfo& info,
                                    const EngineConfig& config, int sequences) {
  KvShape shape;
  shape.type = config.cache.type;
  shape.blockSize = config.cache.blockSize;
  shape.nKvHeads = config.kvHeads > 0 ? config.kvHeads : info.ownKvHeads;
  shape.nBlocks = 1;
  const auto blocks =
      static_cast<std::uint64_t>((info.contextTokens + shape.blockSize - 1) / shape.blockSize);
  const std::uint64_t weights =
      engine::cpuWeightBytes(model.weights(), info.ownKvHeads, config.precision, config.kvHeads);
  return weights + info.memory.workspaceBytes +
         kvBytesPerBlock(info.config, shape) * blocks * static_cast<std::uint64_t>(sequences);
}

}  // namespace vitrine::app

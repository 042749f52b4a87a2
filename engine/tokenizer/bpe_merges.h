#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/types.h"

namespace vitrine::engine {

/// The merges of a byte-pair encoding by rank, on token ids (Sennrich et al. 2016, as used on
/// bytes by GPT-2). Immutable once filled; any thread.
class BpeMerges {
 public:
  /// `byteIds[b]`: the token of the single byte b, or -1 where the vocabulary has none.
  explicit BpeMerges(const std::array<TokenId, 256>& byteIds, std::size_t nMerges);

  /// The pair (left, right) becomes `merged`; lower ranks go first. A pair's first rank counts.
  void add(TokenId left, TokenId right, TokenId merged, std::uint32_t rank);

  /// Appends the tokens of one piece. Time n log n, no recursion. Bytes without a token give
  /// nothing, as in the original tokenizers.
  void encode(std::string_view piece, std::vector<TokenId>& ids) const;

 private:
  struct Entry {
    std::uint64_t pair = kEmpty;  // left << 32 | right
    std::uint32_t rank = 0;
    TokenId merged = 0;
  };
  static constexpr std::uint64_t kEmpty = ~0ULL;

  const Entry* find(TokenId left, TokenId right) const;
  void mergeShort(std::vector<TokenId>& ids, std::size_t begin) const;
  void mergeLong(std::vector<TokenId>& ids, std::size_t begin) const;

  std::array<TokenId, 256> m_byteIds;
  std::vector<Entry> m_table;  // open addressing, a power of two, at most half full
  std::uint64_t m_mask = 0;
};

}  // namespace vitrine::engine

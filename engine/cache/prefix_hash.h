#pragma once

#include <cstdint>
#include <span>

#include "engine/base/types.h"

namespace vitrine::engine {

/// 128-bit hash of all tokens from the start of a sequence to the end of a block. Two blocks with
/// the same hash hold K and V of the same tokens after the same history.
struct PrefixHash {
  std::uint64_t low = 0x9E3779B97F4A7C15ULL;
  std::uint64_t high = 0xD1B54A32D192ED03ULL;

  bool operator==(const PrefixHash&) const = default;
};

/// The hash after `tokens` more. Two independent multiply-and-fold lanes (the mixing step of
/// wyhash); tokens are compared as well wherever a hit is used, so this only has to spread.
inline PrefixHash extend(PrefixHash hash, std::span<const TokenId> tokens) {
  const auto fold = [](std::uint64_t a, std::uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  for (const TokenId token : tokens) {
    const auto value = static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)) + 1;
    const std::uint64_t low = hash.low;
    hash.low = fold(hash.low ^ (value * 0xA0761D6478BD642FULL), 0xE7037ED1A0B428DBULL);
    hash.high = fold(hash.high ^ (value * 0x8EBC6AF09C88C6E3ULL), 0x589965CC75374CC3ULL) ^ low;
  }
  return hash;
}

struct PrefixHashHasher {
  std::size_t operator()(const PrefixHash& hash) const { return hash.low; }
};

}  // namespace vitrine::engine

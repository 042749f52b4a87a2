#include "engine/tokenizer/bpe_merges.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <queue>

namespace vitrine::engine {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// Words are short: up to here a scan for the best pair is faster than a heap.
constexpr std::size_t kShortPiece = 24;

std::uint64_t pairKey(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

std::uint64_t mix(std::uint64_t key) {
  key *= 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio
  return key ^ (key >> 32);
}

}  // namespace

BpeMerges::BpeMerges(const std::array<TokenId, 256>& byteIds, std::size_t nMerges)
    : m_byteIds(byteIds), m_table(std::bit_ceil(2 * nMerges + 2)), m_mask(m_table.size() - 1) {}

void BpeMerges::add(TokenId left, TokenId right, TokenId merged, std::uint32_t rank) {
  const std::uint64_t key = pairKey(left, right);
  for (std::uint64_t i = mix(key) & m_mask;; i = (i + 1) & m_mask) {
    if (m_table[i].pair == key) return;
    if (m_table[i].pair == kEmpty) {
      m_table[i] = {key, rank, merged};
      return;
    }
  }
}

const BpeMerges::Entry* BpeMerges::find(TokenId left, TokenId right) const {
  const std::uint64_t key = pairKey(left, right);
  for (std::uint64_t i = mix(key) & m_mask;; i = (i + 1) & m_mask) {
    if (m_table[i].pair == key) return &m_table[i];
    if (m_table[i].pair == kEmpty) return nullptr;
  }
}

void BpeMerges::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  const std::size_t begin = ids.size();
  for (const char c : piece) {
    const TokenId id = m_byteIds[static_cast<unsigned char>(c)];
    if (id >= 0) ids.push_back(id);
  }
  const std::size_t n = ids.size() - begin;
  if (n < 2) return;
  if (n <= kShortPiece) {
    mergeShort(ids, begin);
  } else {
    mergeLong(ids, begin);
  }
}

// ranks[i] belongs to the pair (i, i + 1). The leftmost of equal ranks goes first.
void BpeMerges::mergeShort(std::vector<TokenId>& ids, std::size_t begin) const {
  std::array<std::uint32_t, kShortPiece> ranks;
  std::array<TokenId, kShortPiece> merged;
  std::size_t n = ids.size() - begin;
  TokenId* const id = ids.data() + begin;
  const auto look = [&](std::size_t i) {
    const Entry* entry = i + 1 < n ? find(id[i], id[i + 1]) : nullptr;
    ranks[i] = entry != nullptr ? entry->rank : kNone;
    merged[i] = entry != nullptr ? entry->merged : 0;
  };
  for (std::size_t i = 0; i < n; ++i) look(i);
  while (true) {
    const auto best = static_cast<std::size_t>(
        std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(n)) -
        ranks.begin());
    if (ranks[best] == kNone) break;
    id[best] = merged[best];
    for (std::size_t i = best + 1; i + 1 < n; ++i) {
      id[i] = id[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
    }
    --n;
    if (best > 0) look(best - 1);
    look(best);
  }
  ids.resize(begin + n);
}

// A linked list of tokens, and a heap of (rank, position of the left token). Entries of pairs that
// are gone stay in the heap and are known by their rank, which is the pair's own.
void BpeMerges::mergeLong(std::vector<TokenId>& ids, std::size_t begin) const {
  struct Node {
    std::uint32_t previous, next;  // kNone at the ends
    std::uint32_t rank;            // of the pair with the next; kNone: cannot merge
    TokenId id, merged;
  };
  const auto n = static_cast<std::uint32_t>(ids.size() - begin);
  std::vector<Node> nodes(n);
  using Candidate = std::uint64_t;  // rank << 32 | position
  std::vector<Candidate> storage;
  storage.reserve(n);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap({},
                                                                              std::move(storage));
  const auto look = [&](std::uint32_t i) {
    Node& node = nodes[i];
    const Entry* entry = node.next != kNone ? find(node.id, nodes[node.next].id) : nullptr;
    node.rank = entry != nullptr ? entry->rank : kNone;
    if (entry == nullptr) return;
    node.merged = entry->merged;
    heap.push(static_cast<Candidate>(node.rank) << 32 | i);
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    nodes[i] = {i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1, kNone, ids[begin + i], 0};
  }
  for (std::uint32_t i = 0; i < n; ++i) look(i);
  while (!heap.empty()) {
    const auto rank = static_cast<std::uint32_t>(heap.top() >> 32);
    const auto i = static_cast<std::uint32_t>(heap.top());
    heap.pop();
    Node& node = nodes[i];
    if (node.rank != rank) continue;
    Node& gone = nodes[node.next];
    node.id = node.merged;
    node.next = gone.next;
    gone.rank = kNone;
    if (node.next != kNone) nodes[node.next].previous = i;
    look(i);
    if (node.previous != kNone) look(node.previous);
  }
  ids.resize(begin);
  for (std::uint32_t i = 0; i != kNone; i = nodes[i].next) ids.push_back(nodes[i].id);
}

}  // namespace vitrine::engine

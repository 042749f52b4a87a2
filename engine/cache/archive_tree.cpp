#include "engine/cache/archive_tree.h"

#include <algorithm>

#include "engine/base/check.h"

namespace vitrine::engine {

ArchiveTree::Match ArchiveTree::match(std::span<const TokenId> tokens) const {
  Match found;
  int parent = -1;
  while (true) {
    const auto rest = tokens.subspan(static_cast<std::size_t>(found.tokens));
    int best = -1, bestTokens = 0;
    for (const int child : childrenOf(parent)) {
      const auto& held = block(child).tokens;
      const auto limit = static_cast<std::ptrdiff_t>(std::min(held.size(), rest.size()));
      const auto [end, unused] = std::mismatch(held.begin(), held.begin() + limit, rest.begin());
      const auto common = static_cast<int>(end - held.begin());
      if (common > bestTokens) {
        best = child;
        bestTokens = common;
      }
    }
    if (best < 0) return found;
    found.blocks.push_back(best);
    found.tokens += bestTokens;
    if (bestTokens < m_blockSize) return found;
    parent = best;
  }
}

int ArchiveTree::add(std::int32_t parent, std::span<const TokenId> tokens) {
  VITRINE_CHECK(parent >= -1 && parent < size() && (parent < 0 || isFull(parent)),
                "a block follows a full one");
  VITRINE_CHECK(!tokens.empty() && static_cast<int>(tokens.size()) <= m_blockSize,
                "a block holds 1 to blockSize tokens");
  ArchivedBlock& added = m_blocks.emplace_back();
  added.parent = parent;
  added.tokens.assign(tokens.begin(), tokens.end());
  added.hash = extend(parent < 0 ? PrefixHash{} : block(parent).hash, tokens);
  m_tokens += static_cast<int>(tokens.size());
  m_children[static_cast<std::size_t>(parent + 1)].push_back(size() - 1);
  m_children.emplace_back();
  return size() - 1;
}

std::vector<TokenId> ArchiveTree::pathThrough(int through) const {
  std::vector<int> path;
  for (int i = through; i >= 0; i = block(i).parent) path.push_back(i);
  std::reverse(path.begin(), path.end());
  // Depth of what follows each block: children stand behind their parents, so backwards.
  std::vector<int> depth(m_blocks.size(), 0);
  for (int i = size() - 1; i >= 0; --i) {
    depth[static_cast<std::size_t>(i)] += static_cast<int>(block(i).tokens.size());
    if (const int parent = block(i).parent; parent >= 0) {
      auto& above = depth[static_cast<std::size_t>(parent)];
      above = std::max(above, depth[static_cast<std::size_t>(i)]);
    }
  }
  for (int i = through; !childrenOf(i).empty();) {
    const auto children = childrenOf(i);
    i = *std::ranges::max_element(children, {},
                                  [&](int c) { return depth[static_cast<std::size_t>(c)]; });
    path.push_back(i);
  }
  std::vector<TokenId> tokens;
  for (const int i : path)
    tokens.insert(tokens.end(), block(i).tokens.begin(), block(i).tokens.end());
  return tokens;
}

std::span<const int> ArchiveTree::childrenOf(int block) const {
  return m_children[static_cast<std::size_t>(block + 1)];
}

}  // namespace vitrine::engine

#include "ui/inspector/cache/branch_shares.h"

#include <algorithm>

namespace vitrine::ui {
namespace {

int tokensOf(const engine::EngineSnapshot& snapshot, const engine::CacheOwner& owner) {
  if (owner.chain.empty()) return 0;
  const int whole = int(owner.chain.size() - 1) * snapshot.shape.blockSize;
  return whole + snapshot.blocks[std::size_t(owner.chain.back())].filled;
}

std::uint64_t wholeBlocks(std::uint64_t tokens, int blockSize) {
  return (tokens + std::uint64_t(blockSize) - 1) / std::uint64_t(blockSize);
}

}  // namespace

BranchShares branchShares(const engine::EngineSnapshot& snapshot, const QString& conversation) {
  BranchShares shares;
  const std::string key = conversation.toStdString();
  std::vector<std::uint16_t> here(snapshot.blocks.size(), 0);  // branches of this conversation
  std::uint64_t links = 0;
  std::uint64_t linksHere = 0;
  for (const engine::CacheOwner& owner : snapshot.owners) {
    links += owner.chain.size();
    if (owner.conversation != key) continue;
    linksHere += owner.chain.size();
    for (const engine::BlockId block : owner.chain) ++here[std::size_t(block)];
  }
  std::uint64_t distinct = 0;
  for (std::size_t block = 0; block < snapshot.blocks.size(); ++block) {
    const int sharers = snapshot.blocks[block].sharers;
    distinct += sharers > 0 ? 1 : 0;
    if (here[block] == 0) continue;
    ++shares.distinctBlocks;
    if (sharers > here[block]) ++shares.sharedOutside;
  }
  shares.savedHere = (linksHere - std::uint64_t(shares.distinctBlocks)) * snapshot.bytesPerBlock;
  shares.savedPool = (links - distinct) * snapshot.bytesPerBlock;
  for (std::size_t i = 0; i < snapshot.owners.size(); ++i) {
    const engine::CacheOwner& owner = snapshot.owners[i];
    if (owner.conversation != key || owner.chain.empty()) continue;
    BranchShares::Branch branch;
    branch.owner = int(i);
    branch.tokens = tokensOf(snapshot, owner);
    branch.blocks = int(owner.chain.size());
    for (const engine::BlockId block : owner.chain) {
      if (here[std::size_t(block)] > 1) {
        ++branch.sharedHere;
      } else if (snapshot.blocks[std::size_t(block)].sharers > 1) {
        ++branch.sharedOutside;
      } else {
        ++branch.own;
      }
    }
    shares.branches.push_back(branch);
  }
  return shares;
}

LiveSequences liveSequences(const engine::EngineSnapshot& snapshot) {
  LiveSequences live;
  if (snapshot.runningSequences == 0) return live;
  for (const engine::CacheOwner& owner : snapshot.owners) {
    // The end of a branch's history is used by nobody but a turn of that branch.
    if (owner.chain.empty()) continue;
    const engine::BlockCell& last = snapshot.blocks[std::size_t(owner.chain.back())];
    if (last.state != engine::BlockState::kUsed) continue;
    ++live.count;
    live.tokens += tokensOf(snapshot, owner);
  }
  live.count = std::min(live.count, snapshot.runningSequences);
  live.blocks = snapshot.blocksUsed;
  return live;
}

LayoutComparison compareLayouts(const std::vector<int>& lengths, int blockSize, int contextTokens,
                                int poolBlocks) {
  LayoutComparison result;
  blockSize = std::max(1, blockSize);
  std::uint64_t pagedBlocks = 0;
  std::uint64_t contiguousBlocks = 0;
  std::uint64_t used = 0;
  for (const int tokens : lengths) {
    if (tokens <= 0) continue;
    ++result.sequences;
    used += std::uint64_t(tokens);
    pagedBlocks += wholeBlocks(std::uint64_t(tokens), blockSize);
    contiguousBlocks += wholeBlocks(std::uint64_t(std::max(tokens, contextTokens)), blockSize);
  }
  const auto cost = [&](std::uint64_t blocks) {
    LayoutCost one;
    one.reservedTokens = blocks * std::uint64_t(blockSize);
    one.usedTokens = used;
    if (blocks > 0) one.chatsThatFit = double(poolBlocks) * result.sequences / double(blocks);
    return one;
  };
  result.paged = cost(pagedBlocks);
  result.contiguous = cost(contiguousBlocks);
  return result;
}

LayoutComparison compareLayoutsInPool(const engine::EngineSnapshot& snapshot, int contextTokens) {
  std::vector<int> lengths;
  std::uint64_t distinct = 0;
  std::uint64_t filled = 0;
  for (const engine::CacheOwner& owner : snapshot.owners) {
    if (owner.chain.empty()) continue;
    lengths.push_back(tokensOf(snapshot, owner));
  }
  for (const engine::BlockCell& cell : snapshot.blocks) {
    if (cell.sharers == 0) continue;
    ++distinct;
    filled += cell.filled;
  }
  const int blockSize = std::max(1, snapshot.shape.blockSize);
  const int poolBlocks = int(snapshot.blocks.size());
  LayoutComparison result = compareLayouts(lengths, blockSize, contextTokens, poolBlocks);
  result.paged.reservedTokens = distinct * std::uint64_t(blockSize);
  result.paged.usedTokens = filled;
  if (distinct > 0) {
    result.paged.chatsThatFit = double(poolBlocks) * result.sequences / double(distinct);
  }
  return result;
}

}  // namespace vitrine::ui

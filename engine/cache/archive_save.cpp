#include "engine/cache/archive_save.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

namespace vitrine::engine {
namespace {

constexpr std::size_t kSliceBytes = std::size_t{4} << 20;  // about 1 ms of copying
constexpr int kMostQueued = 3;

/// A block of the tree to be written, before its place in it is known.
struct Node {
  int parent = -1;
  std::vector<TokenId> tokens;
  BlockId block = -1;
  int before = -1;
  bool inPool = false;  // some branch of the pool goes through it
  bool dropped = false;
};

class Planner {
 public:
  explicit Planner(int blockSize) : m_blockSize(static_cast<std::size_t>(blockSize)) {}

  void addBefore(const ArchiveTree& tree) {
    for (int i = 0; i < tree.size(); ++i) {
      add({tree.block(i).parent, tree.block(i).tokens, -1, i, false, false});
    }
  }

  /// A block of the pool behind `parent`; where it is in the tree now. The longer of two partly
  /// filled ones stays.
  int addFromPool(int parent, std::span<const TokenId> tokens, BlockId block) {
    for (const int child : m_children[static_cast<std::size_t>(parent + 1)]) {
      Node& node = nodes[static_cast<std::size_t>(child)];
      const auto common = std::min(node.tokens.size(), tokens.size());
      if (node.dropped ||
          !std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(common),
                      node.tokens.begin())) {
        continue;
      }
      if (node.tokens.size() >= tokens.size()) {
        node.inPool = true;
        return child;
      }
      node.dropped = true;  // partly filled then, fuller now
    }
    return add({parent, {tokens.begin(), tokens.end()}, block, -1, true, false});
  }

  std::size_t kept() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(nodes, [](const Node& node) { return !node.dropped; }));
  }

  std::vector<Node> nodes;

 private:
  int add(Node node) {
    const auto index = static_cast<int>(nodes.size());
    m_children[static_cast<std::size_t>(node.parent + 1)].push_back(index);
    m_children.emplace_back();
    nodes.push_back(std::move(node));
    return index;
  }

  std::size_t m_blockSize;
  std::vector<std::vector<int>> m_children{{}};
};

}  // namespace

std::unique_ptr<ArchiveSave> ArchiveSave::begin(Order order, const KvCache& cache, Worker& worker,
                                                std::function<void()> wake) {
  std::unique_ptr<ArchiveSave> save(new ArchiveSave);
  save->m_order = std::move(order);
  save->m_worker = &worker;
  save->m_output->wake = std::move(wake);
  if (!save->plan(cache)) return nullptr;
  ArchiveHeader header;
  header.settings = save->m_order.settings;
  header.conversation = save->m_order.conversation;
  header.blockBytes = save->m_order.blockBytes;
  header.prefillMsPerToken = save->m_order.prefillMsPerToken;
  header.tree = save->m_tree;
  save->post(
      [path = save->m_order.path, header = std::move(header)](Output& output) -> Result<void> {
        VITRINE_ASSIGN(output.writer, ArchiveWriter::create(path, header));
        return {};
      });
  return save;
}

/// Puts together what the earlier file and the pool hold.
bool ArchiveSave::plan(const KvCache& cache) {
  const int blockSize = cache.blockSize();
  Planner planner(blockSize);
  if (m_order.before) planner.addBefore(m_order.before->tree());
  for (const auto& history : m_order.histories) {
    const PrefixMatch& chain = m_chains.emplace_back(cache.find(history));
    int parent = -1;
    for (const BlockId block : chain.blocks) {
      parent = planner.addFromPool(parent, cache.pool().tokens(block), block);
    }
    if (chain.tail >= 0) {
      const auto tail = cache.pool().tokens(chain.tail);
      planner.addFromPool(parent, tail.first(static_cast<std::size_t>(chain.tailTokens)),
                          chain.tail);
    }
  }
  const auto isNew = [](const Node& node) { return !node.dropped && node.block >= 0; };
  if (std::ranges::none_of(planner.nodes, isNew)) return false;
  // Branches that the pool has no more make room before the conversation is given up.
  const auto fits = [&] { return planner.kept() * m_order.blockBytes <= m_order.limitBytes; };
  if (!fits()) {
    for (Node& node : planner.nodes) node.dropped |= !node.inPool;
  }
  if (!fits()) {
    spdlog::warn("the KV of a conversation takes {} bytes, more than the archive's limit of {}",
                 planner.kept() * m_order.blockBytes, m_order.limitBytes);
    return false;
  }
  m_tree = ArchiveTree(blockSize);
  std::vector<int> place(planner.nodes.size(), -1);
  for (std::size_t i = 0; i < planner.nodes.size(); ++i) {
    const Node& node = planner.nodes[i];
    if (node.dropped) continue;
    const int parent = node.parent < 0 ? -1 : place[static_cast<std::size_t>(node.parent)];
    place[i] = m_tree.add(parent, node.tokens);
    m_sources.push_back({node.block, node.before});
  }
  return true;
}

ArchiveSave::~ArchiveSave() {
  {
    const std::lock_guard lock(m_output->mutex);
    m_output->cancelled = true;
  }
  // The worker lets go of the file; what was not published disappears with it.
  m_worker->post([output = std::move(m_output)] { output->writer.reset(); });
}

ArchiveSave::State ArchiveSave::state() const {
  if (m_readError || m_output->failed) return State::kFailed;
  if (m_output->done) return State::kDone;
  if (m_stale) return State::kStale;
  if (m_committed || m_output->queued >= kMostQueued) return State::kWaiting;
  return State::kReading;
}

void ArchiveSave::post(std::function<Result<void>(Output&)> job) {
  ++m_output->queued;
  m_worker->post([output = m_output, job = std::move(job)] {
    if (!output->failed) {
      if (auto done = job(*output); !done) {
        output->error = std::move(done).error();
        output->writer.reset();
        output->failed = true;
      }
    }
    --output->queued;
    output->wake();
  });
}

/// Every branch still has the blocks that it had: what they hold is then what was planned.
bool ArchiveSave::poolIsUnchanged(const KvCache& cache) const {
  for (std::size_t i = 0; i < m_chains.size(); ++i) {
    const PrefixMatch now = cache.find(m_order.histories[i]);
    const PrefixMatch& then = m_chains[i];
    if (now.blocks != then.blocks || now.tail != then.tail || now.tailTokens != then.tailTokens) {
      return false;
    }
  }
  return true;
}

void ArchiveSave::advance(const KvCache& cache, const Backend& backend) {
  if (state() != State::kReading) return;
  if (m_next == m_sources.size()) {
    m_committed = true;
    post([](Output& output) -> Result<void> {
      VITRINE_TRY(output.writer->finish());
      const std::lock_guard lock(output.mutex);
      if (!output.cancelled) VITRINE_TRY(output.writer->publish());
      output.writer.reset();
      output.done = true;
      return {};
    });
    return;
  }
  if (const int first = m_sources[m_next].before; first >= 0) {
    int count = 0;
    while (m_next < m_sources.size() && m_sources[m_next].before == first + count) {
      ++m_next;
      ++count;
    }
    post([from = m_order.before, first, count](Output& output) {
      return output.writer->appendFrom(*from, first, count);
    });
    return;
  }
  if (!poolIsUnchanged(cache)) {
    m_stale = true;
    return;
  }
  const auto blockBytes = static_cast<std::size_t>(m_order.blockBytes);
  std::size_t count = 0;
  while (m_next + count < m_sources.size() && m_sources[m_next + count].block >= 0 &&
         (count == 0 || (count + 1) * blockBytes <= kSliceBytes)) {
    ++count;
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(count * blockBytes);
  for (std::size_t i = 0; i < count; ++i, ++m_next) {
    const auto read = backend.readBlock(m_sources[m_next].block,
                                        std::span(*bytes).subspan(i * blockBytes, blockBytes));
    if (!read) {
      m_readError = read.error();
      return;
    }
  }
  post([bytes = std::move(bytes)](Output& output) { return output.writer->append(*bytes); });
}

}  // namespace vitrine::engine

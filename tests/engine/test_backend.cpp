#include "tests/engine/test_backend.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

namespace vitrine::engine::test {
namespace {

constexpr std::uint64_t kStart = 0x243F6A8885A308D3ULL;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9E3779B97F4A7C15ULL + b + 0x7F4A7C15ULL;
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBULL;
  return (x ^ (x >> 31)) | 1;  // never 0
}

std::uint64_t positionValue(std::uint64_t before, TokenId token, int position) {
  return mix(before,
             static_cast<std::uint64_t>(token) * 1000003ULL + static_cast<std::uint64_t>(position));
}

void writeLogits(std::uint64_t attention, std::span<float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(mix(attention, i) >> 40) / static_cast<float>(1 << 22);
  }
}

}  // namespace

TestBackend::TestBackend(int nBlocks, int blockSize) {
  KvShape shape;
  shape.blockSize = blockSize;
  shape.nBlocks = nBlocks;
  shape.nKvHeads = 1;
  m_config.vocabSize = kVocabSize;
  m_config.nLayers = m_config.nHeads = m_config.nKvHeads = m_config.headDim = 1;
  (void)configureCache(shape);
}

BackendInfo TestBackend::info() const {
  BackendInfo info;
  info.name = "test";
  return info;
}

Result<void> TestBackend::configureCache(const KvShape& shape) {
  m_shape = shape;
  m_values.assign(
      static_cast<std::size_t>(shape.nBlocks) * static_cast<std::size_t>(shape.blockSize), 0);
  return {};
}

std::uint64_t& TestBackend::value(std::span<const BlockId> table, int position) {
  const auto block =
      static_cast<std::size_t>(table[static_cast<std::size_t>(position / m_shape.blockSize)]);
  return m_values[block * static_cast<std::size_t>(m_shape.blockSize) +
                  static_cast<std::size_t>(position % m_shape.blockSize)];
}

Result<LogitsView> TestBackend::forward(std::span<const BatchSequence> batch) {
  if (failNext) {
    const Error error = *failNext;
    if (--failures <= 0) failNext.reset();
    if (hostBlocksAfterFailure >= 0) setHostBlocks(std::exchange(hostBlocksAfterFailure, -1));
    return tl::unexpected(error);
  }
  ++steps;
  std::map<BlockId, int> writers, holders;
  std::vector<int> sizes;
  int rows = 0, total = 0;
  if (timeOfToken.count() > 0) {
    std::size_t tokens = 0;
    for (const BatchSequence& one : batch) tokens += one.tokens.size();
    std::this_thread::sleep_for(timeOfToken * tokens);
  }
  for (const BatchSequence& one : batch) {
    const int last = one.firstPosition + static_cast<int>(one.tokens.size()) - 1;
    for (const BlockId block : one.blockTable) ++holders[block];
    for (int i = one.firstPosition / m_shape.blockSize; i <= last / m_shape.blockSize; ++i) {
      ++writers[one.blockTable[static_cast<std::size_t>(i)]];
    }
    rows += one.logitRows;
    total += static_cast<int>(one.tokens.size());
    sizes.push_back(static_cast<int>(one.tokens.size()));
  }
  if (static_cast<int>(holders.size()) > m_shape.nBlocks - m_shape.hostBlocks) {
    ++overfull;
    return fail(ErrorCode::kOutOfMemory, "the device has too few blocks");
  }
  for (const auto& [block, count] : writers) sharedWrites += holders[block] > 1 ? 1 : 0;
  mostSequences = std::max(mostSequences, static_cast<int>(batch.size()));
  mostTokens = std::max(mostTokens, total);
  computedTokens += total;
  batches.push_back(std::move(sizes));

  m_logits.resize(static_cast<std::size_t>(rows) * kVocabSize);
  std::size_t row = 0;
  for (const BatchSequence& one : batch) {
    for (std::size_t i = 0; i < one.tokens.size(); ++i) {
      const int position = one.firstPosition + static_cast<int>(i);
      const std::uint64_t before = position == 0 ? kStart : value(one.blockTable, position - 1);
      value(one.blockTable, position) = positionValue(before, one.tokens[i], position);
      if (i + static_cast<std::size_t>(one.logitRows) < one.tokens.size()) continue;
      std::uint64_t attention = kStart;
      for (int p = 0; p <= position; ++p) {
        const std::uint64_t held = value(one.blockTable, p);
        brokenReads += held == 0 ? 1 : 0;
        attention = mix(attention, held);
      }
      writeLogits(attention, std::span(m_logits).subspan(row * kVocabSize, kVocabSize));
      ++row;
    }
  }
  return wantedRows(batch);
}

/// Whole rows, or the best tokens alone where they are enough, as a GPU gives them.
LogitsView TestBackend::wantedRows(std::span<const BatchSequence> batch) {
  m_wanted.clear();
  m_best.clear();
  m_best.reserve(m_logits.size());
  std::size_t first = 0;
  for (const BatchSequence& one : batch) {
    for (int r = 0; r < one.logitRows; ++r, first += kVocabSize) {
      const std::span<float> row = std::span(m_logits).subspan(first, kVocabSize);
      if (one.best == 0) {
        m_wanted.push_back({row, {}});
        continue;
      }
      const std::size_t start = m_best.size();
      for (TokenId id = 0; id < kVocabSize; ++id) {
        m_best.push_back({row[static_cast<std::size_t>(id)], id});
      }
      std::stable_sort(m_best.begin() + static_cast<std::ptrdiff_t>(start), m_best.end(),
                       [](const auto& a, const auto& b) { return a.logit > b.logit; });
      m_best.resize(start + static_cast<std::size_t>(std::min(one.best, kVocabSize)));
      m_wanted.push_back({{}, std::span(m_best).subspan(start)});
    }
  }
  return LogitsView(m_wanted);
}

std::vector<float> TestBackend::logitsAfter(std::span<const TokenId> tokens) {
  std::uint64_t before = kStart, attention = kStart;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    before = positionValue(before, tokens[i], static_cast<int>(i));
    attention = mix(attention, before);
  }
  std::vector<float> logits(kVocabSize);
  writeLogits(attention, logits);
  return logits;
}

Result<void> TestBackend::copyBlock(BlockId from, BlockId to, int tokens) {
  ++copies;
  const auto size = static_cast<std::size_t>(m_shape.blockSize);
  const auto source =
      m_values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(from) * size);
  const auto target =
      m_values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(to) * size);
  std::fill_n(target, size, 0);
  std::copy_n(source, tokens, target);
  return {};
}

Result<void> TestBackend::readBlock(BlockId block, std::span<std::byte> bytes) const {
  std::memcpy(bytes.data(),
              m_values.data() +
                  static_cast<std::size_t>(block) * static_cast<std::size_t>(m_shape.blockSize),
              bytes.size());
  return {};
}

Result<void> TestBackend::writeBlock(BlockId block, std::span<const std::byte> bytes) {
  std::memcpy(m_values.data() +
                  static_cast<std::size_t>(block) * static_cast<std::size_t>(m_shape.blockSize),
              bytes.data(), bytes.size());
  return {};
}

BackendMemory TestBackend::memory() const {
  BackendMemory memory;
  memory.kvBytesPerBlock = static_cast<std::uint64_t>(m_shape.blockSize) * sizeof(std::uint64_t);
  memory.kvAllocatedBytes = memory.kvBytesPerBlock * static_cast<std::uint64_t>(m_shape.nBlocks);
  memory.weightBytes = memory.weightBytesPerToken = 1000;
  return memory;
}

}  // namespace vitrine::engine::test

#include "engine/schedule/cache_check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace vitrine::engine {
namespace {

constexpr int kContinued = 16;

TokenId best(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

/// log of the sum of exp.
double logSum(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float value : logits) sum += std::exp(value - most);
  return most + std::log(sum);
}

/// KL(p ‖ q) of two softmaxes, nats.
double divergence(std::span<const float> p, std::span<const float> q) {
  const double sumP = logSum(p), sumQ = logSum(q);
  double kl = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double logP = p[i] - sumP;
    kl += std::exp(logP) * (logP - (q[i] - sumQ));
  }
  return std::max(0.0, kl);
}

}  // namespace

CacheCheck::CacheCheck(RequestId id, std::vector<TokenId> prompt, std::stop_token stop)
    : m_id(id), m_stop(std::move(stop)), m_promptTokens(static_cast<int>(prompt.size())) {
  m_cold.tokens = prompt;
  m_cached.tokens = std::move(prompt);
}

Result<void> CacheCheck::begin(KvCache& cache, Backend& backend, int contextTokens) {
  m_backend = &backend;
  m_blockSize = cache.blockSize();
  m_toContinue = std::min(kContinued, contextTokens - m_promptTokens);
  const int most = m_promptTokens + m_toContinue;
  VITRINE_ASSIGN(const bool hasCached, cache.beginProbe(m_cached, most, true));
  m_matched = m_cached.computed;
  if (hasCached && m_matched == 0) {
    end(cache);
    return fail(ErrorCode::kNotFound,
                "nothing of this conversation is in the cache, so there is nothing to verify");
  }
  const int needed = cache.blocksFor(most) + 1;  // and one to compare the last, partial block in
  bool hasCold = false;
  if (hasCached) {
    auto begun = cache.beginProbe(m_cold, needed * m_blockSize, false);
    if (!begun) {
      end(cache);
      return tl::unexpected(std::move(begun).error());
    }
    hasCold = *begun;
  }
  if (!hasCold) {
    const int free = cache.pool().freeCount();
    end(cache);
    return fail(ErrorCode::kOutOfMemory,
                "verifying {} tokens needs {} free blocks beside those that are cached, but {} are "
                "free; forget a conversation, or raise the KV budget",
                m_promptTokens, needed, free);
  }
  m_scratch = m_cold.table.back();
  m_proof.tokens = m_matched;
  m_proof.blocks = cache.blocksFor(m_matched);
  return {};
}

void CacheCheck::end(KvCache& cache) {
  for (Sequence* sequence : {&m_cold, &m_cached}) {
    if (!sequence->table.empty()) cache.end(*sequence);
  }
}

Result<bool> CacheCheck::step(KvCache& cache, int chunk) {
  switch (m_phase) {
    case Phase::kCold:
      VITRINE_TRY(stepCold(cache, chunk));
      break;
    case Phase::kTail:
      VITRINE_TRY(checkTail(cache));
      break;
    case Phase::kCached:
      VITRINE_TRY(stepCached(cache, chunk));
      break;
    case Phase::kContinued:
      VITRINE_TRY(stepContinued(cache));
      break;
  }
  if (m_phase != Phase::kContinued || m_toContinue > 0) return false;
  if (m_proof.continuedTokens > 0) m_proof.klMean /= m_proof.continuedTokens;
  return true;
}

/// `logits`: of the last position.
Result<LogitsView> CacheCheck::forward(const Sequence& sequence, int tokens,
                                       std::span<const BlockId> table, bool logits,
                                       double& milliseconds) {
  BatchSequence entry;
  entry.tokens =
      std::span(sequence.tokens)
          .subspan(static_cast<std::size_t>(sequence.computed), static_cast<std::size_t>(tokens));
  entry.firstPosition = sequence.computed;
  entry.blockTable = table;
  entry.logitRows = logits ? 1 : 0;
  m_lastTokens = tokens;
  const auto start = std::chrono::steady_clock::now();
  auto result = m_backend->forward({&entry, 1});
  milliseconds +=
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

/// The prompt from nothing. Steps end where the cached full blocks end and where all that was
/// cached ends.
Result<void> CacheCheck::stepCold(KvCache& cache, int chunk) {
  const int full = m_matched / m_blockSize * m_blockSize;
  int end = m_promptTokens;
  if (m_cold.computed < m_matched) end = m_matched;
  if (m_cold.computed < full) end = full;
  if (m_cold.computed == full && full < m_matched) {
    m_phase = Phase::kTail;
    return checkTail(cache);
  }
  const int tokens = std::min(chunk, end - m_cold.computed);
  const bool isLast = m_cold.computed + tokens == m_promptTokens;
  VITRINE_ASSIGN(const LogitsView logits,
                 forward(m_cold, tokens, m_cold.table, isLast, m_proof.coldMs));
  cache.advance(m_cold, tokens);
  VITRINE_TRY(compareFullBlocks());
  if (!isLast) return {};
  m_coldLogits.assign(logits.row(0).begin(), logits.row(0).end());
  m_phase = Phase::kCached;
  return {};
}

Result<void> CacheCheck::compareFullBlocks() {
  const int ready = std::min(m_cold.computed, m_matched) / m_blockSize;
  for (; m_comparedBlocks < ready; ++m_comparedBlocks) {
    const auto index = static_cast<std::size_t>(m_comparedBlocks);
    VITRINE_ASSIGN(const auto cold, read(m_cold.table[index]));
    VITRINE_ASSIGN(const auto cached, read(m_cached.table[index]));
    if (cold != cached) ++m_proof.differentBlocks;
  }
  return {};
}

/// A block that is cached in part. Which of its bytes belong to the cached positions only the
/// backend knows, so they are computed twice, into a block of zeros and into one of ones: what is
/// equal in both was written, and is compared.
Result<void> CacheCheck::checkTail(KvCache& cache) {
  const auto index = static_cast<std::size_t>(m_matched / m_blockSize);
  const int tokens = m_matched - m_cold.computed;
  std::vector<BlockId> table(m_cold.table.begin(),
                             m_cold.table.begin() + static_cast<std::ptrdiff_t>(index));
  table.push_back(m_scratch);
  double unused = 0;
  VITRINE_TRY(fill(m_scratch, std::byte{1}));
  VITRINE_TRY(forward(m_cold, tokens, table, false, unused));
  VITRINE_TRY(fill(m_cold.table[index], std::byte{0}));
  VITRINE_TRY(forward(m_cold, tokens, m_cold.table, false, m_proof.coldMs));
  m_lastTokens = 2 * tokens;
  cache.advance(m_cold, tokens);
  VITRINE_ASSIGN(const auto onOnes, read(m_scratch));
  VITRINE_ASSIGN(const auto onZeros, read(m_cold.table[index]));
  VITRINE_ASSIGN(const auto cached, read(m_cached.table[index]));
  for (std::size_t i = 0; i < cached.size(); ++i) {
    if (onOnes[i] != onZeros[i] || onZeros[i] == cached[i]) continue;
    ++m_proof.differentBlocks;
    break;
  }
  m_phase = Phase::kCold;
  return {};
}

/// What a turn would compute: the rest of the prompt, on the cached blocks.
Result<void> CacheCheck::stepCached(KvCache& cache, int chunk) {
  const int tokens = std::min(chunk, m_promptTokens - m_cached.computed);
  const bool isLast = m_cached.computed + tokens == m_promptTokens;
  VITRINE_ASSIGN(const LogitsView logits,
                 forward(m_cached, tokens, m_cached.table, isLast, m_proof.cachedMs));
  cache.advance(m_cached, tokens);
  if (!isLast) return {};
  compareLogits(m_coldLogits, logits.row(0));
  m_phase = Phase::kContinued;
  return {};
}

/// Both are fed the token that the cold one prefers, so that every position can be compared.
void CacheCheck::compareLogits(std::span<const float> cold, std::span<const float> cached) {
  for (std::size_t i = 0; i < cold.size(); ++i) {
    const double difference = std::abs(static_cast<double>(cold[i]) - cached[i]);
    m_proof.largestLogitDifference = std::max(m_proof.largestLogitDifference, difference);
  }
  m_proof.klMean += divergence(cold, cached);
  const TokenId next = best(cold);
  if (best(cached) != next && m_proof.firstDifferentToken < 0) {
    m_proof.firstDifferentToken = m_proof.continuedTokens;
  }
  ++m_proof.continuedTokens;
  --m_toContinue;
  m_cold.tokens.push_back(next);
  m_cached.tokens.push_back(next);
}

Result<void> CacheCheck::stepContinued(KvCache& cache) {
  std::vector<BatchSequence> batch;
  for (const Sequence* sequence : {&m_cold, &m_cached}) {
    BatchSequence& entry = batch.emplace_back();
    entry.tokens = std::span(sequence->tokens).last(1);
    entry.firstPosition = sequence->computed;
    entry.blockTable = sequence->table;
    entry.logitRows = 1;
  }
  m_lastTokens = 2;
  VITRINE_ASSIGN(const LogitsView logits, m_backend->forward(batch));
  cache.advance(m_cold, 1);
  cache.advance(m_cached, 1);
  compareLogits(logits.row(0), logits.row(1));
  return {};
}

Result<void> CacheCheck::fill(BlockId block, std::byte value) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(m_backend->memory().kvBytesPerBlock),
                                     value);
  return m_backend->writeBlock(block, bytes);
}

Result<std::vector<std::byte>> CacheCheck::read(BlockId block) const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(m_backend->memory().kvBytesPerBlock));
  VITRINE_TRY(m_backend->readBlock(block, bytes));
  return bytes;
}

}  // namespace vitrine::engine

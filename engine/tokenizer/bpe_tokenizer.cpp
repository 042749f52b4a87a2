#include "engine/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>

#include "engine/base/display_text.h"
#include "engine/model/gguf_file.h"
#include "engine/tokenizer/byte_alphabet.h"

namespace vitrine::engine {
namespace {

/// "<0x0A>": how some vocabularies write a token for a byte.
std::optional<std::string> byteOfHex(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>') {
    return std::nullopt;
  }
  int value = 0;
  for (const char c : spelling.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                             : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + digit;
  }
  return std::string(1, static_cast<char>(value));
}

std::string bytesOfToken(std::string_view spelling, TokenKind kind) {
  switch (kind) {
    case TokenKind::kControl:
    case TokenKind::kUnknown:
      return {};
    case TokenKind::kUserDefined:
      return std::string(spelling);
    case TokenKind::kByte:
      if (auto byte = byteOfHex(spelling)) return *byte;
      break;
    case TokenKind::kNormal:
    case TokenKind::kUnused:
      break;
  }
  // Spelled outside of the alphabet: an added token that a conversion marked as ordinary.
  return bytesOfSpelling(spelling).value_or(std::string(spelling));
}

/// Whether a byte can be part of text that somebody writes: not control characters, not what UTF-8
/// never uses, not the planes without characters (U+40000 to U+BFFFF).
bool isInText(int byte) {
  if (byte < 0x20) return byte == '\t' || byte == '\n' || byte == '\r';
  return byte != 0x7F && byte != 0xC0 && byte != 0xC1 && byte != 0xF1 && byte != 0xF2 &&
         byte < 0xF5;
}

}  // namespace

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += bytes(id);
  return text;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::fromGguf(const GgufFile& file,
                                                       std::vector<std::string>& warnings) {
  VITRINE_ASSIGN(const auto model, file.text("tokenizer.ggml.model"));
  if (!model) {
    return fail(ErrorCode::kInvalidFile, "{} holds no tokenizer (tokenizer.ggml.model is missing)",
                displayPath(file.path()));
  }
  if (*model != "gpt2") {
    return fail(ErrorCode::kUnsupported,
                "{}: the tokenizer type {} is not supported yet; gpt2 (byte-level BPE) is",
                displayPath(file.path()), displayText(*model));
  }
  VITRINE_ASSIGN(auto made, BpeTokenizer::fromGguf(file, warnings));
  return std::unique_ptr<Tokenizer>(std::move(made));
}

Result<std::unique_ptr<BpeTokenizer>> BpeTokenizer::fromGguf(const GgufFile& file,
                                                             std::vector<std::string>& warnings) {
  std::unique_ptr<BpeTokenizer> made(new BpeTokenizer);
  VITRINE_TRY(made->readVocabulary(file));
  VITRINE_TRY(made->readMerges(file, warnings));
  VITRINE_TRY(made->readPreTokenizer(file, warnings));
  VITRINE_TRY(made->readSpecialIds(file, warnings));
  VITRINE_TRY(made->promoteTemplateMarkers(file));
  made->buildMatchers();
  return made;
}

Result<void> BpeTokenizer::readVocabulary(const GgufFile& file) {
  VITRINE_ASSIGN(const GgufArray* tokens, file.array("tokenizer.ggml.tokens"));
  VITRINE_ASSIGN(const GgufArray* types, file.array("tokenizer.ggml.token_type"));
  const std::string name = displayPath(file.path());
  if (tokens == nullptr || tokens->elementType != GgufType::kString || tokens->count == 0) {
    return fail(ErrorCode::kInvalidFile, "{}: tokenizer.ggml.tokens is {}", name,
                tokens == nullptr    ? "missing"
                : tokens->count == 0 ? "empty"
                                     : "not a list of texts");
  }
  const std::size_t n = tokens->strings.size();
  if (types != nullptr && (!types->holdsIntegers() || types->count != n)) {
    return fail(ErrorCode::kInvalidFile,
                "{}: tokenizer.ggml.token_type must be {} integers, one a token; it is {} elements "
                "of type {}",
                name, n, types->count, nameOf(types->elementType));
  }
  m_kinds.resize(n, TokenKind::kNormal);
  std::size_t arenaBytes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    // A token's bytes are never longer than its spelling.
    arenaBytes += 2 * tokens->strings[i].size();
    if (types == nullptr) continue;
    const std::int64_t kind = types->integer(i);
    if (kind >= 1 && kind <= 6) m_kinds[i] = static_cast<TokenKind>(kind);
  }
  m_arena.reserve(arenaBytes);  // views must stay where they are
  const auto keep = [this](std::string_view text) {
    m_arena += text;
    return std::string_view(m_arena).substr(m_arena.size() - text.size());
  };
  m_pieces.reserve(n);
  m_bytes.reserve(n);
  m_ids.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::string_view piece = keep(tokens->strings[i]);
    m_pieces.push_back(piece);
    m_ids.emplace(piece, static_cast<TokenId>(i));  // of equal spellings the first counts
    m_bytes.push_back(keep(bytesOfToken(piece, m_kinds[i])));
  }
  return {};
}

Result<void> BpeTokenizer::readMerges(const GgufFile& file, std::vector<std::string>& warnings) {
  std::array<TokenId, 256> byteIds;
  m_reachable.resize(m_pieces.size(), false);
  int nMissing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = m_ids.find(byteLetter(static_cast<unsigned char>(byte)));
    byteIds[static_cast<std::size_t>(byte)] = found == m_ids.end() ? -1 : found->second;
    if (found == m_ids.end()) {
      if (isInText(byte)) ++nMissing;
    } else {
      m_reachable[static_cast<std::size_t>(found->second)] = true;
    }
  }
  if (std::all_of(byteIds.begin(), byteIds.end(), [](TokenId id) { return id < 0; })) {
    return fail(ErrorCode::kInvalidFile,
                "{}: the vocabulary is not a byte-level one: it has no "
                "tokens for single bytes",
                displayPath(file.path()));
  }
  if (nMissing > 0) {
    warnings.push_back(
        fmt::format("The vocabulary has no token for {} of the 256 bytes; text that "
                    "needs them is not passed to the model whole.",
                    nMissing));
  }
  VITRINE_ASSIGN(const GgufArray* merges, file.array("tokenizer.ggml.merges"));
  if (merges == nullptr || merges->elementType != GgufType::kString) {
    return fail(ErrorCode::kInvalidFile, "{}: tokenizer.ggml.merges is {}",
                displayPath(file.path()), merges == nullptr ? "missing" : "not a list of texts");
  }
  m_merges = std::make_unique<BpeMerges>(byteIds, merges->strings.size());
  std::size_t nUnusable = 0;
  std::string joined;
  for (std::size_t rank = 0; rank < merges->strings.size(); ++rank) {
    const std::string_view merge = merges->strings[rank];
    const std::size_t space = merge.find(' ', 1);
    if (merge.empty() || space == std::string_view::npos) {
      return fail(ErrorCode::kInvalidFile,
                  "{}: merge {} of tokenizer.ggml.merges is \"{}\", not two "
                  "tokens with a space between",
                  displayPath(file.path()), rank, displayText(merge));
    }
    joined.assign(merge.substr(0, space)).append(merge.substr(space + 1));
    const auto left = m_ids.find(merge.substr(0, space));
    const auto right = m_ids.find(merge.substr(space + 1));
    const auto result = m_ids.find(joined);
    if (left == m_ids.end() || right == m_ids.end() || result == m_ids.end()) {
      ++nUnusable;
      continue;
    }
    m_merges->add(left->second, right->second, result->second, static_cast<std::uint32_t>(rank));
    m_reachable[static_cast<std::size_t>(result->second)] = true;
  }
  if (nUnusable > 0) {
    warnings.push_back(
        fmt::format("{} of the tokenizer's {} merges name tokens that the vocabulary "
                    "does not have and are left out.",
                    nUnusable, merges->strings.size()));
  }
  return {};
}

Result<void> BpeTokenizer::readPreTokenizer(const GgufFile& file,
                                            std::vector<std::string>& warnings) {
  VITRINE_ASSIGN(const auto name, file.text("tokenizer.ggml.pre"));
  const PreTokenizerRule* rule = name ? findPreTokenizerRule(*name) : nullptr;
  if (rule == nullptr) {
    rule = &preTokenizerRules().front();
    warnings.push_back(
        name
            ? fmt::format(
                  "The file asks for the pre-tokenizer \"{}\", which is not known here; {}'s "
                  "rules are used, so answers may be worse.",
                  displayText(*name), rule->family)
            : fmt::format("The file does not say how text is cut into words (tokenizer.ggml.pre is "
                          "missing); {}'s rules are used, so answers may be worse.",
                          rule->family));
  }
  VITRINE_ASSIGN(m_preTokenizer, PreTokenizer::compile(*rule));
  m_wholePieceFirst = rule->wholePieceFirst;
  VITRINE_ASSIGN(const auto addsBos, file.boolean("tokenizer.ggml.add_bos_token"));
  m_addsBos = addsBos.value_or(rule->addsBos);
  return {};
}

Result<void> BpeTokenizer::readSpecialIds(const GgufFile& file,
                                          std::vector<std::string>& warnings) {
  const std::pair<const char*, std::optional<TokenId>*> keys[] = {
      {"tokenizer.ggml.bos_token_id", &m_bos},
      {"tokenizer.ggml.eos_token_id", &m_eos},
      {"tokenizer.ggml.eot_token_id", &m_eot},
  };
  for (const auto& [key, id] : keys) {
    VITRINE_ASSIGN(const auto value, file.integer(key));
    if (!value) continue;
    if (*value < m_kinds.size()) {
      *id = static_cast<TokenId>(*value);
    } else if (*value != 0xFFFFFFFFU && *value != 0xFFFFFFFFFFFFFFFFU) {  // those mean "none"
      warnings.push_back(fmt::format("{} is {}, but the vocabulary has {} tokens; it is ignored.",
                                     key, *value, m_kinds.size()));
    }
  }
  if (!m_bos) m_addsBos = false;
  return {};
}

// Conversions exist that list the template's markers as ordinary tokens. Such a token is known by
// this: it is spelled like a marker, the template's source holds it, and no merge leads to it.
Result<void> BpeTokenizer::promoteTemplateMarkers(const GgufFile& file) {
  VITRINE_ASSIGN(const auto source, file.text("tokenizer.chat_template"));
  if (!source) return {};
  for (std::size_t i = 0; i < m_pieces.size(); ++i) {
    const std::string_view piece = m_pieces[i];
    const bool markerLike = piece.size() >= 4 && ((piece.front() == '<' && piece.back() == '>') ||
                                                  (piece.front() == '[' && piece.back() == ']'));
    if (!markerLike || m_kinds[i] != TokenKind::kNormal || m_reachable[i]) continue;
    if (source->find(piece) != std::string_view::npos) markControl(static_cast<TokenId>(i));
  }
  return {};
}

void BpeTokenizer::markControl(TokenId id) {
  if (!isValid(id)) return;
  const auto i = static_cast<std::size_t>(id);
  if (m_kinds[i] == TokenKind::kControl) return;
  m_kinds[i] = TokenKind::kControl;
  m_bytes[i] = {};
  buildMatchers();
}

void BpeTokenizer::buildMatchers() {
  m_addedMatcher = {};
  m_userDefinedMatcher = {};
  for (std::size_t i = 0; i < m_kinds.size(); ++i) {
    const bool userDefined = m_kinds[i] == TokenKind::kUserDefined;
    if (!userDefined && m_kinds[i] != TokenKind::kControl) continue;
    m_addedMatcher.add(m_pieces[i], static_cast<TokenId>(i));
    if (userDefined) m_userDefinedMatcher.add(m_pieces[i], static_cast<TokenId>(i));
  }
}

// ---------------------------------------------------------------- text to tokens

void BpeTokenizer::encodeRun(std::string_view text, std::vector<TokenId>& ids) const {
  const auto encodeWords = [&](std::string_view words) {
    if (words.empty()) return;
    m_preTokenizer->split(words, [&](std::string_view piece) {
      if (m_wholePieceFirst) {
        const auto whole = m_ids.find(spellingOfBytes(piece));
        if (whole != m_ids.end() &&
            m_kinds[static_cast<std::size_t>(whole->second)] == TokenKind::kNormal) {
          ids.push_back(whole->second);
          return;
        }
      }
      m_merges->encode(piece, ids);
    });
  };
  if (m_userDefinedMatcher.empty()) {
    encodeWords(text);
    return;
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto match = m_userDefinedMatcher.longestPrefix(text.substr(i));
    if (!match) {
      ++i;
      continue;
    }
    encodeWords(text.substr(begin, i - begin));
    ids.push_back(match->id);
    i += match->bytes;
    begin = i;
  }
  encodeWords(text.substr(begin));
}

void BpeTokenizer::scanTemplateText(std::string_view text, std::string& run,
                                    std::vector<TokenId>& ids) const {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    const auto match = m_addedMatcher.longestPrefix(text.substr(i));
    if (!match) {
      ++i;
      continue;
    }
    if (!isControl(match->id)) {  // user-defined: encodeRun() finds it again
      i += match->bytes;
      continue;
    }
    run += text.substr(begin, i - begin);
    encodeRun(run, ids);
    run.clear();
    ids.push_back(match->id);
    i += match->bytes;
    begin = i;
  }
  run += text.substr(begin);
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  encodeRun(text, ids);
  return ids;
}

std::vector<TokenId> BpeTokenizer::encodeWithControlTokens(std::string_view text) const {
  std::vector<TokenId> ids;
  std::string run;
  scanTemplateText(text, run, ids);
  encodeRun(run, ids);
  return ids;
}

std::vector<TokenId> BpeTokenizer::encode(const PromptPieces& pieces,
                                          std::span<const ChatMessage> messages) const {
  std::vector<TokenId> ids;
  std::string run;  // text since the last control token or given ids
  for (std::size_t i = 0; i < pieces.size();) {
    const PromptPiece& piece = pieces[i];
    if (piece.message < 0) {
      // A marker may be written in several steps ('<|' + role + '|>'): all of the template's own
      // text up to the next content is looked at together.
      std::string own;
      for (; i < pieces.size() && pieces[i].message < 0; ++i) own += pieces[i].text;
      scanTemplateText(own, run, ids);
      continue;
    }
    ++i;
    const auto index = static_cast<std::size_t>(piece.message);
    if (piece.wholeContent && index < messages.size() && !messages[index].tokens.empty()) {
      encodeRun(run, ids);
      run.clear();
      ids.insert(ids.end(), messages[index].tokens.begin(), messages[index].tokens.end());
    } else {
      run += piece.text;
    }
  }
  encodeRun(run, ids);
  return ids;
}

// ---------------------------------------------------------------- tokens to text

std::string_view BpeTokenizer::bytes(TokenId id) const {
  return isValid(id) ? m_bytes[static_cast<std::size_t>(id)] : std::string_view();
}

std::string_view BpeTokenizer::piece(TokenId id) const {
  return isValid(id) ? m_pieces[static_cast<std::size_t>(id)] : std::string_view();
}

bool BpeTokenizer::isControl(TokenId id) const {
  if (!isValid(id)) return false;
  const TokenKind kind = m_kinds[static_cast<std::size_t>(id)];
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

std::optional<TokenId> BpeTokenizer::find(std::string_view piece) const {
  const auto found = m_ids.find(piece);
  return found == m_ids.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace vitrine::engine

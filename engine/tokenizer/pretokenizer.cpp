#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/tokenizer/pretokenizer.h"

#include <pcre2.h>

#include <cstdint>
#include <string>

#include "engine/base/utf8.h"

namespace vitrine::engine {
namespace {

// White space as the original tokenizers' regular expressions know it (Unicode White_Space).
// PCRE2's own \s would also match U+180E.
#define SPACE_SET                                                                             \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
  "\\x{205f}\\x{3000}"
#define SPACE "[" SPACE_SET "]"
#define NOT_SPACE "[^" SPACE_SET "]"
#define SPACE_RUNS SPACE "+(?!" NOT_SPACE ")|" SPACE "+"

// GPT-2 (Radford et al. 2019, encoder.py).
#define GPT2 \
  "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE_SET "\\p{L}\\p{N}]+|" SPACE_RUNS
// GPT-4's cl100k and its descendants differ in how many digits go together.
#define CL100K(digits)                                                                   \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^" SPACE_SET \
  "\\p{L}\\p{N}]+[\\r\\n]*|" SPACE "*[\\r\\n]+|" SPACE_RUNS
// GPT-4o's o200k: words are cut where case changes.
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K(contraction, digits)                                                         \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" contraction "|[^\\r\\n\\p{L}\\p{N}]?" UPPER \
  "+" LOWER "*" contraction "|" digits "| ?[^" SPACE_SET "\\p{L}\\p{N}]+[\\r\\n/]*|" SPACE \
  "*[\\r\\n]+|" SPACE_RUNS

const std::vector<PreTokenizerRule>& rules() {
  static const std::vector<PreTokenizerRule> table = {
      {"gpt-2",
       {"gpt-2", "phi-2", "mpt", "olmo", "jais", "roberta-bpe", "modern-bert", "mellum", "gigachat",
        "a.x-4.0"},
       {GPT2}},
      {"smollm",  // each digit alone, then GPT-2
       {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"},
       {"\\p{N}", GPT2}},
      {"llama-bpe",
       {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2", "falcon-h1", "midm-2.0"},
       {CL100K("\\p{N}{1,3}")},
       true,
       true},
      {"dbrx", {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {CL100K("\\p{N}{1,3}")}},
      {"qwen2", {"qwen2", "stablelm2", "deepseek-r1-qwen", "kormo"}, {CL100K("\\p{N}")}},
      {"gpt-4o", {"gpt-4o", "llama4"}, {O200K("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "\\p{N}{1,3}")}},
      {"tekken", {"tekken"}, {O200K("", "\\p{N}")}, true},
      {"deepseek-coder",
       {"deepseek-coder"},
       {"[\\r\\n]", SPACE "?\\p{L}+", SPACE "?\\p{P}+",
        "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+", "\\p{N}"}},
      {"deepseek-v3",
       {"deepseek-v3"},
       {"\\p{N}{1,3}", "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"
        "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACE "*[\\r\\n]+|" SPACE_RUNS}},
  };
  return table;
}

// The most that a match may use of heap when JIT is not there or its stack ran out.
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;
constexpr std::size_t kJitStackBytes = 1024 * 1024;

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
using Code = std::unique_ptr<pcre2_code, CodeFree>;

/// What one call of split() needs of its own.
struct MatchState {
  explicit MatchState(std::size_t nExpressions) {
    context = pcre2_match_context_create(nullptr);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    for (std::size_t i = 0; i < nExpressions; ++i) {
      data.push_back(pcre2_match_data_create(1, nullptr));
    }
  }
  ~MatchState() {
    for (pcre2_match_data* each : data) pcre2_match_data_free(each);
    pcre2_match_context_free(context);
    if (jitStack != nullptr) pcre2_jit_stack_free(jitStack);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

  pcre2_match_context* context;
  pcre2_jit_stack* jitStack = nullptr;  // beside the 32 KiB that JIT code has anyhow
  std::vector<pcre2_match_data*> data;  // one an expression: they are nested
};

std::size_t characterBytes(std::string_view text) {
  return utf8Step(text).bytes;
}

}  // namespace

struct PreTokenizer::Impl {
  std::vector<Code> codes;

  // `text` is valid UTF-8.
  void apply(std::size_t i, std::string_view text, MatchState& state, const Piece& piece) const {
    if (i == codes.size()) {
      piece(text);
      return;
    }
    std::size_t done = 0;
    for (std::size_t from = 0; from < text.size();) {
      const auto [begin, end] = find(i, text, from, state);
      if (begin == text.size()) break;
      if (begin > done) apply(i + 1, text.substr(done, begin - done), state, piece);
      apply(i + 1, text.substr(begin, end - begin), state, piece);
      from = done = end;
    }
    if (done < text.size()) apply(i + 1, text.substr(done), state, piece);
  }

  // The first match at or after `from`; [size, size) for none. Never empty.
  std::pair<std::size_t, std::size_t> find(std::size_t i, std::string_view text, std::size_t from,
                                           MatchState& state) const {
    const auto match = [&](std::uint32_t options) {
      return pcre2_match(codes[i].get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                         from, options | PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, state.data[i],
                         state.context);
    };
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && state.jitStack == nullptr) {
      state.jitStack = pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr);
      pcre2_jit_stack_assign(state.context, nullptr, state.jitStack);
      result = match(0);
    }
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return {text.size(), text.size()};
    if (result < 0) {
      // A limit was reached, which no expression of the table is known to do: go on after one
      // character, so that no text is lost.
      return {from, from + characterBytes(text.substr(from))};
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(state.data[i]);
    return {ends[0], ends[1]};
  }
};

PreTokenizer::PreTokenizer() : m_impl(std::make_unique<Impl>()) {}
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::compile(const PreTokenizerRule& rule) {
  std::unique_ptr<PreTokenizer> made(new PreTokenizer);
  for (const std::string& expression : rule.expressions) {
    int error = 0;
    PCRE2_SIZE at = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                            PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
    if (!code) {
      return fail(ErrorCode::kInternal, "pre-tokenizer {}: error {} at {} in {}", rule.family,
                  error, at, expression);
    }
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without JIT it is slower, not wrong
    made->m_impl->codes.push_back(std::move(code));
  }
  return made;
}

void PreTokenizer::split(std::string_view text, const Piece& piece) const {
  MatchState state(m_impl->codes.size());
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size();) {
    // Runs of ASCII are the common case and need no decoding.
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    Utf8Step step = utf8Step(text.substr(i));
    if (step.valid) {
      i += step.bytes;
      continue;
    }
    if (i > begin) m_impl->apply(0, text.substr(begin, i - begin), state, piece);
    begin = i;
    while (i < text.size() && !(step = utf8Step(text.substr(i))).valid) i += step.bytes;
    piece(text.substr(begin, i - begin));
    begin = i;
  }
  if (begin < text.size()) m_impl->apply(0, text.substr(begin), state, piece);
}

std::span<const PreTokenizerRule> preTokenizerRules() {
  return rules();
}

const PreTokenizerRule* findPreTokenizerRule(std::string_view name) {
  for (const PreTokenizerRule& rule : rules()) {
    for (const std::string_view each : rule.names) {
      if (each == name) return &rule;
    }
  }
  return nullptr;
}

}  // namespace vitrine::engine

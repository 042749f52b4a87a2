#include "engine/tokenizer/utf8_stream.h"

#include "engine/base/utf8.h"

namespace vitrine::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string Utf8Stream::append(std::string_view bytes) {
  const std::string joined = std::move(m_pending) + std::string(bytes);
  m_pending.clear();
  std::string whole;
  whole.reserve(joined.size());
  for (std::size_t i = 0; i < joined.size();) {
    const std::string_view rest = std::string_view(joined).substr(i);
    const Utf8Step step = utf8Step(rest);
    if (step.incomplete) {
      m_pending = rest;
      break;
    }
    whole += step.valid ? rest.substr(0, step.bytes) : kReplacement;
    i += step.bytes;
  }
  return whole;
}

std::string Utf8Stream::finish() {
  if (m_pending.empty()) return {};
  m_pending.clear();
  return std::string(kReplacement);
}

}  // namespace vitrine::engine

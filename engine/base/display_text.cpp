#include "engine/base/display_text.h"

#include <limits>

#include "engine/base/utf8.h"

namespace vitrine::engine {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

std::string validUtf8(std::string_view text) {
  std::string valid;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8Step(text.substr(i));
    valid += step.valid ? text.substr(i, step.bytes) : kReplacement;
    i += step.bytes;
  }
  return valid;
}

std::string displayText(std::string_view text, std::size_t maxBytes) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Step step = utf8Step(text.substr(i));
    if (shown.size() + step.bytes > maxBytes) return shown + "…";
    const auto first = static_cast<unsigned char>(text[i]);
    if (!step.valid) {
      shown += kReplacement;
    } else if (first < 0x20 || first == 0x7F) {
      shown += ' ';
    } else {
      shown += text.substr(i, step.bytes);
    }
    i += step.bytes;
  }
  return shown;
}

std::string displayPath(const std::filesystem::path& path) {
  return "\"" + displayText(path.native(), std::numeric_limits<std::size_t>::max()) + "\"";
}

}  // namespace vitrine::engine

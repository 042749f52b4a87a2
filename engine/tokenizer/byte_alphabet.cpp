#include "engine/tokenizer/byte_alphabet.h"

#include <array>

#include "engine/base/utf8.h"

namespace vitrine::engine {
namespace {

struct Alphabet {
  std::array<std::string, 256> letters;  // UTF-8, one or two bytes
  std::array<int, 0x180> bytes;          // by code point; -1: not of the alphabet

  Alphabet() {
    bytes.fill(-1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                          (byte >= 0xAE && byte <= 0xFF);
      const int codePoint = itself ? byte : next++;
      bytes[static_cast<std::size_t>(codePoint)] = byte;
      std::string& letter = letters[static_cast<std::size_t>(byte)];
      if (codePoint < 0x80) {
        letter = static_cast<char>(codePoint);
      } else {
        letter = static_cast<char>(0xC0 | (codePoint >> 6));
        letter += static_cast<char>(0x80 | (codePoint & 0x3F));
      }
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

std::string_view byteLetter(unsigned char byte) {
  return alphabet().letters[byte];
}

std::optional<std::string> bytesOfSpelling(std::string_view spelling) {
  const Alphabet& table = alphabet();
  std::string bytes;
  bytes.reserve(spelling.size());
  for (std::size_t i = 0; i < spelling.size();) {
    const auto first = static_cast<unsigned char>(spelling[i]);
    unsigned codePoint = first;
    std::size_t length = 1;
    if (first >= 0x80) {
      const Utf8Step step = utf8Step(spelling.substr(i));
      if (!step.valid || step.bytes != 2) return std::nullopt;
      length = 2;
      codePoint = (first & 0x1FU) << 6 | (static_cast<unsigned char>(spelling[i + 1]) & 0x3FU);
    }
    if (codePoint >= table.bytes.size() || table.bytes[codePoint] < 0) return std::nullopt;
    bytes += static_cast<char>(table.bytes[codePoint]);
    i += length;
  }
  return bytes;
}

std::string spellingOfBytes(std::string_view bytes) {
  std::string spelling;
  for (const char c : bytes) spelling += byteLetter(static_cast<unsigned char>(c));
  return spelling;
}

}  // namespace vitrine::engine

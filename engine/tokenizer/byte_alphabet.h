#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vitrine::engine {

/// The letters in which byte-level vocabularies spell bytes (GPT-2's encoder.py): printable
/// Latin-1 characters stand for themselves, the others for U+0100 and on ("Ġ" is a space).
std::string_view byteLetter(unsigned char byte);

/// The bytes that a vocabulary's spelling stands for; nullopt if a character is not of the
/// alphabet.
std::optional<std::string> bytesOfSpelling(std::string_view spelling);
/// The other way round.
std::string spellingOfBytes(std::string_view bytes);

}  // namespace vitrine::engine

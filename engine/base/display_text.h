#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace vitrine::engine {

/// Text from an untrusted file, made fit for a message: invalid UTF-8 becomes U+FFFD, control
/// characters become spaces, more than `maxBytes` bytes are cut with "…".
std::string displayText(std::string_view text, std::size_t maxBytes = 120);

/// The text with U+FFFD in place of bytes that are no UTF-8; otherwise as it is.
std::string validUtf8(std::string_view text);

/// A path as a person should read it, in quotes: any bytes, never cut.
std::string displayPath(const std::filesystem::path& path);

}  // namespace vitrine::engine

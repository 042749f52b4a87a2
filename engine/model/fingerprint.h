#pragma once

#include <string>

namespace vitrine::engine {

class GgufFile;

/// 128 bits in hex over the headers of all parts and, of each tensor, its place, size and some
/// bytes at its beginning, middle and end. Tells models apart; not made against attackers.
std::string fingerprintOf(const GgufFile& file);

}  // namespace vitrine::engine

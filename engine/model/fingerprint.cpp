#include "engine/model/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/model/gguf_file.h"

namespace vitrine::engine {
namespace {

/// Two 64-bit lanes with different odd multipliers, mixed at the end.
class Hasher {
 public:
  void add(std::uint64_t word) {
    m_a = std::rotl((m_a ^ word) * 0x9E3779B97F4A7C15ULL, 29);
    m_b = std::rotl((m_b + word) * 0xD6E8FEB86659FD93ULL, 31) ^ m_a;
  }
  void add(const std::byte* data, std::size_t bytes) {
    add(bytes);
    for (; bytes >= 8; data += 8, bytes -= 8) {
      std::uint64_t word;
      std::memcpy(&word, data, 8);
      add(word);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, data, bytes);
    add(rest);
  }
  std::string hex() {
    for (int i = 0; i < 4; ++i) add(0);
    return fmt::format("{:016x}{:016x}", m_a, m_b);
  }

 private:
  std::uint64_t m_a = 0x243F6A8885A308D3ULL;  // digits of pi
  std::uint64_t m_b = 0x13198A2E03707344ULL;
};

}  // namespace

std::string fingerprintOf(const GgufFile& file) {
  constexpr std::size_t kSample = 64;
  Hasher hasher;
  for (int part = 0; part < file.nParts(); ++part) {
    const auto header = file.header(part);
    hasher.add(header.data(), header.size());
  }
  for (const GgufTensor& tensor : file.tensors()) {
    hasher.add(tensor.bytes);
    const std::size_t sample = std::min<std::size_t>(kSample, tensor.bytes);
    for (const std::size_t at :
         {std::size_t{0}, (tensor.bytes - sample) / 2, tensor.bytes - sample}) {
      hasher.add(tensor.data + at, sample);
    }
  }
  return hasher.hex();
}

}  // namespace vitrine::engine

#include "engine/cache/archive_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace vitrine::engine {

const char* const kTemporaryPrefix = ".writing-";

namespace {

constexpr char kMagic[8] = {'V', 't', 'r', 'K', 'v', 'A', 'r', 'c'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint64_t kMostBlocks = 1 << 22;
constexpr std::uint32_t kMostText = 1 << 16;
constexpr std::uint32_t kMostBlockSize = 1024;

/// The fixed beginning of a file; little endian, as every machine that this runs on.
struct Preamble {
  char magic[8];
  std::uint32_t version;
  std::uint32_t blockSize;
  std::uint64_t blockBytes;
  std::uint64_t nBlocks;
  std::uint64_t indexBytes;
  std::uint64_t fileBytes;
  std::uint64_t indexChecksum;  // XXH3 of the index
  std::uint64_t checksum;       // XXH3 of all above
};
static_assert(sizeof(Preamble) == 64);

std::uint64_t checksumOf(const Preamble& preamble) {
  return XXH3_64bits(&preamble, offsetof(Preamble, checksum));
}

/// Reads exactly so many bytes; kInvalidFile where the file ends before.
Result<void> readAt(int fd, std::uint64_t offset, void* to, std::uint64_t bytes,
                    const std::filesystem::path& path) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd, at, static_cast<std::size_t>(bytes), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), std::strerror(errno));
    }
    if (got == 0) {
      return fail(ErrorCode::kInvalidFile, "{} ends {} bytes too early", path.string(), bytes);
    }
    at += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> writeAt(int fd, std::uint64_t offset, const void* from, std::uint64_t bytes,
                     const std::filesystem::path& path) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = pwrite(fd, at, static_cast<std::size_t>(bytes), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      return fail(ErrorCode::kIo, "cannot write {}: {}", path.string(),
                  put < 0 ? std::strerror(errno) : "nothing was written");
    }
    at += put;
    offset += static_cast<std::uint64_t>(put);
    bytes -= static_cast<std::uint64_t>(put);
  }
  return {};
}

// ---------------------------------------------------------------- the index

class IndexWriter {
 public:
  template <typename T>
  void put(const T& value) {
    const auto* at = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), at, at + sizeof(T));
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    const auto* at = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), at, at + text.size());
  }
  std::vector<std::byte> bytes;
};

/// Takes values from bytes that nobody vouches for; `good` turns false at the first that is
/// missing.
class IndexReader {
 public:
  explicit IndexReader(std::span<const std::byte> bytes) : m_rest(bytes) {}

  template <typename T>
  T take() {
    T value{};
    if (m_rest.size() < sizeof(T)) {
      good = false;
      return value;
    }
    std::memcpy(&value, m_rest.data(), sizeof(T));
    m_rest = m_rest.subspan(sizeof(T));
    return value;
  }
  std::string takeText() {
    const auto length = take<std::uint32_t>();
    if (length > kMostText || length > m_rest.size()) good = false;
    if (!good) return {};
    std::string text(reinterpret_cast<const char*>(m_rest.data()), length);
    m_rest = m_rest.subspan(length);
    return text;
  }
  bool atEnd() const { return m_rest.empty(); }

  bool good = true;

 private:
  std::span<const std::byte> m_rest;
};

std::vector<std::byte> writeIndex(const ArchiveHeader& header) {
  IndexWriter out;
  out.put(header.settings);
  out.put(header.conversation);
  out.put(header.prefillMsPerToken);
  for (int i = 0; i < header.tree.size(); ++i) {
    const ArchivedBlock& block = header.tree.block(i);
    out.put(block.parent);
    out.put(static_cast<std::uint32_t>(block.tokens.size()));
    for (const TokenId token : block.tokens) out.put(token);
    out.put(block.checksum);
  }
  return std::move(out.bytes);
}

/// False where it makes no sense.
bool readIndex(std::span<const std::byte> bytes, std::uint64_t nBlocks, ArchiveHeader& header) {
  IndexReader in(bytes);
  header.settings = in.takeText();
  header.conversation = in.takeText();
  header.prefillMsPerToken = in.take<double>();
  if (!(header.prefillMsPerToken >= 0 && header.prefillMsPerToken < 1e9)) return false;
  std::vector<TokenId> tokens;
  for (std::uint64_t i = 0; i < nBlocks && in.good; ++i) {
    const auto parent = in.take<std::int32_t>();
    const auto count = in.take<std::uint32_t>();
    if (!in.good || count < 1 || count > static_cast<std::uint32_t>(header.tree.blockSize()) ||
        parent < -1 || parent >= header.tree.size() ||
        (parent >= 0 && !header.tree.isFull(parent))) {
      return false;
    }
    tokens.resize(count);
    for (TokenId& token : tokens) token = in.take<TokenId>();
    const auto checksum = in.take<std::uint64_t>();
    if (!in.good) return false;
    header.tree.setChecksum(header.tree.add(parent, tokens), checksum);
  }
  return in.good && in.atEnd();
}

std::uint64_t checksumOf(std::span<const std::byte> bytes, const PrefixHash& hash) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), hash.low ^ hash.high);
}

}  // namespace

// ---------------------------------------------------------------- reading

Result<std::shared_ptr<const ArchiveFile>> ArchiveFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) {
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "cannot open {}: {}",
                path.string(), std::strerror(errno));
  }
  std::shared_ptr<ArchiveFile> file(new ArchiveFile(path, fd));
  VITRINE_TRY(file->readHeader());
  return file;
}

ArchiveFile::~ArchiveFile() {
  close(m_fd);
}

Result<void> ArchiveFile::readHeader() {
  struct stat status {};
  if (fstat(m_fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kIo, "{} is no ordinary file", m_path.string());
  }
  m_fileBytes = static_cast<std::uint64_t>(status.st_size);
  Preamble preamble{};
  VITRINE_TRY(readAt(m_fd, 0, &preamble, sizeof preamble, m_path));
  if (std::memcmp(preamble.magic, kMagic, sizeof kMagic) != 0) {
    return fail(ErrorCode::kInvalidFile, "{} is no KV snapshot", m_path.string());
  }
  if (preamble.checksum != checksumOf(preamble)) {
    return fail(ErrorCode::kInvalidFile, "the header of {} is damaged", m_path.string());
  }
  if (preamble.version != kVersion) {
    return fail(ErrorCode::kInvalidFile, "{} has format {}; this program reads {}", m_path.string(),
                preamble.version, kVersion);
  }
  const auto limit = m_fileBytes;
  if (preamble.fileBytes != m_fileBytes || preamble.nBlocks > kMostBlocks ||
      preamble.blockSize < 1 || preamble.blockSize > kMostBlockSize || preamble.blockBytes < 1 ||
      preamble.blockBytes > limit || preamble.indexBytes > limit ||
      sizeof preamble + preamble.indexBytes + preamble.nBlocks * preamble.blockBytes != limit) {
    return fail(ErrorCode::kInvalidFile, "{} has {} bytes, its header says {}", m_path.string(),
                m_fileBytes, preamble.fileBytes);
  }
  std::vector<std::byte> index(static_cast<std::size_t>(preamble.indexBytes));
  VITRINE_TRY(readAt(m_fd, sizeof preamble, index.data(), index.size(), m_path));
  m_header.blockBytes = preamble.blockBytes;
  m_header.tree = ArchiveTree(static_cast<int>(preamble.blockSize));
  if (XXH3_64bits(index.data(), index.size()) != preamble.indexChecksum ||
      !readIndex(index, preamble.nBlocks, m_header)) {
    return fail(ErrorCode::kInvalidFile, "the index of {} is damaged", m_path.string());
  }
  m_dataOffset = sizeof preamble + preamble.indexBytes;
  return {};
}

Result<void> ArchiveFile::readBlock(int block, std::span<std::byte> bytes) const {
  VITRINE_TRY(readAt(m_fd, offsetOf(block), bytes.data(), bytes.size(), m_path));
  const ArchivedBlock& record = tree().block(block);
  if (checksumOf(bytes, record.hash) != record.checksum) {
    return fail(ErrorCode::kInvalidFile, "block {} of {} is damaged", block, m_path.string());
  }
  return {};
}

Result<void> ArchiveFile::copyBlocks(int first, int count, int toFd, std::uint64_t toOffset) const {
  auto from = static_cast<off_t>(offsetOf(first));
  auto to = static_cast<off_t>(toOffset);
  std::uint64_t left = static_cast<std::uint64_t>(count) * m_header.blockBytes;
  while (left > 0) {  // inside the kernel; file systems that can share the extents
    const ssize_t copied =
        copy_file_range(m_fd, &from, toFd, &to, static_cast<std::size_t>(left), 0);
    if (copied < 0 && errno == EINTR) continue;
    if (copied <= 0) break;
    left -= static_cast<std::uint64_t>(copied);
  }
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<std::uint64_t>(left, 1 << 20)));
  while (left > 0) {
    const std::uint64_t here = std::min<std::uint64_t>(left, buffer.size());
    VITRINE_TRY(readAt(m_fd, static_cast<std::uint64_t>(from), buffer.data(), here, m_path));
    VITRINE_TRY(writeAt(toFd, static_cast<std::uint64_t>(to), buffer.data(), here, m_path));
    from += static_cast<off_t>(here);
    to += static_cast<off_t>(here);
    left -= here;
  }
  return {};
}

void ArchiveFile::touch() const {
  (void)futimens(m_fd, nullptr);  // only the order of removal depends on it
}

// ---------------------------------------------------------------- writing

ArchiveWriter::ArchiveWriter(std::filesystem::path path, std::filesystem::path temporary, int fd,
                             ArchiveHeader header)
    : m_path(std::move(path)),
      m_temporary(std::move(temporary)),
      m_fd(fd),
      m_header(std::move(header)),
      m_dataOffset(sizeof(Preamble) + writeIndex(m_header).size()) {}

Result<std::unique_ptr<ArchiveWriter>> ArchiveWriter::create(const std::filesystem::path& path,
                                                             ArchiveHeader header) {
  static std::atomic<unsigned> number{0};
  if (header.settings.size() > kMostText || header.conversation.size() > kMostText) {
    return fail(ErrorCode::kInvalidArgument, "a conversation's name of {} bytes",
                header.conversation.size());
  }
  const auto temporary =
      path.parent_path() / fmt::format("{}{}-{}", kTemporaryPrefix, getpid(), number.fetch_add(1));
  const int fd =
      ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return fail(ErrorCode::kIo, "cannot make {}: {}", temporary.string(), std::strerror(errno));
  }
  (void)flock(fd, LOCK_EX | LOCK_NB);  // held while we live: see isAbandoned()
  return std::unique_ptr<ArchiveWriter>(new ArchiveWriter(path, temporary, fd, std::move(header)));
}

ArchiveWriter::~ArchiveWriter() {
  if (m_fd < 0) return;
  close(m_fd);
  unlink(m_temporary.c_str());
}

Result<void> ArchiveWriter::append(std::span<const std::byte> blocks) {
  const auto size = static_cast<std::size_t>(m_header.blockBytes);
  VITRINE_TRY(writeAt(m_fd, m_dataOffset + static_cast<std::uint64_t>(m_next) * m_header.blockBytes,
                      blocks.data(), blocks.size(), m_temporary));
  for (; blocks.size() >= size; blocks = blocks.subspan(size), ++m_next) {
    m_header.tree.setChecksum(m_next,
                              checksumOf(blocks.first(size), m_header.tree.block(m_next).hash));
  }
  return {};
}

Result<void> ArchiveWriter::appendFrom(const ArchiveFile& from, int first, int count) {
  VITRINE_TRY(from.copyBlocks(
      first, count, m_fd, m_dataOffset + static_cast<std::uint64_t>(m_next) * m_header.blockBytes));
  for (int i = 0; i < count; ++i) {
    m_header.tree.setChecksum(m_next++, from.tree().block(first + i).checksum);
  }
  return {};
}

Result<void> ArchiveWriter::finish() {
  if (m_next != m_header.tree.size()) {
    return fail(ErrorCode::kInternal, "{} of {} blocks were written", m_next, m_header.tree.size());
  }
  const std::vector<std::byte> index = writeIndex(m_header);
  Preamble preamble{};
  std::memcpy(preamble.magic, kMagic, sizeof kMagic);
  preamble.version = kVersion;
  preamble.blockSize = static_cast<std::uint32_t>(m_header.tree.blockSize());
  preamble.blockBytes = m_header.blockBytes;
  preamble.nBlocks = static_cast<std::uint64_t>(m_header.tree.size());
  preamble.indexBytes = index.size();
  preamble.fileBytes = m_dataOffset + preamble.nBlocks * preamble.blockBytes;
  preamble.indexChecksum = XXH3_64bits(index.data(), index.size());
  preamble.checksum = checksumOf(preamble);
  VITRINE_TRY(writeAt(m_fd, sizeof preamble, index.data(), index.size(), m_temporary));
  VITRINE_TRY(writeAt(m_fd, 0, &preamble, sizeof preamble, m_temporary));
  if (fsync(m_fd) != 0) {
    return fail(ErrorCode::kIo, "cannot write {}: {}", m_temporary.string(), std::strerror(errno));
  }
  return {};
}

Result<void> ArchiveWriter::publish() {
  if (rename(m_temporary.c_str(), m_path.c_str()) != 0) {
    return fail(ErrorCode::kIo, "cannot write {}: {}", m_path.string(), std::strerror(errno));
  }
  close(m_fd);
  m_fd = -1;
  const int folder = ::open(m_path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)fsync(folder);  // the name, too; without it a power cut brings back the file before
    close(folder);
  }
  return {};
}

bool isAbandoned(const std::filesystem::path& temporary) {
  const int fd = ::open(temporary.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
  close(fd);
  return locked;
}

std::uint64_t archiveHash(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace vitrine::engine

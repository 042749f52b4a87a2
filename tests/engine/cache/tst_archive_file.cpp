#include <QTemporaryDir>
#include <QtTest>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>

#include "engine/cache/archive_catalog.h"
#include "engine/cache/archive_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace vitrine::engine;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBlockBytes = 40;

std::vector<std::byte> bytesOf(int seed, std::size_t count = kBlockBytes) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

std::vector<TokenId> tokensFrom(TokenId first, int count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Two branches behind a common beginning, both with a partly filled end.
ArchiveHeader header(std::uint64_t blockBytes = kBlockBytes) {
  ArchiveHeader h;
  h.settings = "model a";
  h.conversation = "c";
  h.blockBytes = blockBytes;
  h.prefillMsPerToken = 0.25;
  h.tree = ArchiveTree(16);
  const int root = h.tree.add(-1, tokensFrom(1, 16));
  const int left = h.tree.add(root, tokensFrom(100, 16));
  h.tree.add(left, tokensFrom(200, 5));
  h.tree.add(root, tokensFrom(300, 11));
  return h;
}

Result<void> publish(ArchiveWriter& writer) {
  VITRINE_TRY(writer.finish());
  return writer.publish();
}

void write(const fs::path& path, int seed = 0, ArchiveHeader h = header()) {
  const int blocks = h.tree.size();
  const auto size = static_cast<std::size_t>(h.blockBytes);
  auto writer = ArchiveWriter::create(path, std::move(h));
  QVERIFY2(writer, writer ? "" : writer.error().message.c_str());
  for (int i = 0; i < blocks; ++i) {
    const auto done = (*writer)->append(bytesOf(seed + i, size));
    QVERIFY2(done, done ? "" : done.error().message.c_str());
  }
  const auto done = publish(**writer);
  QVERIFY2(done, done ? "" : done.error().message.c_str());
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void patch(const fs::path& path, std::size_t at, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

/// Whether everything in the file can be read and is what write(path, seed) wrote.
bool isWhole(const fs::path& path, int seed = 0) {
  const auto file = ArchiveFile::open(path);
  if (!file) return false;
  std::vector<std::byte> bytes(static_cast<std::size_t>((*file)->header().blockBytes));
  for (int i = 0; i < (*file)->tree().size(); ++i) {
    if (!(*file)->readBlock(i, bytes) || bytes != bytesOf(seed + i, bytes.size())) return false;
  }
  return true;
}

}  // namespace

/// The file of one conversation: what was written comes back, and nothing else is ever taken for
/// it.
class TestArchiveFile : public QObject {
  Q_OBJECT

 private slots:
  void init() {
    m_dir = std::make_unique<QTemporaryDir>();
    m_path = fs::path(m_dir->path().toStdString()) / "one.kv";
  }

  void whatWasWrittenIsRead() {
    write(m_path);
    const auto file = ArchiveFile::open(m_path);
    QVERIFY(file);
    QCOMPARE((*file)->header().settings, std::string("model a"));
    QCOMPARE((*file)->header().conversation, std::string("c"));
    QCOMPARE((*file)->header().prefillMsPerToken, 0.25);
    QCOMPARE((*file)->tree().size(), 4);
    QCOMPARE((*file)->tree().tokens(), 16 + 16 + 5 + 11);
    QCOMPARE((*file)->fileBytes(), fs::file_size(m_path));
    QVERIFY(isWhole(m_path));
    struct stat status {};
    QCOMPARE(stat(m_path.c_str(), &status), 0);
    QCOMPARE(status.st_mode & 0777U, 0600U);
  }

  void matchingIsExactToTheToken() {
    const ArchiveTree tree = header().tree;
    auto prompt = tokensFrom(1, 16);
    QCOMPARE(tree.match(std::span(prompt).first(7)).tokens, 7);
    QCOMPARE(tree.match(prompt).tokens, 16);
    prompt.insert(prompt.end(), {300, 301, 302, 999});
    QCOMPARE(tree.match(prompt).tokens, 19);
    QCOMPARE(tree.match(prompt).blocks, (std::vector<int>{0, 3}));
    QCOMPARE(tree.match(tokensFrom(2, 30)).tokens, 0);
    QCOMPARE(tree.match({}).tokens, 0);
    QCOMPARE(tree.pathThrough(0).size(), std::size_t{16 + 16 + 5});
    QCOMPARE(tree.pathThrough(3).size(), std::size_t{16 + 11});
  }

  void blocksAreCopiedFromAnotherFile() {
    write(m_path, 7);
    const auto from = ArchiveFile::open(m_path);
    QVERIFY(from);
    const fs::path copy = m_path.parent_path() / "copy.kv";
    auto writer = ArchiveWriter::create(copy, header());
    QVERIFY(writer);
    QVERIFY((*writer)->append(bytesOf(7)));
    QVERIFY((*writer)->appendFrom(**from, 1, 3));
    QVERIFY(publish(**writer));
    QVERIFY(isWhole(copy, 7));
    QCOMPARE(contents(copy), contents(m_path));
  }

  void everyFlippedBitIsFound() {
    write(m_path);
    const std::string good = contents(m_path);
    std::vector<std::byte> bytes(kBlockBytes);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      const char was = good[bit / 8];
      patch(m_path, bit / 8, static_cast<char>(was ^ (1 << (bit % 8))));
      const auto file = ArchiveFile::open(m_path);
      int wrong = 0;
      if (!file) {
        QCOMPARE(file.error().code, ErrorCode::kInvalidFile);
        wrong = 1;
      } else {
        for (int i = 0; i < (*file)->tree().size(); ++i) {
          const auto read = (*file)->readBlock(i, bytes);
          if (read) QVERIFY(bytes == bytesOf(i));
          wrong += read ? 0 : 1;
        }
      }
      QVERIFY2(wrong == 1, qPrintable(QString("bit %1 of %2").arg(bit).arg(good.size() * 8)));
      patch(m_path, bit / 8, was);
    }
    QVERIFY(isWhole(m_path));
  }

  void everyCutIsFound() {
    write(m_path);
    const std::string good = contents(m_path);
    for (std::size_t length = 0; length < good.size(); ++length) {
      put(m_path, good.substr(0, length));
      const auto file = ArchiveFile::open(m_path);
      QVERIFY2(!file, qPrintable(QString::number(length)));
      QCOMPARE(file.error().code, ErrorCode::kInvalidFile);
    }
    put(m_path, good + "x");
    QVERIFY(!ArchiveFile::open(m_path));
  }

  void aFileThatIsCutWhileOpenIsNoticed() {
    write(m_path);
    const auto file = ArchiveFile::open(m_path);
    QVERIFY(file);
    fs::resize_file(m_path, fs::file_size(m_path) - 10);
    std::vector<std::byte> bytes(kBlockBytes);
    QVERIFY((*file)->readBlock(0, bytes));
    QCOMPARE((*file)->readBlock(3, bytes).error().code, ErrorCode::kInvalidFile);
  }

  void garbageIsRefused() {
    std::mt19937 random(5);
    for (int i = 0; i < 300; ++i) {
      std::string bytes(random() % 400, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      if (i % 2 == 0 && bytes.size() > 8) std::memcpy(bytes.data(), "VtrKvArc", 8);
      put(m_path, bytes);
      QVERIFY(!ArchiveFile::open(m_path));
    }
  }

  /// Whoever makes the checksums right can still not make it crash or read outside.
  void forgedNumbersAreRefused() {
    write(m_path);
    const std::string good = contents(m_path);
    std::uint64_t indexBytes = 0;
    std::memcpy(&indexBytes, good.data() + 32, 8);
    std::mt19937_64 random(11);
    int opened = 0;
    for (int i = 0; i < 3000; ++i) {
      std::string bad = good;
      const std::size_t at = 8 + random() % (56 + indexBytes - 8);
      const std::uint64_t value = random() % 3 == 0 ? ~0ULL : random() >> (random() % 64);
      std::memcpy(bad.data() + at, &value, std::min<std::size_t>(1U << (random() % 4), 8));
      const auto index = XXH3_64bits(bad.data() + 64, std::min(bad.size() - 64, indexBytes));
      if (i % 2 == 0) std::memcpy(bad.data() + 48, &index, 8);
      const auto whole = XXH3_64bits(bad.data(), 56);
      std::memcpy(bad.data() + 56, &whole, 8);
      put(m_path, bad);
      if (const auto file = ArchiveFile::open(m_path)) {
        ++opened;
        std::vector<std::byte> bytes(static_cast<std::size_t>((*file)->header().blockBytes));
        for (int b = 0; b < (*file)->tree().size(); ++b) {
          if ((*file)->readBlock(b, bytes)) QVERIFY(bytes == bytesOf(b));
        }
        (void)(*file)->tree().match(tokensFrom(1, 40));
      }
    }
    QVERIFY(opened > 0);  // some only changed a text or a token
  }

  void foldersLinksAndMissingFilesAreRefused() {
    QCOMPARE(ArchiveFile::open(m_path).error().code, ErrorCode::kNotFound);
    QVERIFY(!ArchiveFile::open(m_path.parent_path()));
    QCOMPARE(mkfifo((m_path.string() + ".fifo").c_str(), 0600), 0);
    QVERIFY(!ArchiveFile::open(m_path.string() + ".fifo"));
    write(m_path);
    const fs::path link = m_path.parent_path() / "link.kv";
    fs::create_symlink(m_path, link);
    QVERIFY(!ArchiveFile::open(link));
  }

  void whatIsNotPublishedDisappears() {
    write(m_path, 3);
    {
      auto writer = ArchiveWriter::create(m_path, header());
      QVERIFY(writer);
      QVERIFY((*writer)->append(bytesOf(50)));
      QVERIFY(!publish(**writer));  // three blocks are missing
    }
    QVERIFY(isWhole(m_path, 3));
    QCOMPARE(std::distance(fs::directory_iterator(m_path.parent_path()), {}), 1);
  }

  void aFullDiskIsReported() {
    write(m_path, 3);
    rlimit before{};
    QCOMPARE(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit small = before;
    small.rlim_cur = 100000;
    QCOMPARE(setrlimit(RLIMIT_FSIZE, &small), 0);
    Result<void> done;
    {
      auto writer = ArchiveWriter::create(m_path, header(60000));
      QVERIFY(writer);
      for (int i = 0; i < 4 && done; ++i) done = (*writer)->append(bytesOf(i, 60000));
    }
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    QVERIFY(!done);
    QCOMPARE(done.error().code, ErrorCode::kIo);
    QVERIFY2(done.error().message.find("cannot write") == 0, done.error().message.c_str());
    QVERIFY(isWhole(m_path, 3));
    QCOMPARE(std::distance(fs::directory_iterator(m_path.parent_path()), {}), 1);
  }

  /// A process that writes one file after the other, killed at any moment: each file is what it was
  /// before or what it was to become, and what the dead left is cleared away.
  void killedWhileWritingNothingIsLost() {
    const fs::path folder = m_path.parent_path();
    constexpr int kFiles = 4;
    constexpr std::size_t kBytes = 200000;
    ArchiveOptions options;
    options.folder = folder;
    ArchiveCatalog names(options);
    names.open("model a", 16, kBytes);
    std::vector<fs::path> paths;
    const auto headerOf = [&](int i) {
      ArchiveHeader h = header(kBytes);
      h.conversation = std::to_string(i);
      return h;
    };
    for (int i = 0; i < kFiles; ++i) {
      paths.push_back(names.pathOf(std::to_string(i)));
      write(paths.back(), 1000, headerOf(i));
    }
    std::mt19937 random(3);
    int interrupted = 0;
    for (int round = 0; round < 30; ++round) {
      const pid_t child = fork();
      QVERIFY(child >= 0);
      if (child == 0) {
        for (int seed = 1000;; seed = 1000 + (seed + 1) % 2) {
          for (int i = 0; i < kFiles; ++i) {
            auto writer = ArchiveWriter::create(paths[static_cast<std::size_t>(i)], headerOf(i));
            if (!writer) _exit(1);
            for (int b = 0; b < 4; ++b) (void)(*writer)->append(bytesOf(seed + b, kBytes));
            if (!publish(**writer)) _exit(1);
          }
        }
      }
      usleep(static_cast<useconds_t>(random() % 30000));
      kill(child, SIGKILL);
      int status = 0;
      QCOMPARE(waitpid(child, &status, 0), child);
      QVERIFY(WIFSIGNALED(status));
      for (const auto& entry : fs::directory_iterator(folder)) {
        interrupted += entry.path().filename().string().starts_with(kTemporaryPrefix) ? 1 : 0;
      }
      for (const fs::path& path : paths) QVERIFY(isWhole(path, 1000) || isWhole(path, 1001));
      ArchiveCatalog catalog(options);
      catalog.open("model a", 16, kBytes);
      EngineSnapshot snapshot;
      catalog.describe(snapshot);
      QCOMPARE(snapshot.archived.size(), std::size_t{kFiles});
      QCOMPARE(std::distance(fs::directory_iterator(folder), {}), kFiles);
    }
    QVERIFY2(interrupted > 5, qPrintable(QString::number(interrupted)));
  }

  void aLivingWritersFileIsLeftAlone() {
    auto writer = ArchiveWriter::create(m_path, header());
    QVERIFY(writer);
    ArchiveOptions options;
    options.folder = m_path.parent_path();
    ArchiveCatalog catalog(options);
    catalog.open("model a", 16, kBlockBytes);
    for (int i = 0; i < 4; ++i) QVERIFY((*writer)->append(bytesOf(i)));
    QVERIFY(publish(**writer));
    QVERIFY(isWhole(m_path));
  }

 private:
  std::unique_ptr<QTemporaryDir> m_dir;
  fs::path m_path;
};

QTEST_GUILESS_MAIN(TestArchiveFile)
#include "tst_archive_file.moc"

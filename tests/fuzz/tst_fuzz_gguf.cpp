// Damaged GGUF files: every prefix, every byte of a header, and random mutations of tiny models.
// Nothing may crash, hang, or use memory that the file's size does not justify. Seeds are fixed;
// VITRINE_FUZZ_SECONDS makes the random part longer (default 8).
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <QElapsedTimer>
#include <QTest>
#include <random>

#include "engine/model/gguf_file.h"
#include "engine/model/inspect.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
using namespace vitrine::test;

class TestFuzzGguf : public QObject {
  Q_OBJECT

 private:
  int m_file = -1;  // in memory: thousands of files on a disk would take minutes
  std::filesystem::path m_path;
  int m_accepted = 0, m_refused = 0;

  // Opens and looks at everything that loading looks at. An error must say something.
  void feed(const std::string& bytes) {
    QCOMPARE(::ftruncate(m_file, 0), 0);
    QCOMPARE(::pwrite(m_file, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    const auto file = GgufFile::open(m_path);
    if (!file) {
      ++m_refused;
      QVERIFY(file.error().message.size() > 20 && file.error().message.size() < 4000);
      return;
    }
    // Every tensor lies in the file: touch its ends.
    unsigned sum = 0;
    for (const GgufTensor& tensor : (*file)->tensors()) {
      if (tensor.bytes == 0) continue;
      sum += static_cast<unsigned>(tensor.data[0]) +
             static_cast<unsigned>(tensor.data[tensor.bytes - 1]);
    }
    QVERIFY(sum < 0xFFFFFFFFU);
    const auto found = inspectModel(m_path);
    if (!found) {
      ++m_refused;
      return;
    }
    found->kvBytesPerToken(KvType::kInt8);
    found->contextThatFits(1ULL << 34, KvType::kFp16);
    QVERIFY(found->supported == found->problem.empty());
    found->supported ? ++m_accepted : ++m_refused;
    if (!found->supported || m_accepted % 16 != 1) return;  // compiling expressions takes long
    std::vector<std::string> warnings;
    if (const auto tokenizer = Tokenizer::fromGguf(**file, warnings)) {
      const std::string text = "he ll\xFF \n 12 <|im_end|>";
      (*tokenizer)->decode((*tokenizer)->encode(text));
      (*tokenizer)->decode((*tokenizer)->encodeWithControlTokens(text));
    }
  }

  // Values of every type, nested arrays, a quantized tensor: a few hundred bytes.
  static GgufWriter mixed() {
    GgufWriter writer;
    writer.setText("general.architecture", "llama");
    writer.setU32("general.alignment", 32);
    writer.setU64("a", 1);
    writer.setF32("b", 1.5F);
    writer.setBool("c", true);
    writer.setTexts("d", {"x", "yz"});
    writer.setI32s("e", {1, 2});
    const char nested[] = "\x09\0\0\0\1\0\0\0\0\0\0\0\x08\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0q";
    writer.setRaw("f", 9, std::string(nested, sizeof nested - 1));
    writer.setU16("split.no", 0);
    writer.setU16("split.count", 1);
    writer.setTensor("t", 2, 32, std::vector<float>(64, 1.0F), vitrine::kernels::TensorType::kQ8_0);
    writer.setTensor("u", 0, 3, {1, 2, 3});
    return writer;
  }

  static std::string tinyModel(std::uint64_t seed) {
    TinyModelOptions options;
    options.nLayers = 1;
    options.dModel = 8;
    options.nHeads = 2;
    options.nKvHeads = 1;
    options.dFfn = 8;
    options.seed = seed;
    return randomModel(options).bytes();
  }

 private slots:
  void initTestCase() {
    m_file = ::memfd_create("fuzz.gguf", MFD_CLOEXEC);
    QVERIFY(m_file >= 0);
    m_path = "/proc/self/fd/" + std::to_string(m_file);
  }
  void cleanupTestCase() { ::close(m_file); }

  void theSeedsAreGood() {
    const std::string model = tinyModel(1);
    feed(model);
    QCOMPARE(m_accepted, 1);
    feed(mixed().bytes());
    QVERIFY(GgufFile::open(m_path).has_value());
  }

  void everyPrefix() {
    const std::string bytes = mixed().bytes();
    for (std::size_t n = 0; n < bytes.size(); ++n) feed(bytes.substr(0, n));
    const std::string model = tinyModel(1);
    for (std::size_t n = 0; n < model.size(); n += 61) feed(model.substr(0, n));
  }

  void everyByteOfAHeader() {
    const std::string good = mixed().bytes();
    for (std::size_t i = 0; i < good.size(); ++i) {
      for (const int value : {0x00, 0x01, 0x7F, 0x80, 0xFF, 0x09, 0x08, good[i] ^ 1, good[i] + 1}) {
        std::string bytes = good;
        bytes[i] = static_cast<char>(value);
        feed(bytes);
      }
    }
  }

  void randomMutations() {
    const char* given = std::getenv("VITRINE_FUZZ_SECONDS");
    const double seconds = given != nullptr ? std::atof(given) : 8.0;
    const std::string seeds[] = {mixed().bytes(), tinyModel(1), tinyModel(2)};
    std::mt19937 random(12345);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    QElapsedTimer timer;
    timer.start();
    int rounds = 0;
    for (; rounds < 1000000 && static_cast<double>(timer.elapsed()) < seconds * 1000; ++rounds) {
      std::string bytes = seeds[below(3)];
      // Most mutations in the header, where the structure is.
      const std::size_t range =
          below(4) == 0 ? bytes.size()
                        : std::min<std::size_t>(bytes.size(), below(2) == 0 ? 1200 : 8000);
      for (std::size_t n = 1 + below(4); n > 0; --n) {
        const std::size_t at = below(std::min(range, bytes.size()));
        switch (below(6)) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
            break;
          case 2: {  // a telling 64-bit number
            const std::uint64_t numbers[] = {0,          1,          0xFFFFFFFFULL, ~0ULL,
                                             1ULL << 63, 1ULL << 31, bytes.size()};
            const std::uint64_t number = numbers[below(7)];
            if (at + 8 <= bytes.size())
              bytes.replace(at, 8, reinterpret_cast<const char*>(&number), 8);
            break;
          }
          case 3:
            bytes.erase(at, 1 + below(16));
            break;
          case 4:
            bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(32)));
            break;
          case 5:
            bytes.resize(std::max<std::size_t>(1, below(bytes.size())));
            break;
        }
        if (bytes.empty()) bytes = "G";
      }
      feed(bytes);
      if (QTest::currentTestFailed()) {
        writeFile("fuzz_failure.gguf", bytes);
        return;
      }
    }
    qInfo("%d mutations, %d files accepted and %d refused in all", rounds, m_accepted, m_refused);
    QVERIFY(rounds > 50);
  }

  // Hostile counts must not have made us allocate.
  void memoryStayedSmall() {
#if !defined(__SANITIZE_ADDRESS__)
    struct rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    QVERIFY2(usage.ru_maxrss < 300 * 1024, qPrintable(QString("%1 KiB").arg(usage.ru_maxrss)));
#endif
  }
};

QTEST_GUILESS_MAIN(TestFuzzGguf)
#include "tst_fuzz_gguf.moc"

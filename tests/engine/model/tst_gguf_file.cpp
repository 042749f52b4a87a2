// Refusals of damaged and hostile GGUF files, split sets, odd paths, and files that shrink.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <QTemporaryDir>
#include <QTest>

#include "engine/model/gguf_file.h"
#include "engine/model/mapped_file.h"
#include "tests/tiny_models.h"

using namespace vitrine::engine;
using namespace vitrine::test;
namespace fs = std::filesystem;

class TestGgufFile : public QObject {
  Q_OBJECT

 private:
  QTemporaryDir m_folder;

  fs::path path(const std::string& name) const {
    return fs::path(m_folder.path().toStdString()) / name;
  }

  std::string errorOf(const fs::path& file) const {
    const auto opened = GgufFile::open(file);
    return opened ? "" : opened.error().message;
  }
  std::string errorOf(const GgufWriter& writer) const {
    return errorOf(writer.save(path("x.gguf")));
  }

  // A header with one tensor and one value, small enough to damage by hand.
  static GgufWriter small() {
    GgufWriter writer;
    writer.setText("general.architecture", "llama");
    writer.setTensor("token_embd.weight", 4, 4, std::vector<float>(16, 1.0F));
    return writer;
  }

  static bool has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  }
#define VERIFY_HAS(text, part) QVERIFY2(has(text, part), std::string(text).c_str())

 private slots:
  // QTemporaryDir cannot remove names that are no UTF-8.
  void cleanupTestCase() {
    fs::remove_all(fs::path(m_folder.path().toStdString()));
  }

  void valuesAndTensorsAreRead() {
    GgufWriter writer = small();
    writer.setU32("u32", 7);
    writer.setI32("i32", -7);
    writer.setU64("u64", 1ULL << 40);
    writer.setF32("f32", 0.5F);
    writer.setBool("yes", true);
    writer.setTexts("texts", {"a", "", "ccc"});
    writer.setI32s("numbers", {1, -2, 3});
    // An array of two arrays (one of bytes, one of texts): validated and skipped.
    std::string nested;
    const auto put = [&nested](auto value) {
      nested.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    put(std::uint32_t{9});
    put(std::uint64_t{2});
    put(std::uint32_t{0});
    put(std::uint64_t{3});
    nested += "xyz";
    put(std::uint32_t{8});
    put(std::uint64_t{1});
    put(std::uint64_t{2});
    nested += "ab";
    writer.setRaw("nested", 9, nested);
    writer.setTensor("half", 2, 32, std::vector<float>(64, 0.25F),
                     vitrine::kernels::TensorType::kQ8_0);
    const auto file = GgufFile::open(writer.save(path("good.gguf")));
    QVERIFY2(file.has_value(), file ? "" : file.error().message.c_str());
    const GgufFile& f = **file;
    QCOMPARE(f.text("general.architecture").value().value(), std::string_view("llama"));
    QCOMPARE(f.integer("u32").value().value(), std::uint64_t{7});
    QCOMPARE(f.integer("u64").value().value(), std::uint64_t{1} << 40);
    QCOMPARE(f.number("f32").value().value(), 0.5);
    QCOMPARE(f.number("i32").value().value(), -7.0);
    QCOMPARE(f.boolean("yes").value().value(), true);
    QVERIFY(!f.integer("none").value().has_value());
    VERIFY_HAS(f.integer("i32").error().message, "i32 is -7");
    VERIFY_HAS(f.integer("f32").error().message, "float32");
    VERIFY_HAS(f.text("u32").error().message, "u32 has the type uint32");
    const GgufArray* texts = f.array("texts").value();
    QCOMPARE(texts->strings.size(), std::size_t{3});
    QCOMPARE(texts->strings[2], std::string_view("ccc"));
    QCOMPARE(f.array("numbers").value()->integer(1), std::int64_t{-2});
    QCOMPARE(f.array("nested").value()->count, std::uint64_t{2});
    const GgufTensor* half = f.findTensor("half");
    QVERIFY(half != nullptr);
    QCOMPARE(half->bytes, std::uint64_t{68});
    QCOMPARE(half->dims[0], std::uint64_t{32});
    QCOMPARE(reinterpret_cast<std::uintptr_t>(half->data) % 32, std::uintptr_t{0});
    QVERIFY(half->type.runnable == vitrine::kernels::TensorType::kQ8_0);
    QCOMPARE(f.nParts(), 1);
    QVERIFY(!f.lost());
  }

  void ourTensorTypesHaveTheFormatsSizes() {
    int nRunnable = 0;
    for (std::uint32_t id = 0; id < 64; ++id) {
      const GgufTensorType type = ggufTensorType(id);
      QCOMPARE(type.id, id);
      QVERIFY(!type.name.empty());
      if (!type.runnable) continue;
      ++nRunnable;
      const auto info = vitrine::kernels::tensorTypeInfo(*type.runnable);
      QCOMPARE(type.blockValues, info.blockValues);
      QCOMPARE(type.blockBytes, info.blockBytes);
      QCOMPARE(QString::fromStdString(type.name), QString(info.name));
    }
    QCOMPARE(nRunnable, 6);
    QCOMPARE(QString::fromStdString(ggufTensorType(12).name), QString("Q4_K"));
    QCOMPARE(QString::fromStdString(ggufTensorType(999).name), QString("type 999"));
  }

  void damagedHeadersAreRefused_data() {
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QString>("message");
    const auto row = [](const char* name, const std::string& bytes, const char* message) {
      QTest::newRow(name) << QByteArray::fromStdString(bytes) << message;
    };
    const auto dims = [](std::vector<std::uint64_t> d, std::uint32_t type = 0) {
      GgufWriter writer;
      writer.setText("general.architecture", "llama");
      writer.setRawTensor("t", std::move(d), type, std::string(64, '\0'));
      return writer.bytes();
    };
    row("zero side", dims({0, 4}), "dimension 0 of tensor t is 0");
    row("zero side 2", dims({4, 0}), "dimension 1 of tensor t is 0");
    row("zero side 3", dims({4, 4, 0}), "dimension 2 of tensor t is 0");
    row("negative side", dims({4, ~0ULL}), "dimension 1 of tensor t is -1");
    row("too many elements", dims({1ULL << 40, 1ULL << 40}), "more elements than 63 bits");
    row("too many bytes", dims({1ULL << 62}), "more bytes than 63 bits");
    row("five dimensions", dims({1, 1, 1, 1, 1}), "has 5 dimensions");
    row("no dimension", dims({}), "has 0 dimensions");
    row("no whole blocks", dims({33}, 8), "comes in blocks of 32");
    row("beyond the end", dims({1ULL << 30}), "is incomplete: it has");

    const auto alignment = [](std::uint32_t type, const std::string& bytes) {
      GgufWriter writer = small();
      writer.setRaw("general.alignment", type, bytes);
      return writer.bytes();
    };
    using namespace std::string_literals;
    row("alignment 0", alignment(4, "\0\0\0\0"s), "general.alignment is 0");
    row("alignment 3", alignment(4, "\3\0\0\0"s), "general.alignment is 3");
    row("alignment 4", alignment(4, "\4\0\0\0"s), "general.alignment is 4");
    row("alignment 2^31", alignment(4, "\0\0\0\x80"s), "general.alignment is 2147483648");
    row("alignment int32", alignment(5, "\x20\0\0\0"s), "general.alignment has the type int32");
    row("alignment text", alignment(8, "\2\0\0\0\0\0\0\0"s + "32"), "has the type string");
    row("alignment array", alignment(9, "\4\0\0\0\1\0\0\0\0\0\0\0\x20\0\0\0"s),
        "has the type array");

    const auto value = [](std::uint32_t type, const std::string& bytes) {
      GgufWriter writer;
      writer.setRaw("key", type, bytes);
      return writer.bytes();
    };
    const std::string huge("\xff\xff\xff\xff\xff\xff\xff\x7f");
    row("unknown value type", value(13, "xxxx"), "unknown value type 13");
    row("endless text", value(8, huge), "key at byte");
    row("endless array", value(9, "\4\0\0\0"s + huge),
        "claims to hold 9223372036854775807 elements");
    row("endless texts", value(9, "\x08\0\0\0"s + huge),
        "claims to hold 9223372036854775807 texts");
    row("endless arrays", value(9, "\x09\0\0\0"s + huge),
        "claims to hold 9223372036854775807 arrays");
    row("array of nothing known", value(9, "\x63\0\0\0"s + huge), "unknown value type 99");
    row("bool of 2", value(7, "\2"), "bool of value 2");
    std::string deep;
    for (int i = 0; i < 2000; ++i) deep += "\x09\0\0\0\1\0\0\0\0\0\0\0"s;
    row("deep arrays", value(9, deep), "nests arrays");

    std::string counts = small().bytes();
    row("many tensors", counts.substr(0, 8) + huge + counts.substr(16),
        "the header claims to hold 9223372036854775807 tensors");
    row("many values", counts.substr(0, 16) + huge + counts.substr(24),
        "the header claims to hold 9223372036854775807 metadata");

    GgufWriter twice;
    twice.setText("a.a", "1");
    twice.setText("b.b", "2");
    std::string bytes = twice.bytes();
    bytes.replace(bytes.find("b.b"), 3, "a.a");
    row("key twice", bytes, "a.a is there twice");
    GgufWriter tensors = small();
    tensors.setTensor("token_embd.weighs", 4, 4, std::vector<float>(16));
    bytes = tensors.bytes();
    bytes.replace(bytes.find("weighs"), 6, "weight");
    row("tensor twice", bytes, "token_embd.weight is there twice");

    GgufWriter offsets = small();
    offsets.setTensor("z", 0, 4, std::vector<float>(4));
    bytes = offsets.bytes();
    const std::size_t offsetOfZ = bytes.find("z\1\0\0\0"s) + 1 + 4 + 8 + 4;
    row("overlap", std::string(bytes).replace(offsetOfZ, 1, "\x20"), "overlap");
    row("offset not aligned", std::string(bytes).replace(offsetOfZ, 1, "\x21"),
        "not a multiple of the alignment");
    row("offset past 63 bits",
        std::string(bytes).replace(offsetOfZ, 8, "\xe0\xff\xff\xff\xff\xff\xff\xff"s),
        "beyond any file");

    GgufWriter old = small();
    old.version = 1;
    row("version 1", old.bytes(), "version 1");
    old.version = 0x03000000;
    row("big-endian", old.bytes(), "big-endian");
    row("web page", "<!DOCTYPE html><html>", "web page");
    row("lfs pointer", "version https://git-lfs.github.com/spec/v1\n", "Git LFS");
    row("before gguf", "lmgg\1\0\0\0", "before GGUF");
    row("zip", "PK\3\4....", "zip");
    row("zeros", std::string(100, '\0'), "only zeros");
    row("text", "hello world, this is text", "not a GGUF file");
    row("cut magic", "GG", "incomplete");
    row("magic alone", "GGUF", "incomplete");
  }

  void damagedHeadersAreRefused() {
    QFETCH(QByteArray, bytes);
    QFETCH(QString, message);
    writeFile(path("bad.gguf"), bytes.toStdString());
    const std::string error = errorOf(path("bad.gguf"));
    QVERIFY2(QString::fromStdString(error).contains(message), error.c_str());
    VERIFY_HAS(error, "bad.gguf");
  }

  void everyCutIsRefused() {
    ParrotOptions options;
    options.pieces = {"whole", " file"};
    options.dModel = 32;
    const std::string whole = parrotModel(options).bytes();
    for (std::size_t n = 1; n < whole.size(); n += n < 200 ? 1 : 997) {
      writeFile(path("cut.gguf"), whole.substr(0, n));
      const std::string error = errorOf(path("cut.gguf"));
      QVERIFY2(has(error, "incomplete") || has(error, "damaged"),
               (std::to_string(n) + ": " + error).c_str());
    }
    // One byte short of the last tensor: the message has both numbers.
    const auto file = GgufFile::open(parrotModel(options).save(path("full.gguf")));
    std::uint64_t end = 0;
    for (const GgufTensor& tensor : (*file)->tensors()) {
      end = std::max<std::uint64_t>(
          end, static_cast<std::uint64_t>(tensor.data - (*file)->header(0).data()) + tensor.bytes);
    }
    writeFile(path("cut.gguf"), whole.substr(0, end - 1));
    VERIFY_HAS(
        errorOf(path("cut.gguf")),
        ("has " + std::to_string(end - 1) + " bytes, but needs " + std::to_string(end)).c_str());
    writeFile(path("long.gguf"), whole + "more bytes at the end");
    QCOMPARE(errorOf(path("long.gguf")), std::string());
  }

  void splitSetsOpenThroughAnyPart() {
    ParrotOptions options;
    options.pieces = {"I", " came", " in", " parts"};
    options.dModel = 32;
    const GgufWriter whole = parrotModel(options);
    const auto parts = [&](int n, const std::string& name) {
      const auto names = whole.tensorNames();
      std::vector<GgufWriter> made;
      for (int i = 0; i < n; ++i) {
        GgufWriter part = i == 0 ? whole : GgufWriter();
        if (i == 0) {
          for (const auto& tensor : names) part.removeTensor(tensor);
        }
        for (std::size_t t = 0; t < names.size(); ++t) {
          if (t * static_cast<std::size_t>(n) / names.size() == static_cast<std::size_t>(i))
            part.takeTensor(whole, names[t]);
        }
        part.setU16("split.no", static_cast<std::uint16_t>(i));
        part.setU16("split.count", static_cast<std::uint16_t>(n));
        part.setI32("split.tensors.count", static_cast<std::int32_t>(names.size()));
        made.push_back(part);
        if (!name.empty()) part.save(path(fmt::format("{}-{:05}-of-{:05}.gguf", name, i + 1, n)));
      }
      return made;
    };
    const auto three = parts(3, "three");
    for (int i = 1; i <= 3; ++i) {
      const auto file = GgufFile::open(path(fmt::format("three-{:05}-of-00003.gguf", i)));
      QVERIFY2(file.has_value(), file ? "" : file.error().message.c_str());
      QCOMPARE((*file)->nParts(), 3);
      QCOMPARE((*file)->tensors().size(), whole.tensorNames().size());
      QVERIFY((*file)->text("general.name").value().has_value());
      QVERIFY((*file)->fileBytes() > 3000);
    }

    fs::remove(path("three-00002-of-00003.gguf"));
    VERIFY_HAS(errorOf(path("three-00001-of-00003.gguf")),
               "\"three-00002-of-00003.gguf\" is not there");
    VERIFY_HAS(errorOf(path("three-00003-of-00003.gguf")), "part 3 of 3");

    three[1].save(path("renamed.gguf"));
    VERIFY_HAS(errorOf(path("renamed.gguf")), "its name does not say so");

    writeFile(path("glued.gguf"), three[0].bytes() + three[1].bytes() + three[2].bytes());
    VERIFY_HAS(errorOf(path("glued.gguf")), "joined into one file");

    // A part of another model: by its number, or by its tensors.
    three[0].save(path("three-00002-of-00003.gguf"));
    VERIFY_HAS(errorOf(path("three-00001-of-00003.gguf")), "by its content it is part 1 of 3");
    GgufWriter foreign = three[0];
    foreign.setU16("split.no", 1);
    foreign.save(path("three-00002-of-00003.gguf"));
    VERIFY_HAS(errorOf(path("three-00001-of-00003.gguf")), "belongs to another model");
    GgufWriter empty;
    empty.setU16("split.no", 1);
    empty.setU16("split.count", 3);
    empty.save(path("three-00002-of-00003.gguf"));
    VERIFY_HAS(errorOf(path("three-00001-of-00003.gguf")), "split.tensors.count is");

    // A huge count costs nothing.
    GgufWriter huge = three[0];
    huge.setU16("split.count", 60000);
    huge.save(path("three-00001-of-60000.gguf"));
    VERIFY_HAS(errorOf(path("three-00001-of-60000.gguf")), "three-00002-of-60000.gguf");

    // A name that only looks split.
    whole.save(path("best-00001-of-00003.gguf"));
    QCOMPARE(errorOf(path("best-00001-of-00003.gguf")), std::string());
  }

  void anyPathThatTheSystemCanOpenWorks() {
    const GgufWriter writer = small();
    for (const std::string name :
         {"with spaces", "Žejko Ünïcode", "Загрузки", "田中　模型", "emoji 🙂 👩‍💻",
          "percent %20 %s {}", "hash # ? &", "quote ' \" `", "back\\slash", "-dash", "trailing ",
          "new\nline", "caf\xE9 latin1", "UPPER.GGUF"}) {
      const fs::path folder = path(name);
      fs::create_directories(folder);
      const auto file = GgufFile::open(writer.save(folder / "my model.gguf"));
      QVERIFY2(file.has_value(), file ? "" : file.error().message.c_str());
      // The message shows the path readably, whatever its bytes.
      writeFile(folder / "bad.gguf", "nonsense");
      const std::string error = errorOf(folder / "bad.gguf");
      QCOMPARE(QString::fromStdString(error).toStdString(), error);
      QVERIFY(!has(error, "\n"));
    }
    const std::string deep = std::string(200, 'd') + "/" + std::string(200, 'e');
    fs::create_directories(path(deep));
    QCOMPARE(errorOf(writer.save(path(deep) / std::string(200, 'n'))), std::string());
  }

  void thingsThatAreNoFilesAreRefusedAtOnce() {
    fs::create_directory(path("directory.gguf"));
    VERIFY_HAS(errorOf(path("directory.gguf")), "is a folder");
    QCOMPARE(::mkfifo(path("pipe.gguf").c_str(), 0600), 0);
    VERIFY_HAS(errorOf(path("pipe.gguf")), "not a regular file");
    fs::create_symlink(path("nowhere.gguf"), path("broken link.gguf"));
    VERIFY_HAS(errorOf(path("broken link.gguf")), "a link to a file that is not there");
    fs::create_symlink(path("loop.gguf"), path("loop.gguf"));
    VERIFY_HAS(errorOf(path("loop.gguf")), "cannot open");
    writeFile(path("empty.gguf"), "");
    VERIFY_HAS(errorOf(path("empty.gguf")), "empty");
    VERIFY_HAS(errorOf(path("missing.gguf")), "No such file");
    VERIFY_HAS(errorOf("/dev/zero"), "not a regular file");
    VERIFY_HAS(errorOf(""), "cannot open");
    small().save(path("target.gguf"));
    fs::create_symlink(path("target.gguf"), path("link.gguf"));
    QCOMPARE(errorOf(path("link.gguf")), std::string());
  }

  void aFileThatShrinksReadsAsZerosAndIsMarked() {
    const std::size_t size = 1 << 20;
    writeFile(path("shrinks"), std::string(size, 'x'));
    writeFile(path("stays"), std::string(size, 'y'));
    const auto shrinks = MappedFile::open(path("shrinks"));
    const auto stays = MappedFile::open(path("stays"));
    QVERIFY(shrinks.has_value() && stays.has_value());
    fs::resize_file(path("shrinks"), size / 2);
    const auto sum = [](const MappedFile& file) {
      std::size_t n = 0;
      for (const std::byte byte : file.bytes()) n += byte != std::byte{0} ? 1 : 0;
      return n;
    };
    QVERIFY(!(*shrinks)->lost());  // nobody looked yet
    QCOMPARE(sum(**shrinks), size / 2);
    QVERIFY((*shrinks)->lost());
    QCOMPARE(sum(**stays), size);
    QVERIFY(!(*stays)->lost());
    fs::remove(path("stays"));  // a file that vanishes stays whole while it is mapped
    QCOMPARE(sum(**stays), size);
    QVERIFY(!(*stays)->lost());
    // A new mapping does not inherit the mark.
    writeFile(path("again"), std::string(size, 'z'));
    const auto again = MappedFile::open(path("again"));
    QVERIFY(!(*again)->lost());
  }
};

QTEST_GUILESS_MAIN(TestGgufFile)
#include "tst_gguf_file.moc"

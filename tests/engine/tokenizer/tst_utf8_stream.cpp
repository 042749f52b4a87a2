#include <QTest>

#include "engine/tokenizer/utf8_stream.h"

using vitrine::engine::Utf8Stream;

class TestUtf8Stream : public QObject {
  Q_OBJECT

 private:
  static std::string atOnce(std::string_view bytes) {
    Utf8Stream stream;
    std::string text = stream.append(bytes);
    return text + stream.finish();
  }

 private slots:
  void charactersCutAnywhereComeWhole() {
    const std::string text = "Hi 😀 漢字 👩‍💻 🇫🇷 e\u0301 é end";
    for (std::size_t a = 0; a <= text.size(); ++a) {
      for (std::size_t b = a; b <= text.size(); ++b) {
        Utf8Stream stream;
        std::string shown;
        for (const std::string_view part :
             {std::string_view(text).substr(0, a), std::string_view(text).substr(a, b - a),
              std::string_view(text).substr(b)}) {
          const std::string whole = stream.append(part);
          QVERIFY(whole.find("\uFFFD") == std::string::npos);
          shown += whole;
        }
        QVERIFY(!stream.holdsBack());
        QVERIFY(shown + stream.finish() == text);
      }
    }
  }

  void brokenBytesBecomeReplacements_data() {
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QString>("text");
    // One U+FFFD for each maximal subpart, as browsers and Python do.
    QTest::newRow("never a byte") << QByteArray(
                                         "a\xFF"
                                         "b")
                                  << "a\uFFFDb";
    QTest::newRow("lonely start") << QByteArray("\xC3(") << "\uFFFD(";
    QTest::newRow("lonely continuation") << QByteArray("\x80\xBF") << "\uFFFD\uFFFD";
    QTest::newRow("cut short") << QByteArray("\xE2\x82x") << "\uFFFDx";
    QTest::newRow("surrogate") << QByteArray("\xED\xA0\x80") << "\uFFFD\uFFFD\uFFFD";
    QTest::newRow("overlong") << QByteArray("\xC0\xAF") << "\uFFFD\uFFFD";
    QTest::newRow("overlong 3") << QByteArray("\xE0\x80\xAF") << "\uFFFD\uFFFD\uFFFD";
    QTest::newRow("too large") << QByteArray("\xF4\x90\x80\x80") << "\uFFFD\uFFFD\uFFFD\uFFFD";
    QTest::newRow("four cut") << QByteArray("\xF0\x9F\x98z") << "\uFFFDz";
    QTest::newRow("ends inside") << QByteArray("ab\xF0\x9F") << "ab\uFFFD";
    QTest::newRow("null") << QByteArray("a\0b", 3) << QString::fromLatin1("a\0b", 3);
  }

  void brokenBytesBecomeReplacements() {
    QFETCH(QByteArray, bytes);
    QFETCH(QString, text);
    const std::string whole = bytes.toStdString();
    QCOMPARE(QString::fromStdString(atOnce(whole)), text);
    // However the bytes arrive, the text is the same.
    for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
      Utf8Stream stream;
      std::string shown = stream.append(std::string_view(whole).substr(0, cut));
      shown += stream.append(std::string_view(whole).substr(cut));
      shown += stream.finish();
      QCOMPARE(QString::fromStdString(shown), text);
      QVERIFY(!stream.holdsBack());
    }
    Utf8Stream stream;
    std::string shown;
    for (const char byte : whole) shown += stream.append({&byte, 1});
    QCOMPARE(QString::fromStdString(shown + stream.finish()), text);
  }

  void everyCutOfRandomBytesIsTheSame() {
    std::uint32_t state = 1;
    for (int round = 0; round < 2000; ++round) {
      std::string bytes;
      for (int i = 0; i < 12; ++i) {
        state = state * 1664525U + 1013904223U;
        constexpr unsigned char kInteresting[] = {0x41, 0x80, 0xBF, 0xC2, 0xE0, 0xA0,
                                                  0xED, 0xEF, 0xF0, 0x90, 0xF4, 0xFF};
        bytes += static_cast<char>(kInteresting[(state >> 16) % sizeof kInteresting]);
      }
      const std::string expected = atOnce(bytes);
      QCOMPARE(QString::fromStdString(expected).toStdString(), expected);  // valid UTF-8
      Utf8Stream stream;
      std::string shown;
      for (std::size_t i = 0; i < bytes.size();) {
        state = state * 1664525U + 1013904223U;
        const std::size_t n = 1 + (state >> 16) % 4;
        shown += stream.append(std::string_view(bytes).substr(i, n));
        i += n;
      }
      QVERIFY(shown + stream.finish() == expected);
    }
  }
};

QTEST_GUILESS_MAIN(TestUtf8Stream)
#include "tst_utf8_stream.moc"

// What the API refuses, with which status and in what words, and that it lives on.
#include <QTemporaryDir>
#include <QtTest>
#include <array>

#include "tests/app/api_fixture.h"
#include "tests/tiny_models.h"

using namespace vitrine;
using app::ApiServer;
using nlohmann::json;
using test::ApiFixture;
using test::chat;
using test::Connection;
using test::kChat;
using test::post;
using test::request;
using test::textOf;

class TestApiRefusals : public QObject {
  Q_OBJECT

  QTemporaryDir m_dir;
  std::filesystem::path m_parrot;

 private slots:
  void initTestCase() {
    test::ParrotOptions options;
    options.contextLength = 256;
    m_parrot = test::parrotModel("still here and fine", options)
                   .save(std::filesystem::path(m_dir.path().toStdString()) / "parrot.gguf");
  }

  void meaninglessValuesAreRefused_data() {
    QTest::addColumn<QString>("fields");
    QTest::addColumn<bool>("accepted");
    const auto refused = [](const char* fields) { QTest::newRow(fields) << fields << false; };
    const auto accepted = [](const char* fields) { QTest::newRow(fields) << fields << true; };
    for (const char* fields :
         {R"({"max_tokens":0})",
          R"({"max_tokens":-2})",
          R"({"max_tokens":1.5})",
          R"({"max_tokens":"five"})",
          R"({"max_tokens":true})",
          R"({"temperature":-1})",
          R"({"temperature":"hot"})",
          R"({"temperature":1e308})",
          R"({"top_p":2})",
          R"({"top_p":-0.1})",
          R"({"min_p":1.5})",
          R"({"top_k":-2})",
          R"({"top_k":1.5})",
          R"({"top_k":1000000000000000000000000000000})",
          R"({"repeat_penalty":0})",
          R"({"repeat_penalty":-2})",
          R"({"presence_penalty":1e300})",
          R"({"frequency_penalty":3})",
          R"({"seed":-5})",
          R"({"seed":"x"})",
          R"({"seed":18446744073709551615})",
          R"({"n":0})",
          R"({"n":2})",
          R"({"stop":5})",
          R"({"stop":[null]})",
          R"({"stop":""})",
          R"({"stop":{}})",
          R"({"stream":"yes"})",
          R"({"stream":1})",
          R"({"stream_options":"x"})",
          R"({"stream_options":{"include_usage":"y"}})",
          R"({"logprobs":5})",
          R"({"logprobs":true,"top_logprobs":21})",
          R"({"logit_bias":{"5":1}})",
          R"({"response_format":{"type":"json_object"}})",
          R"({"tool_choice":"required"})",
          R"({"messages":"hi"})",
          R"({"messages":[]})",
          R"({"messages":{}})",
          R"({"messages":[1,null]})",
          R"({"messages":[{"role":"user"}]})",
          R"({"messages":[{"content":"x"}]})",
          R"({"messages":[{"role":"wizard","content":"x"}]})",
          R"({"messages":[{"role":"user","content":5}]})",
          R"({"messages":[{"role":"user","content":null}]})",
          R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})"}) {
      refused(fields);
    }
    for (
        const char* fields :
        {R"({"max_tokens":null})",
         R"({"max_tokens":1000000000000000000})",
         R"({"max_tokens":2.0})",
         R"({"max_completion_tokens":3})",
         R"({"temperature":null})",
         R"({"temperature":0})",
         R"({"top_k":-1})",
         R"({"top_k":0})",
         R"({"top_k":1000000000})",
         R"({"top_p":0})",
         R"({"min_p":1})",
         R"({"seed":-1})",
         R"({"n":1})",
         R"({"stop":null})",
         R"({"stop":[]})",
         R"({"stream":null})",
         R"({"logit_bias":{}})",
         R"({"logit_bias":null})",
         R"({"nobody_knows":{"this":[1,2]}})",
         R"({"response_format":{"type":"text"}})",
         R"({"messages":[{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}]})",
         R"({"messages":[{"role":"developer","content":"x"},{"role":"user","content":"hi"}]})"}) {
      accepted(fields);
    }
  }
  void meaninglessValuesAreRefused() {
    static ApiFixture f(m_parrot);
    QFETCH(QString, fields);
    QFETCH(bool, accepted);
    json body = chat("hi");
    body.update(json::parse(fields.toStdString()));
    const auto answer = post(f.port, kChat, body);
    QCOMPARE(answer.status, accepted ? 200 : 400);
    if (!accepted) QVERIFY(!answer.error().empty());
  }

  void brokenBodiesAreRefused_data() {
    QTest::addColumn<QByteArray>("body");
    QTest::addColumn<int>("status");
    const std::string good = chat("hi").dump();
    QTest::newRow("empty") << QByteArray("") << 400;
    QTest::newRow("no JSON") << QByteArray("hello") << 400;
    QTest::newRow("cut") << QByteArray::fromStdString(good.substr(0, good.size() / 2)) << 400;
    QTest::newRow("array") << QByteArray("[]") << 400;
    QTest::newRow("number") << QByteArray("5") << 400;
    QTest::newRow("null") << QByteArray("null") << 400;
    QTest::newRow("more behind") << QByteArray::fromStdString(good + " xyz") << 400;
    QTest::newRow("byte order mark")
        << QByteArray("\xEF\xBB\xBF" + QByteArray::fromStdString(good)) << 200;
    QByteArray wide("\xFF\xFE");
    for (const char c : good) wide.append(c).append('\0');
    QTest::newRow("UTF-16") << wide << 400;
    const auto withContent = [](const char* content) {
      return QByteArray(R"({"messages":[{"role":"user","content":")") + content + "\"}]}";
    };
    QTest::newRow("not UTF-8") << withContent("caf\xE9 \xFF") << 400;
    QTest::newRow("UTF-8 cut") << withContent("\xE6\xBC") << 400;
    QTest::newRow("surrogate in UTF-8") << withContent("\xED\xA0\x80") << 400;
    QTest::newRow("half a pair") << withContent("\\ud83d x") << 400;
    QTest::newRow("NUL in text") << withContent("a\\u0000b") << 200;
    QTest::newRow("not a number") << QByteArray(R"({"messages":[],"temperature":NaN})") << 400;
    QTest::newRow("infinite") << QByteArray(R"({"messages":[],"max_tokens":1e999})") << 400;
    QTest::newRow("nested deeply") << QByteArray("{\"x\":") + QByteArray(100000, '[') << 400;
    QTest::newRow("brackets in a text") << withContent(std::string(200, '[').c_str()) << 200;
  }
  void brokenBodiesAreRefused() {
    static ApiFixture f(m_parrot);
    QFETCH(QByteArray, body);
    QFETCH(int, status);
    const auto answer = request(f.port, "POST", kChat, body.toStdString());
    QCOMPARE(answer.status, status);
    if (status != 200) QVERIFY(!answer.error().empty());
    QVERIFY(f.isAlive());
  }

  void bodiesHaveALimit() {
    ApiServer::Options options;
    options.maxBodyBytes = 100000;
    ApiFixture f(m_parrot, options);
    const auto answer = post(f.port, kChat, chat(std::string(200000, 'a')));
    QCOMPARE(answer.status, 413);
    QVERIFY(!answer.error().empty());
    // The same in chunks, whose sum nobody announced.
    Connection connection(f.port);
    connection.write(std::string("POST ") + kChat +
                     " HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    const std::string chunk = "2000\r\n" + std::string(0x2000, 'a') + "\r\n";
    for (int i = 0; i < 40; ++i) connection.write(chunk);
    connection.write("0\r\n\r\n");
    const int status = test::parseAnswer(connection.readSome()).status;
    QVERIFY2(status == 413 || status == 0, qPrintable(QString::number(status)));
    QVERIFY(f.isAlive());
  }

  void oddConnectionsHarmNobody() {
    ApiFixture f(m_parrot);
    const std::string head = std::string("POST ") + kChat + " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
    std::string noise = "\x16\x03\x01";
    for (int i = 0; i < 300; ++i) noise += static_cast<char>(i * 37 + 11);
    const std::array<std::string, 8> requests = {
        head + "Content-Length: 100\r\n\r\n0123456789",
        head + "Content-Length: -5\r\n\r\n",
        head + "Content-Length: 1000000000000000000000000000000\r\n\r\n",
        "POST / HTTP/1.1\r\nA: " + std::string(100000, 'b'),
        noise,
        head + "Transfer-Encoding: chunked\r\n\r\nZZ\r\nabc\r\n",
        "GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        head + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"};
    std::vector<Connection> open;
    for (const std::string& text : requests) {
      open.emplace_back(f.port, 1);
      open.back().write(text);
    }
    for (auto& connection : open) {
      QVERIFY(connection.readSome().find("root:") == std::string::npos);
      connection.close();
      QVERIFY(f.isAlive());
    }
    std::vector<Connection> idle;
    for (int i = 0; i < 300; ++i) idle.emplace_back(f.port);
    QVERIFY(f.isAlive());
    QCOMPARE(textOf(post(f.port, kChat, chat("hi"))), std::string("still here and fine"));
  }

  void unknownPathsAnswerInJson() {
    ApiFixture f(m_parrot);
    for (const auto& [method, path] : {std::pair{"GET", kChat}, std::pair{"GET", "/v1/nothing"},
                                       std::pair{"POST", "/v1/models"}, std::pair{"PUT", kChat}}) {
      const auto answer = request(f.port, method, path);
      QVERIFY(answer.status == 404 || answer.status == 400);  // 400: a PUT without a length
      QVERIFY(!answer.error().empty());
    }
  }

  void theKeyIsAskedFor() {
    ApiServer::Options options;
    options.apiKey = "sesame";
    ApiFixture f(m_parrot, options);
    QCOMPARE(request(f.port, "GET", "/v1/models").status, 401);
    QCOMPARE(post(f.port, kChat, chat("hi")).status, 401);
    QCOMPARE(request(f.port, "GET", "/v1/models", "", "Authorization: Bearer sesam\r\n").status,
             401);
    QCOMPARE(request(f.port, "GET", "/v1/models", "", "Authorization: Bearer sesame\r\n").status,
             200);
    QCOMPARE(request(f.port, "GET", "/health").status, 200);
  }

  void webPagesAreKeptOut() {
    ApiFixture f(m_parrot);
    const char* foreign = "Origin: http://evil.example\r\n";
    QCOMPARE(request(f.port, "POST", kChat, chat("hi").dump(), foreign).status, 403);
    QCOMPARE(request(f.port, "OPTIONS", kChat, "", foreign).status, 403);
    Connection rebound(f.port);
    rebound.write("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    QCOMPARE(test::parseAnswer(rebound.readAll()).status, 403);

    ApiServer::Options options;
    options.corsOrigin = "http://evil.example";
    ApiFixture open(m_parrot, options);
    const auto allowed = request(open.port, "POST", kChat, chat("hi").dump(), foreign);
    QCOMPARE(allowed.status, 200);
    QVERIFY(allowed.head.find("Access-Control-Allow-Origin: http://evil.example") !=
            std::string::npos);
    QCOMPARE(request(open.port, "OPTIONS", kChat, "", foreign).status, 204);
  }
};

QTEST_GUILESS_MAIN(TestApiRefusals)
#include "tst_api_refusals.moc"

// The studio's jobs on a small real model, from start to their signals, stopped and thrown away.
#include <QSignalSpy>
#include <QtTest>

#include "app/studio/studio_session.h"
#include "app/studio/studio_tokens.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/backend/backend_fixture.h"

using namespace vitrine;
using namespace vitrine::app::studio;
using namespace vitrine::engine;

namespace {

constexpr int kLongestMs = 60'000;

/// A job's end: which signal came, and everything that came before.
class Heard : public QObject {
 public:
  explicit Heard(StudioSession& session) {
    connect(&session, &StudioSession::runningChanged, this, [this](bool on) { running = on; });
    connect(&session, &StudioSession::progressed, this, [this](const QString& stage, double f) {
      if (stages.isEmpty() || stages.last() != stage) stages << stage;
      rises = rises && f >= fraction && f <= 1.0;
      fraction = f;
    });
    connect(&session, &StudioSession::calibrated, this,
            [this](const CalibrationPtr& p) { profile = p, ended = true; });
    connect(&session, &StudioSession::lossRowMeasured, this,
            [this](const LossRow& row) { rowsHeard.push_back(row.label); });
    connect(&session, &StudioSession::lossMeasured, this,
            [this](const std::vector<LossRow>& r) { rows = r, ended = true; });
    connect(&session, &StudioSession::sensitivityMeasured, this,
            [this](const SensitivityReport& r) { sensitivity = r, ended = true; });
    connect(&session, &StudioSession::replayed, this,
            [this](const ReplayResult& r) { replay = r, ended = true; });
    connect(&session, &StudioSession::failed, this,
            [this](const Error& e) { error = e, ended = true; });
  }
  bool wait() {
    return QTest::qWaitFor([this] { return ended; }, kLongestMs);
  }

  bool running = false, ended = false, rises = true;
  double fraction = 0;
  QStringList stages;
  CalibrationPtr profile;
  std::vector<QString> rowsHeard;
  std::vector<LossRow> rows;
  SensitivityReport sensitivity;
  ReplayResult replay;
  std::optional<Error> error;
};

}  // namespace

class TestStudioSession : public QObject {
  Q_OBJECT

 private slots:
  void initTestCase() {
    test::TinyModelOptions options;
    options.contextLength = 256;
    m_model = test::loadModel(test::randomModel(options));
    m_config.backend = BackendKind::kCpu;
    m_config.threads = 1;
    m_int8 = m_config;
    m_int8.precision.weights = WeightMode::kInt8;
    m_int8.precision.activations = ActivationMode::kInt8;
    for (int i = 0; i < 60; ++i) m_text.text += "the mill stood where the river narrowed ";
    m_text.name = QStringLiteral("mill");
    m_messages = {{"system", "Be brief.", {}},
                  {"user", "Why is the sky blue?", {}},
                  {"assistant", "Because of <|im_end|> scattering: é漢.", {}},
                  {"user", "And at dusk?", {}},
                  {"assistant", "Red.", {}}};
  }

  void answersOfAConversationAreFound() {
    const auto& tokenizer = m_model->tokenizer();
    for (const bool withIds : {false, true}) {
      auto messages = m_messages;
      if (withIds) {  // as the model generated them: single bytes, not what encode() would give
        for (const char c : std::string("Red.")) {
          messages[4].tokens.push_back(3 + static_cast<unsigned char>(c));
        }
      }
      const auto found = test::valueOf(conversationTokens(*m_model, messages));
      QCOMPARE(found.answers.size(), 2U);
      const std::string texts[] = {messages[2].content, messages[4].content};
      for (std::size_t i = 0; i < 2; ++i) {
        const auto [begin, end] = found.answers[i];
        const std::span ids = std::span(found.tokens).subspan(begin, end - begin);
        QCOMPARE(tokenizer.piece(ids.back()), "<|im_end|>");  // the model's own end of the turn
        QCOMPARE(tokenizer.decode(ids.first(ids.size() - 1)), texts[i]);
        for (const TokenId id : ids.first(ids.size() - 1)) QVERIFY(!tokenizer.isControl(id));
      }
      const auto pieces = tokenPieces(*m_model, found.tokens);
      QCOMPARE(pieces.size(), found.tokens.size());
      QString all;
      for (const QString& piece : pieces) all += piece;
      QVERIFY2(all.contains(QString::fromUtf8("scattering: é漢.")), qPrintable(all));
      QVERIFY(all.contains(QStringLiteral("<|im_start|>user\nAnd at dusk?<|im_end|>")));
      QVERIFY(!all.contains(QChar(QChar::ReplacementCharacter)));
    }
  }

  void piecesEndWhatIsNoCharacter() {
    const std::vector<TokenId> tokens = {3 + 0xC3, 2, 3 + 'a', 3 + 0xE6};
    const auto pieces = tokenPieces(*m_model, tokens);
    QCOMPARE(pieces.size(), 4U);
    QCOMPARE(pieces[0], QString(QChar(QChar::ReplacementCharacter)));
    QCOMPARE(pieces[1], QStringLiteral("<|im_end|>"));
    QCOMPARE(pieces[3], QString(QChar(QChar::ReplacementCharacter)));
  }

  void calibratingGivesAProfile() {
    StudioSession session;
    Heard heard(session);
    CalibrationJob job;
    job.model = m_model;
    job.config = m_int8;  // runs with FP16 activations all the same
    job.texts = {m_text, {QStringLiteral("a chat"), {}, m_messages}};
    job.mostTokens = 200;
    job.options.name = "mine";
    job.options.context = 128;
    session.calibrate(job);
    QVERIFY(session.isRunning());
    QVERIFY(heard.running);
    QVERIFY(heard.wait());
    QVERIFY2(heard.profile, heard.error ? heard.error->message.c_str() : "");
    QVERIFY(!session.isRunning());
    QVERIFY(!heard.running);
    QCOMPARE(heard.profile->name, std::string("mine"));
    QCOMPARE(heard.profile->sources, (std::vector<std::string>{"mill", "a chat"}));
    QCOMPARE(heard.profile->modelFingerprint, m_model->fingerprint());
    QVERIFY(heard.profile->tokens > 200);
    for (const auto& site : heard.profile->sites) QVERIFY(site.absMax() > 0);
    QVERIFY(heard.rises);
  }

  void lossIsMeasuredRowByRow() {
    StudioSession session;
    Heard heard(session);
    LossJob job;
    job.model = m_model;
    job.reference = m_config;
    EngineConfig kv = m_config;
    kv.cache.type = KvType::kInt8;
    job.modes = {{QStringLiteral("itself"), m_config},
                 {QStringLiteral("W8A8"), m_int8},
                 {QStringLiteral("KV"), kv}};
    job.text = m_text;
    job.mostTokens = 500;
    session.measureLoss(job);
    QVERIFY(heard.wait());
    QVERIFY2(!heard.error, heard.error ? heard.error->message.c_str() : "");
    QCOMPARE(heard.rowsHeard.size(), 3U);
    QCOMPARE(heard.rows.size(), 3U);
    QCOMPARE(heard.rows[0].report.klMean, 0.0);
    QVERIFY(heard.rows[1].report.klMean > 0);
    QVERIFY(heard.rows[2].report.klMean > 0);
    QVERIFY(heard.rows[1].weightBytes < heard.rows[0].weightBytes);
    QVERIFY(heard.stages.contains(QStringLiteral("W8A8")));
    QVERIFY(heard.rises);
  }

  void sensitivityAndReplayComeBack() {
    StudioSession session;
    Heard heard(session);
    SensitivityJob job;
    job.model = m_model;
    job.config = m_int8;
    job.text = m_text;
    job.mostTokens = 300;
    session.measureSensitivity(job);
    QVERIFY(heard.wait());
    QVERIFY2(!heard.error, heard.error ? heard.error->message.c_str() : "");
    QCOMPARE(heard.sensitivity.layers.size(), 2U);

    heard.ended = false;
    ReplayJob replay;
    replay.model = m_model;
    replay.configs = {m_config, m_int8};
    replay.messages = m_messages;
    session.replay(replay);
    QVERIFY(heard.wait());
    QVERIFY2(!heard.error, heard.error ? heard.error->message.c_str() : "");
    const ReplayResult& result = heard.replay;
    QCOMPARE(result.pieces.size(), result.report.tokens.size());
    const auto conversation = test::valueOf(conversationTokens(*m_model, m_messages));
    int answers = 0;
    for (const TokenRange& range : conversation.answers) answers += range.end - range.begin;
    QCOMPARE(result.report.scoredTokens, answers);
    QVERIFY(result.report.klMean > 0);
    QVERIFY(result.configs[1] == m_int8);
  }

  void aJobFailsWithASentence() {
    StudioSession session;
    Heard heard(session);
    ReplayJob job;
    job.model = m_model;
    job.configs = {m_config, m_int8};
    job.messages = {{"user", "No answer yet.", {}}};
    session.replay(job);
    QVERIFY(heard.wait());
    QVERIFY(heard.error);
    QCOMPARE(heard.error->code, ErrorCode::kInvalidArgument);
    QVERIFY(!session.isRunning());
  }

  void stoppingEndsInCancelledAndTheNextRuns() {
    StudioSession session;
    Heard heard(session);
    session.measureSensitivity(longJob());
    QTRY_VERIFY_WITH_TIMEOUT(heard.stages.size() > 1, kLongestMs);
    session.stop();
    QVERIFY(heard.wait());
    QVERIFY(heard.error);
    QCOMPARE(heard.error->code, ErrorCode::kCancelled);

    heard.ended = false;
    heard.error.reset();
    LossJob job;
    job.model = m_model;
    job.reference = m_config;
    job.modes = {{QStringLiteral("W8A8"), m_int8}};
    job.text = m_text;
    job.mostTokens = 100;
    session.measureLoss(job);
    QVERIFY(heard.wait());
    QVERIFY(!heard.error);
  }

  void destroyingStopsIt() {
    auto session = std::make_unique<StudioSession>();
    Heard heard(*session);
    session->measureSensitivity(longJob());
    QTRY_VERIFY_WITH_TIMEOUT(heard.stages.size() > 1, kLongestMs);
    session.reset();  // returns, and nothing comes any more
    heard.ended = false;
    QTest::qWait(20);
    QVERIFY(!heard.ended);
  }

 private:
  /// Many times longer than the test takes to stop it.
  SensitivityJob longJob() const {
    SensitivityJob job;
    job.model = m_model;
    job.config = m_int8;
    job.text = m_text;
    for (int i = 0; i < 6; ++i) job.text.text += job.text.text;
    job.mostTokens = 1 << 20;
    job.matrices = true;
    return job;
  }

  std::shared_ptr<const Model> m_model;
  EngineConfig m_config, m_int8;
  StudioText m_text;
  std::vector<ChatMessage> m_messages;
};

QTEST_GUILESS_MAIN(TestStudioSession)
#include "tst_studio_session.moc"

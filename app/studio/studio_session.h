#pragma once

#include <QObject>
#include <QString>
#include <array>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "app/mailbox.h"
#include "engine/engine_types.h"
#include "engine/measure/calibrate.h"
#include "engine/measure/evaluate.h"
#include "engine/measure/replay.h"
#include "engine/measure/sensitivity.h"

namespace vitrine::app::studio {

/// What the studio reads: plain text, or a conversation rendered by the model's template.
struct StudioText {
  QString name;
  std::string text;
  std::vector<engine::ChatMessage> messages;  ///< not empty: instead of `text`
};

struct CalibrationJob {
  std::shared_ptr<const engine::Model> model;
  engine::EngineConfig config;  ///< backend, device, threads, KV heads; runs with FP16 activations
  std::vector<StudioText> texts;
  int mostTokens = 8192;  ///< of each text
  engine::CalibrationOptions options;
};

/// How far each of some configurations is from a reference, over one text.
struct LossJob {
  std::shared_ptr<const engine::Model> model;
  engine::EngineConfig reference;
  struct Mode {
    QString label;
    engine::EngineConfig config;
  };
  std::vector<Mode> modes;
  StudioText text;
  int mostTokens = 2048;
};
struct LossRow {
  QString label;
  engine::EngineConfig config;
  engine::EvaluationReport report;
  std::uint64_t weightBytes = 0;
};

struct SensitivityJob {
  std::shared_ptr<const engine::Model> model;
  engine::EngineConfig config;  ///< its precision is what is done to each layer alone
  StudioText text;
  int mostTokens = 1024;
  bool matrices = false;
};

struct ReplayJob {
  std::shared_ptr<const engine::Model> model;
  std::array<engine::EngineConfig, 2> configs;
  std::vector<engine::ChatMessage> messages;
};
struct ReplayResult {
  engine::ReplayReport report;
  std::vector<QString> pieces;  ///< the text of each token; a character's bytes on its last token
  std::array<engine::EngineConfig, 2> configs;
};

/// The studio's long work: one job at a time on a thread and backends of its own, beside the loaded
/// engine and its chats. Heard of as signals on this object's thread; destroying it stops the job
/// within a step of the model and waits.
class StudioSession final : public QObject {
  Q_OBJECT
 public:
  explicit StudioSession(QObject* parent = nullptr);
  ~StudioSession() override;

  bool isRunning() const { return m_running; }
  // Each requires: nothing runs, and a model. Each ends in its own signal, or in failed().
  void calibrate(CalibrationJob job);
  void measureLoss(LossJob job);
  void measureSensitivity(SensitivityJob job);
  void replay(ReplayJob job);
  void stop();

 signals:
  void runningChanged(bool running);
  void progressed(const QString& stage, double fraction);
  void calibrated(const vitrine::engine::CalibrationPtr& profile);
  void lossRowMeasured(const vitrine::app::studio::LossRow& row);
  void lossMeasured(const std::vector<vitrine::app::studio::LossRow>& rows);
  void sensitivityMeasured(const vitrine::engine::SensitivityReport& report);
  void replayed(const vitrine::app::studio::ReplayResult& result);
  /// kCancelled: stopped on request.
  void failed(const vitrine::engine::Error& error);

 private:
  template <typename Work>
  void run(Work work);

  bool m_running = false;
  Mailbox m_mailbox{this};
  std::jthread m_thread;  // last: joins before the rest goes
};

}  // namespace vitrine::app::studio

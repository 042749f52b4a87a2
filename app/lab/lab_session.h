#pragma once

#include <QObject>
#include <QString>
#include <memory>
#include <thread>

#include "app/lab/lab_runner.h"
#include "app/lab/load_generator.h"
#include "app/mailbox.h"

namespace vitrine::app::lab {

/// The lab for a window: one run at a time on a thread of its own, heard of as signals on this
/// object's thread. Destroying it stops the run within a step of the model and waits for it.
class LabSession final : public QObject {
  Q_OBJECT
 public:
  explicit LabSession(QObject* parent = nullptr);
  ~LabSession() override;

  bool isRunning() const { return m_running; }
  /// Requires: nothing runs.
  void start(LabPlan plan);
  /// The load of a spec at each of these numbers of chats (with arrivals: once, the levels do not
  /// matter). Requires: nothing runs, spec.check().
  void startLoad(const std::filesystem::path& model, const engine::EngineConfig& config,
                 LoadSpec spec, std::vector<int> levels);
  void stop();

 signals:
  void runningChanged(bool running);
  void progressed(const vitrine::app::lab::LabProgress& progress);
  void rowFinished(const vitrine::app::lab::LabRow& row);
  void rowFailed(const QString& id, const QString& message);
  void finished(const vitrine::app::lab::LabReport& report);
  void loadProgressed(double fraction);
  void loadMeasured(const vitrine::app::lab::LoadCurve& curve);
  /// A run ended before its end; an empty message: it was stopped.
  void failed(const QString& message);

 private:
  void run(std::function<void(std::stop_token)> work);
  void fail(const engine::Error& error);

  bool m_running = false;
  Mailbox m_mailbox{this};
  std::jthread m_thread;  // last: it is joined before the rest goes
};

}  // namespace vitrine::app::lab

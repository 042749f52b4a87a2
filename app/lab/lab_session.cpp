#include "app/lab/lab_session.h"

#include <algorithm>

#include "app/lab/lab_engine.h"
#include "app/text.h"

namespace vitrine::app::lab {

LabSession::LabSession(QObject* parent) : QObject(parent) {}

LabSession::~LabSession() {
  stop();
  if (m_thread.joinable()) m_thread.join();
}

void LabSession::run(std::function<void(std::stop_token)> work) {
  m_running = true;
  emit runningChanged(true);
  if (m_thread.joinable()) m_thread.join();  // it has ended: its last words were heard
  m_thread = std::jthread([this, work = std::move(work)](std::stop_token stop) {
    work(std::move(stop));
    m_mailbox.post([this] {
      m_running = false;
      emit runningChanged(false);
    });
  });
}

void LabSession::stop() {
  m_thread.request_stop();
}

void LabSession::fail(const engine::Error& error) {
  const bool stopped = error.code == engine::ErrorCode::kCancelled;
  m_mailbox.post(
      [this, text = stopped ? QString() : toQString(error.message)] { emit failed(text); });
}

void LabSession::start(LabPlan plan) {
  run([this, plan = std::move(plan)](std::stop_token stop) {
    LabListener listener;
    auto last = std::chrono::steady_clock::now() - std::chrono::seconds(1);
    std::string lastRow;
    listener.progress = [&](const LabProgress& progress) {
      const auto now = std::chrono::steady_clock::now();
      if (progress.row == lastRow && now - last < std::chrono::milliseconds(100)) return;
      last = now;
      lastRow = progress.row;
      m_mailbox.post([this, progress] { emit progressed(progress); });
    };
    listener.rowFinished = [&](const LabRow& row) {
      m_mailbox.post([this, row] { emit rowFinished(row); });
    };
    listener.rowFailed = [&](const std::string& id, const engine::Error& error) {
      m_mailbox.post([this, id = toQString(id), text = toQString(error.message)] {
        emit rowFailed(id, text);
      });
    };
    auto report = runLab(plan, listener, stop);
    if (!report) return fail(report.error());
    m_mailbox.post([this, report = std::move(*report)] { emit finished(report); });
  });
}

void LabSession::startLoad(const std::filesystem::path& model, const engine::EngineConfig& config,
                           LoadSpec spec, std::vector<int> levels) {
  if (spec.arrivalsPerSecond > 0) levels = {spec.concurrency};
  run([this, model, config = baseConfig(config), spec, levels](std::stop_token stop) {
    auto lab = LabEngine::open(model, config, stop);
    if (!lab) return fail(lab.error());
    LoadCurve curve;
    curve.batching = spec.batching;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      LoadSpec level = spec;
      level.concurrency = levels[i];
      level.requests = std::max(spec.requests, levels[i]);
      const auto result = runLoad(**lab, level, stop, [&](double share) {
        const double whole = (double(i) + share) / double(levels.size());
        m_mailbox.post([this, whole] { emit loadProgressed(whole); });
      });
      if (!result) return fail(result.error());
      curve.levels.push_back(*result);
      markKnee(curve);
      m_mailbox.post([this, curve] { emit loadMeasured(curve); });
    }
  });
}

}  // namespace vitrine::app::lab

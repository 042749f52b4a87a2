#include "app/studio/studio_session.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <utility>

#include "app/studio/studio_tokens.h"
#include "app/text.h"
#include "engine/measure/reference_rows.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::studio {

using namespace engine;

namespace {

constexpr int kWindow = 512;  // as the command line program's perplexity
constexpr int kStep = 64;     // tokens between two looks at the stop button
constexpr std::uint64_t kReferenceBytes = std::uint64_t{512} << 20;

Result<std::unique_ptr<Backend>> make(const std::shared_ptr<const Model>& model,
                                      const EngineConfig& config, const Progress& progress,
                                      const std::stop_token& stop) {
  return makeBackend(config.backend, model, config.backendOptions(), progress, stop);
}

ScoredWindows::Options windowsFor(const Model& model) {
  ScoredWindows::Options options;
  options.context = std::min(kWindow, model.config().contextLength);
  options.chunk = kStep;
  if (model.tokenizer().addsBos()) options.bos = model.tokenizer().bos();
  return options;
}

/// A part of the progress, from `begin` on.
Progress within(const Progress& whole, double begin, double length) {
  return [&whole, begin, length](const std::string& stage, double done) {
    whole(stage, begin + length * done);
  };
}

Result<CalibrationPtr> runCalibration(const CalibrationJob& job, const Progress& progress,
                                      const std::stop_token& stop) {
  std::vector<CalibrationText> texts;
  for (const StudioText& text : job.texts) {
    VITRINE_ASSIGN(auto tokens, tokensOf(*job.model, text, job.mostTokens));
    texts.push_back({toUtf8(text.name), std::move(tokens)});
  }
  EngineConfig config = job.config;
  config.precision = {};  // the file's own weights, FP16 activations
  VITRINE_ASSIGN(const auto backend, make(job.model, config, within(progress, 0, 0.2), stop));
  return engine::calibrate(*backend, *job.model, texts, job.options, within(progress, 0.2, 0.8),
                           stop);
}

Result<std::vector<LossRow>> runLoss(const LossJob& job,
                                     const std::function<void(const LossRow&)>& onRow,
                                     const Progress& progress, const std::stop_token& stop) {
  VITRINE_ASSIGN(const auto tokens, tokensOf(*job.model, job.text, job.mostTokens));
  VITRINE_ASSIGN(const ScoredWindows windows,
                 ScoredWindows::make(job.model->config(), tokens, windowsFor(*job.model)));
  const double share = 1.0 / (static_cast<double>(job.modes.size()) + 1);
  VITRINE_ASSIGN(auto exact, make(job.model, job.reference, within(progress, 0, share / 4), stop));
  ReferenceRows reference(windows);
  VITRINE_TRY(reference.take(std::move(exact), job.reference.cache.type, kReferenceBytes,
                             "Reference", within(progress, share / 4, share * 3 / 4), stop));
  std::vector<LossRow> rows;
  for (const LossJob::Mode& mode : job.modes) {
    const double begin = share * (static_cast<double>(rows.size()) + 1);
    VITRINE_ASSIGN(const auto backend,
                   make(job.model, mode.config, within(progress, begin, share / 4), stop));
    LossRow row{mode.label, mode.config, {}, 0};
    const BackendMemory memory = backend->memory();
    row.weightBytes = memory.weightBytes + memory.mappedBytes;
    VITRINE_ASSIGN(row.report,
                   reference.compare(*backend, mode.config.cache.type, toUtf8(mode.label),
                                     within(progress, begin + share / 4, share * 3 / 4), stop));
    onRow(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

Result<SensitivityReport> runSensitivity(const SensitivityJob& job, const Progress& progress,
                                         const std::stop_token& stop) {
  VITRINE_ASSIGN(const auto tokens, tokensOf(*job.model, job.text, job.mostTokens));
  const ScoredWindows::Options windows = windowsFor(*job.model);
  SensitivityOptions options;
  options.precision = job.config.precision;
  options.context = windows.context;
  options.chunk = windows.chunk;
  options.bos = windows.bos;
  options.referenceBytes = kReferenceBytes;
  options.matrices = job.matrices;
  const BackendMaker maker = [&](const WeightPrecision& precision) {
    EngineConfig config = job.config;
    config.precision = precision;
    return make(job.model, config, {}, stop);
  };
  return measureSensitivity(maker, job.model->config(), tokens, options, progress, stop);
}

Result<ReplayResult> runReplay(const ReplayJob& job, const Progress& progress,
                               const std::stop_token& stop) {
  VITRINE_ASSIGN(const auto conversation, conversationTokens(*job.model, job.messages));
  ReplayResult result;
  result.configs = job.configs;
  VITRINE_ASSIGN(const auto first,
                 make(job.model, job.configs[0], within(progress, 0, 0.15), stop));
  VITRINE_ASSIGN(const auto second,
                 make(job.model, job.configs[1], within(progress, 0.15, 0.15), stop));
  VITRINE_ASSIGN(result.report,
                 engine::replay({{{first.get(), job.configs[0].cache.type},
                                  {second.get(), job.configs[1].cache.type}}},
                                job.model->config(), conversation.tokens, conversation.answers,
                                within(progress, 0.3, 0.7), stop));
  result.pieces = tokenPieces(*job.model, conversation.tokens);
  return result;
}

}  // namespace

StudioSession::StudioSession(QObject* parent) : QObject(parent) {}

StudioSession::~StudioSession() = default;

// `work(progress, stop)` runs on the thread and gives what is to be called here at its end.
template <typename Work>
void StudioSession::run(Work work) {
  if (m_thread.joinable()) m_thread.join();  // it has ended: its last words were heard
  m_running = true;
  emit runningChanged(true);
  m_thread = std::jthread([this, work = std::move(work)](std::stop_token stop) {
    using Clock = std::chrono::steady_clock;
    auto last = Clock::now() - std::chrono::seconds(1);
    std::string lastStage;
    const Progress progress = [&](const std::string& stage, double fraction) {
      const auto now = Clock::now();
      if (stage == lastStage && now - last < std::chrono::milliseconds(100)) return;
      last = now;
      lastStage = stage;
      m_mailbox.post(
          [this, text = toQString(stage), fraction] { emit progressed(text, fraction); });
    };
    Result<std::function<void()>> done = work(progress, stop);
    m_mailbox.post([this, done = std::move(done)] {
      m_running = false;
      emit runningChanged(false);
      if (done) {
        (*done)();
      } else {
        emit failed(done.error());
      }
    });
  });
}

void StudioSession::calibrate(CalibrationJob job) {
  run([this, job = std::move(job)](const Progress& progress,
                                   const std::stop_token& stop) -> Result<std::function<void()>> {
    VITRINE_ASSIGN(const CalibrationPtr profile, runCalibration(job, progress, stop));
    return [this, profile] { emit calibrated(profile); };
  });
}

void StudioSession::measureLoss(LossJob job) {
  run([this, job = std::move(job)](const Progress& progress,
                                   const std::stop_token& stop) -> Result<std::function<void()>> {
    const auto onRow = [this](const LossRow& row) {
      m_mailbox.post([this, row] { emit lossRowMeasured(row); });
    };
    VITRINE_ASSIGN(const auto rows, runLoss(job, onRow, progress, stop));
    return [this, rows] { emit lossMeasured(rows); };
  });
}

void StudioSession::measureSensitivity(SensitivityJob job) {
  run([this, job = std::move(job)](const Progress& progress,
                                   const std::stop_token& stop) -> Result<std::function<void()>> {
    VITRINE_ASSIGN(const auto report, runSensitivity(job, progress, stop));
    return [this, report] { emit sensitivityMeasured(report); };
  });
}

void StudioSession::replay(ReplayJob job) {
  run([this, job = std::move(job)](const Progress& progress,
                                   const std::stop_token& stop) -> Result<std::function<void()>> {
    VITRINE_ASSIGN(const auto result, runReplay(job, progress, stop));
    return [this, result] { emit replayed(result); };
  });
}

void StudioSession::stop() {
  m_thread.request_stop();
}

}  // namespace vitrine::app::studio

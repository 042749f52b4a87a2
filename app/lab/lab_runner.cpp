#include "app/lab/lab_runner.h"

#include <QDateTime>
#include <algorithm>
#include <chrono>

#include "app/lab/experiment.h"
#include "app/lab/lab_store.h"
#include "app/lab/recommendations.h"
#include "app/text.h"
#include "engine/measure/machine.h"

namespace vitrine::app::lab {

using engine::ErrorCode;
using engine::fail;
using engine::Result;

namespace {

std::string now() {
  return toUtf8(QDateTime::currentDateTimeUtc().toString(Qt::ISODate));
}

/// The file's name as people say it: without its ending and the quantization told beside it.
std::string nameOf(const std::filesystem::path& path, const std::string& quantization) {
  std::string name = path.stem().string();
  if (!quantization.empty() && name.size() > quantization.size() + 1 &&
      name.ends_with(quantization)) {
    const char before = name[name.size() - quantization.size() - 1];
    if (before == '.' || before == '-' || before == '_') {
      name.resize(name.size() - quantization.size() - 1);
    }
  }
  return name;
}

/// Estimates what is left from what the rows should take and what the finished ones did.
class Clock {
 public:
  Clock(std::vector<const Experiment*> rows, Effort effort) : m_rows(std::move(rows)) {
    for (const Experiment* row : m_rows) m_estimates.push_back(row->seconds(effort));
  }
  LabProgress at(std::size_t index, double share, const std::string& method) const {
    using Seconds = std::chrono::duration<double>;
    const double elapsed = Seconds(std::chrono::steady_clock::now() - m_start).count();
    double before = 0, whole = 0;
    for (std::size_t i = 0; i < m_rows.size(); ++i) {
      whole += m_estimates[i];
      if (i < index) before += m_estimates[i];
      if (i == index) before += m_estimates[i] * share;
    }
    LabProgress progress;
    progress.row = index < m_rows.size() ? m_rows[index]->id : "";
    progress.method = method;
    progress.done = static_cast<int>(index);
    progress.total = static_cast<int>(m_rows.size());
    progress.rowFraction = share;
    progress.fraction = whole > 0 ? before / whole : 1;
    // At first the plan's word, then more and more this machine's.
    const double trust = std::min(1.0, before / 20);
    const double pace = before > 1 ? elapsed / before : 1;
    progress.remainingSeconds = (whole - before) * (trust * pace + (1 - trust));
    return progress;
  }

 private:
  std::vector<const Experiment*> m_rows;
  std::vector<double> m_estimates;
  std::chrono::steady_clock::time_point m_start = std::chrono::steady_clock::now();
};

Result<LabRow> runOne(const Experiment& experiment, const LabContext& context) {
  const auto start = std::chrono::steady_clock::now();
  VITRINE_ASSIGN(LabRow row, experiment.run(context));
  row.id = experiment.id;
  if (row.method.empty()) row.method = experiment.method(context.modelConfig());
  row.effort = context.effort;
  row.date = now();
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return row;
}

}  // namespace

Result<void> LabPlan::check() const {
  for (const std::string& id : only) {
    if (findExperiment(id) == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "there is no row '{}'; the rows are {}", id,
                  experimentNames());
    }
  }
  return {};
}

engine::EngineConfig baseConfig(engine::EngineConfig config) {
  const engine::EngineConfig standard;
  config.kvHeads = 0;
  config.cache.enabled = true;
  config.cache.reuse = true;
  config.cache.layout = engine::KvLayout::kPaged;
  config.cache.type = engine::KvType::kFp16;
  config.cache.budgetBytes = 0;
  config.archive = standard.archive;
  config.archive.folder.clear();
  config.batching = standard.batching;
  config.contextTokens = 0;
  config.maxSequences = standard.maxSequences;
  return config;
}

Subject describeSubject(const LabPlan& plan, const engine::Model& model) {
  Subject subject;
  subject.model = nameOf(plan.model, model.quantizationName());
  subject.quantization = model.quantizationName();
  subject.fingerprint = model.fingerprint();
  subject.path = plan.model.string();
  subject.processor = plan.backend.device;
  subject.instructionSet = plan.backend.instructionSet;
  subject.backend = plan.backend.name;
  subject.threads = plan.backend.threads;
  subject.memoryBytes = engine::totalMemoryBytes();
  subject.config = baseConfig(plan.config);
  return subject;
}

LabReport keptReport(const LabPlan& plan, const Subject& subject) {
  LabReport report;
  report.subject = subject;
  report.date = now();
  report.rows = LabStore(plan.folder, subject).rows();
  report.effort = plan.effort;
  report.recommendations = recommend(report.rows, plan.config);
  return report;
}

Result<LabReport> runLab(const LabPlan& asked, const LabListener& listener, std::stop_token stop) {
  VITRINE_TRY(asked.check());
  LabPlan plan = asked;
  LabContext context;
  context.path = plan.model;
  context.config = baseConfig(plan.config);
  context.effort = plan.effort;
  context.stop = stop;
  VITRINE_ASSIGN(context.model, engine::Model::load(plan.model, {}, stop));
  if (plan.backend.name.empty()) {
    VITRINE_ASSIGN(const auto backend, context.makeBackend(context.config.precision));
    plan.backend = backend->info();
  }
  const Subject subject = describeSubject(plan, *context.model);

  LabStore store(plan.folder, subject);
  if (!plan.resume) store.drop(plan.only);
  const std::vector<LabRow> kept = store.rows();
  std::vector<const Experiment*> due;
  for (const Experiment& experiment : experiments()) {
    const bool wanted = plan.only.empty() || std::find(plan.only.begin(), plan.only.end(),
                                                       experiment.id) != plan.only.end();
    const bool there = std::any_of(kept.begin(), kept.end(), [&](const LabRow& row) {
      return row.id == experiment.id && row.effort >= plan.effort;
    });
    if (wanted && !there) due.push_back(&experiment);
  }

  const Clock clock(due, plan.effort);
  std::optional<engine::Error> firstError;
  int finished = 0;
  for (std::size_t i = 0; i < due.size(); ++i) {
    const std::string method = due[i]->method(context.modelConfig());
    context.progress = [&](double share) {
      if (listener.progress) listener.progress(clock.at(i, share, method));
    };
    context.progress(0);
    const auto row = runOne(*due[i], context);
    if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "the lab was stopped");
    if (!row) {
      if (!firstError) firstError = row.error();
      if (listener.rowFailed) listener.rowFailed(due[i]->id, row.error());
      continue;
    }
    ++finished;
    VITRINE_TRY(store.keep(*row));
    if (listener.rowFinished) listener.rowFinished(*row);
  }
  if (firstError && finished == 0 && kept.empty()) return tl::unexpected(*firstError);
  if (listener.progress) listener.progress(clock.at(due.size(), 0, {}));
  return keptReport(plan, subject);
}

}  // namespace vitrine::app::lab

#include "app/lab/load_generator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>

#include "app/lab/lab_engine.h"

namespace vitrine::app::lab {

using engine::ErrorCode;
using engine::fail;
using engine::RequestId;
using engine::Result;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kMostTokens = 1 << 20;
constexpr int kMostRequests = 100'000;

// The standard's distributions differ between libraries; these do not.
int drawLength(std::mt19937_64& random, const LengthRange& range) {
  const auto width = static_cast<std::uint64_t>(range.most - range.least + 1);
  return range.least + static_cast<int>(random() % width);
}
double drawInterval(std::mt19937_64& random, double rate) {
  const double even = static_cast<double>(random() >> 11) * 0x1.0p-53;  // [0, 1)
  return -std::log1p(-even) / rate;
}

double millisecondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// The requests that are under way, and what they tell.
class LoadRun {
 public:
  LoadRun(LabEngine& lab, const LoadSpec& spec, std::stop_token stop,
          const std::function<void(double)>& progress)
      : m_lab(lab),
        m_spec(spec),
        m_stop(std::move(stop)),
        m_progress(progress),
        m_requests(makeRequests(spec, lab.info().config.vocabSize)) {}

  Result<LoadResult> run() {
    m_start = Clock::now();
    while (m_finished < m_requests.size()) {
      if (m_stop.stop_requested())
        return drain(Error{ErrorCode::kCancelled, "the lab was stopped"});
      submitDue();
      const auto event = m_lab.next(untilNextArrival());
      if (!event) continue;
      if (const auto* done = std::get_if<engine::TurnFinished>(&*event)) {
        finished(*done);
      } else if (const auto* failed = std::get_if<engine::TurnFailed>(&*event)) {
        m_running.erase(failed->id);
        return drain(failed->error);
      }
    }
    return result();
  }

 private:
  using Error = engine::Error;

  void submitDue() {
    const double now = millisecondsBetween(m_start, Clock::now()) / 1e3;
    while (m_next < m_requests.size()) {
      const bool due = m_spec.arrivalsPerSecond > 0
                           ? m_requests[m_next].arrivalSeconds <= now
                           : static_cast<int>(m_running.size()) < m_spec.concurrency;
      if (!due) return;
      engine::GenerateRequest request;
      request.prompt = m_requests[m_next].prompt;
      request.maxTokens = m_requests[m_next].answerTokens;
      request.ignoreEnd = true;
      request.sampling.temperature = 0;
      request.conversation = "lab " + std::to_string(m_next);
      m_running.emplace(m_lab.generate(std::move(request)), true);
      m_most = std::max(m_most, static_cast<int>(m_running.size()));
      ++m_next;
    }
  }

  std::chrono::nanoseconds untilNextArrival() const {
    constexpr std::chrono::milliseconds kLook(20);  // for a request to stop
    if (m_spec.arrivalsPerSecond <= 0 || m_next >= m_requests.size()) return kLook;
    const auto due =
        m_start + std::chrono::duration_cast<Clock::duration>(
                      std::chrono::duration<double>(m_requests[m_next].arrivalSeconds));
    return std::clamp<std::chrono::nanoseconds>(due - Clock::now(), std::chrono::nanoseconds(0),
                                                kLook);
  }

  void finished(const engine::TurnFinished& done) {
    if (m_running.erase(done.id) == 0) return;
    ++m_finished;
    const engine::TurnReport& report = done.report;
    m_result.promptTokens += report.promptTokens;
    m_result.generatedTokens += report.generatedTokens;
    m_ttft.push_back(report.ttftMs);
    for (std::size_t i = 1; i < report.tokenMs.size(); ++i) m_gaps.push_back(report.tokenMs[i]);
    if (m_progress) m_progress(double(m_finished) / double(m_requests.size()));
  }

  /// Ends what runs, so that nothing of it reaches the next load.
  Result<LoadResult> drain(Error error) {
    for (const auto& [id, running] : m_running) m_lab.cancel(id);
    while (!m_running.empty()) {
      const auto event = m_lab.next(std::chrono::seconds(30));
      if (!event) break;
      std::visit(
          [this](const auto& e) {
            using Kind = std::decay_t<decltype(e)>;
            if constexpr (std::is_same_v<Kind, engine::TurnFinished> ||
                          std::is_same_v<Kind, engine::TurnFailed>) {
              m_running.erase(e.id);
            }
          },
          *event);
    }
    return tl::unexpected(std::move(error));
  }

  LoadResult result() {
    m_result.seconds = millisecondsBetween(m_start, Clock::now()) / 1e3;
    m_result.concurrency = m_spec.arrivalsPerSecond > 0 ? m_most : m_spec.concurrency;
    m_result.batching = m_spec.batching;
    m_result.requests = static_cast<int>(m_requests.size());
    m_result.tokensPerSecond =
        static_cast<double>(m_result.generatedTokens) / std::max(m_result.seconds, 1e-9);
    m_result.ttftP50Ms = percentile(m_ttft, 0.5);
    m_result.ttftP95Ms = percentile(m_ttft, 0.95);
    m_result.tpotP50Ms = percentile(m_gaps, 0.5);
    m_result.tpotP95Ms = percentile(m_gaps, 0.95);
    return m_result;
  }

  LabEngine& m_lab;
  const LoadSpec& m_spec;
  std::stop_token m_stop;
  const std::function<void(double)>& m_progress;
  std::vector<LoadRequest> m_requests;
  std::map<RequestId, bool> m_running;
  std::size_t m_next = 0, m_finished = 0;
  int m_most = 0;
  Clock::time_point m_start;
  std::vector<double> m_ttft, m_gaps;
  LoadResult m_result;
};

}  // namespace

Result<void> LoadSpec::check() const {
  const auto checkRange = [](const char* what, const LengthRange& range) -> Result<void> {
    if (range.least >= 1 && range.most >= range.least && range.most <= kMostTokens) return {};
    return fail(ErrorCode::kInvalidArgument,
                "the {} is {} to {} tokens; it must be 1 or more, the smaller number first", what,
                range.least, range.most);
  };
  VITRINE_TRY(checkRange("prompt", prompt));
  VITRINE_TRY(checkRange("answer", answer));
  if (!(arrivalsPerSecond >= 0 && arrivalsPerSecond <= 1e6)) {
    return fail(ErrorCode::kInvalidArgument, "{} chats a second: it must be 0 to 1,000,000",
                arrivalsPerSecond);
  }
  if (arrivalsPerSecond <= 0 && (concurrency < 1 || concurrency > 256)) {
    return fail(ErrorCode::kInvalidArgument, "{} chats at once: it must be 1 to 256", concurrency);
  }
  if (requests < 1 || requests > kMostRequests) {
    return fail(ErrorCode::kInvalidArgument, "{} requests: it must be 1 to {}", requests,
                kMostRequests);
  }
  return {};
}

std::vector<LoadRequest> makeRequests(const LoadSpec& spec, int vocabSize) {
  std::mt19937_64 random(spec.seed);
  std::vector<LoadRequest> requests(static_cast<std::size_t>(spec.requests));
  double arrival = 0;
  for (LoadRequest& request : requests) {
    if (spec.arrivalsPerSecond > 0) {
      arrival += drawInterval(random, spec.arrivalsPerSecond);
      request.arrivalSeconds = arrival;
    }
    request.prompt.resize(static_cast<std::size_t>(drawLength(random, spec.prompt)));
    request.answerTokens = drawLength(random, spec.answer);
    for (engine::TokenId& token : request.prompt) {
      token = static_cast<engine::TokenId>(random() % static_cast<std::uint64_t>(vocabSize));
    }
  }
  return requests;
}

engine::EngineConfig configFor(engine::EngineConfig base, const engine::ModelConfig& model,
                               const LoadSpec& spec, int sequences) {
  base.batching = spec.batching;
  base.maxSequences = sequences;
  base.cache.enabled = true;
  base.cache.reuse = false;  // synthetic chats share nothing, and no run helps the next
  base.cache.layout = engine::KvLayout::kPaged;
  const int heads = base.kvHeads > 0 ? base.kvHeads : model.nKvHeads;
  const engine::KvShape shape{base.cache.type, base.cache.blockSize, 1, heads};
  const int tokens = spec.prompt.most + spec.answer.most;
  const int blocks = (tokens + base.cache.blockSize - 1) / base.cache.blockSize + 1;
  base.cache.budgetBytes = engine::kvBytesPerBlock(model, shape) *
                           static_cast<std::uint64_t>(blocks) *
                           static_cast<std::uint64_t>(sequences);
  return base;
}

Result<LoadResult> runLoad(LabEngine& lab, const LoadSpec& spec, std::stop_token stop,
                           const std::function<void(double)>& progress) {
  VITRINE_TRY(spec.check());
  const engine::ModelInfo& info = lab.info();
  if (spec.prompt.most + spec.answer.most > info.config.contextLength) {
    return fail(ErrorCode::kInvalidArgument,
                "prompts of up to {} tokens and answers of up to {} exceed the model's context of "
                "{} tokens",
                spec.prompt.most, spec.answer.most, info.config.contextLength);
  }
  constexpr int kMostSequences = 64;  // that arrive on their own; more wait in the queue
  const int sequences =
      spec.arrivalsPerSecond > 0 ? std::min(spec.requests, kMostSequences) : spec.concurrency;
  const engine::EngineConfig wanted = configFor(info.running, info.config, spec, sequences);
  if (!(wanted == info.running)) VITRINE_TRY(lab.reconfigure(wanted));
  return LoadRun(lab, spec, std::move(stop), progress).run();
}

}  // namespace vitrine::app::lab

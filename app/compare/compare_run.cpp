#include "app/compare/compare_run.h"

#include <QTimer>
#include <algorithm>
#include <filesystem>
#include <random>
#include <utility>

#include "app/chat/engine_client.h"
#include "app/text.h"
#include "engine/measure/machine.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app {

using namespace engine;

namespace {

constexpr double kMegabyte = 1024.0 * 1024.0;
constexpr int kLastStepsMs = 150;

}  // namespace

CompareRun::CompareRun(EngineClient& engine, QObject* parent) : QObject(parent), m_engine(engine) {
  watch(engine, false);
}

CompareRun::~CompareRun() {
  m_engine.disconnect(this);
  for (const Request& request : m_requests) {
    if (request.id != 0 && !request.onSecond) m_engine.cancel(request.id);
  }
  for (int side = 0; side < 2; ++side) m_engine.forget(conversationOf(side));
}

QString CompareRun::conversationOf(int side) {
  return side == 0 ? QStringLiteral("Compare A") : QStringLiteral("Compare B");
}

std::deque<CompareRun::Group> CompareRun::groupsOf(const CompareSetup& setup) const {
  const EngineConfig& loaded = m_engine.info()->running;
  std::deque<Group> groups;
  for (int side = 0; side < 2; ++side) {
    const EngineConfig& config = setup.sides[std::size_t(side)].config;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return computesTheSame(group.config, config);
    });
    if (same != groups.end()) {
      same->sides.push_back(side);
    } else {
      groups.push_back({!computesTheSame(config, loaded), config, {side}});
    }
  }
  return groups;
}

Result<void> CompareRun::start(CompareSetup setup) {
  if (m_running) return fail(ErrorCode::kInvalidArgument, "a comparison is running; stop it first");
  const ModelInfoPtr info = m_engine.info();
  const auto model = m_engine.model();
  if (!info || !model || m_engine.isLoading()) {
    return fail(ErrorCode::kNotFound, "{}",
                m_engine.isLoading() ? "the model is still loading; start again in a moment"
                                     : "no model is loaded; choose one first");
  }
  if (setup.messages.empty()) {
    return fail(ErrorCode::kInvalidArgument, "there is nothing to ask; write a prompt");
  }
  std::deque<Group> groups = groupsOf(setup);
  for (const Group& group : groups) {
    if (!group.onSecond) continue;
    const std::uint64_t needed =
        memoryForSecondEngine(*model, *info, group.config, static_cast<int>(group.sides.size()));
    // What an earlier comparison still holds will be freed or used again.
    const std::uint64_t held =
        m_second && m_second->info() ? m_second->info()->memory.weightBytes : 0;
    const std::uint64_t available = availableMemoryBytes();
    if (available > 0 && needed > available + held) {
      return fail(ErrorCode::kOutOfMemory,
                  "a second engine with {} would take about {:.0f} MB, but {:.0f} MB are free; "
                  "choose smaller weights, or set a smaller context",
                  toUtf8(configText(group.config, info.get())),
                  static_cast<double>(needed) / kMegabyte,
                  static_cast<double>(available + held) / kMegabyte);
    }
  }

  m_setup = std::move(setup);
  m_answers = {};
  for (std::size_t side = 0; side < 2; ++side) {
    m_answers[side].waiting = true;
    m_answers[side].config = m_setup.sides[side].config;
  }
  m_requests = {};
  m_turns = {};
  m_steps.clear();
  m_sharedSteps.clear();
  m_difference = {};
  const bool twoEngines = groups.size() == 2 && groups[0].onSecond != groups[1].onSecond;
  m_order = groups.size() == 1
                ? (groups[0].onSecond ? CompareOrder::kOwnBatch : CompareOrder::kOneBatch)
            : twoEngines && m_setup.atOnce ? CompareOrder::kTwoEngines
                                           : CompareOrder::kOneAfterOther;
  m_waiting = std::move(groups);
  m_running = true;
  runNext();
  emit changed();
  return {};
}

void CompareRun::runNext() {
  if (m_waiting.empty()) return endIfDone();
  if (m_order == CompareOrder::kTwoEngines) {
    // The second engine first: once it is loaded, both are asked.
    const auto second = std::find_if(m_waiting.begin(), m_waiting.end(),
                                     [](const Group& group) { return group.onSecond; });
    if (second != m_waiting.end()) {
      const Group group = *second;
      m_waiting.erase(second);
      return begin(group);
    }
  }
  const Group group = m_waiting.front();
  m_waiting.pop_front();
  begin(group);
}

void CompareRun::begin(const Group& group) {
  if (group.onSecond) {
    loadSecond(group);
  } else {
    ask(group);
  }
}

void CompareRun::loadSecond(const Group& group) {
  const ModelInfoPtr info = m_engine.info();
  if (!info) return failGroup(group, tr("The model was unloaded."));
  EngineConfig config = group.config;
  config.archive = {};  // nothing of a comparison is kept on disk
  config.contextTokens = info->contextTokens;
  KvShape shape;
  shape.type = config.cache.type;
  shape.blockSize = config.cache.blockSize;
  shape.nKvHeads = config.kvHeads > 0 ? config.kvHeads : info->config.nKvHeads;
  shape.nBlocks = 1;
  const auto blocks =
      std::uint64_t(info->contextTokens + shape.blockSize - 1) / std::uint64_t(shape.blockSize);
  config.cache.budgetBytes =
      kvBytesPerBlock(info->config, shape) * blocks * std::uint64_t(group.sides.size());
  const bool sameModel = m_second && m_second->info() && m_second->info()->path == info->path;
  if (sameModel && computesTheSame(m_second->info()->running, config)) return ask(group);
  if (!m_second) {
    m_second = std::make_unique<EngineClient>();
    watch(*m_second, true);
  }
  m_loading = std::make_unique<Group>(group);
  m_loadStage.clear();
  m_loadFraction = 0;
  if (sameModel) {
    m_second->reconfigure(config);
  } else {
    m_second->load(std::filesystem::path(info->path), config);
  }
  emit changed();
}

void CompareRun::ask(const Group& group) {
  EngineClient& engine = group.onSecond ? *m_second : m_engine;
  const ModelInfoPtr info = engine.info();
  std::vector<GenerateRequest> requests;
  for (const int side : group.sides) {
    CompareAnswer& answer = m_answers[std::size_t(side)];
    GenerateRequest request;
    request.prompt = ChatPrompt{m_setup.messages};
    request.sampling = m_setup.sides[std::size_t(side)].sampling;
    request.sampling.seed = m_setup.seed ? *m_setup.seed : std::random_device{}();
    request.maxTokens = m_setup.maxTokens;
    request.conversation = toUtf8(conversationOf(side));
    request.branch = "main";
    answer.waiting = false;
    answer.running = true;
    if (info) {
      const BackendMemory& memory = info->memory;
      answer.weightBytes = memory.weightBytes + memory.mappedBytes;
      answer.kvBytesPerToken =
          memory.kvBytesPerBlock / std::uint64_t(std::max(1, info->running.cache.blockSize));
    }
    requests.push_back(std::move(request));
  }
  const std::vector<RequestId> ids = engine.generateTogether(std::move(requests));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto side = std::size_t(group.sides[i]);
    m_requests[side] = {group.onSecond, ids[i]};
    if (!group.onSecond) m_turns[side] = ids[i];
  }
  // With an engine each, the other one begins now as well.
  if (m_order == CompareOrder::kTwoEngines && !m_waiting.empty()) runNext();
  emit changed();
}

void CompareRun::stop() {
  if (!m_running) return;
  for (const Group& group : m_waiting) {
    for (const int side : group.sides) {
      m_answers[std::size_t(side)].waiting = false;
      m_answers[std::size_t(side)].error = tr("Stopped before it began.");
    }
  }
  m_waiting.clear();
  if (m_loading) m_second->cancelLoad();
  for (const Request& request : m_requests) {
    if (request.id == 0) continue;
    (request.onSecond ? *m_second : m_engine).cancel(request.id);
  }
  endIfDone();
}

void CompareRun::leave() {
  stop();
  if (m_second) {
    m_second->disconnect(this);
    m_second.reset();  // within one step
    if (m_loading) failGroup(*std::exchange(m_loading, nullptr), tr("Stopped before it began."));
    for (std::size_t side = 0; side < 2; ++side) {
      if (m_requests[side].id == 0 || !m_requests[side].onSecond) continue;
      m_requests[side].id = 0;
      m_answers[side].running = false;
      m_answers[side].ended = true;
    }
  }
  for (int side = 0; side < 2; ++side) m_engine.forget(conversationOf(side));
  endIfDone();
  emit changed();
}

QString CompareRun::loadingText() const {
  if (!m_loading) return {};
  return tr("Loading a second engine (%1) … %2 %")
      .arg(m_loadStage.isEmpty() ? configText(m_loading->config, m_engine.info().get())
                                 : m_loadStage)
      .arg(int(m_loadFraction * 100));
}

// ---------------------------------------------------------------- events

int CompareRun::sideOf(bool second, quint64 id) const {
  for (int side = 0; side < 2; ++side) {
    const Request& request = m_requests[std::size_t(side)];
    if (request.id != 0 && request.id == id && request.onSecond == second) return side;
  }
  return -1;
}

void CompareRun::watch(EngineClient& engine, bool second) {
  connect(&engine, &EngineClient::turnStarted, this,
          [this, second](quint64 id, int prompt, int reused) {
            const int side = sideOf(second, id);
            if (side < 0) return;
            m_answers[std::size_t(side)].promptTokens = prompt;
            m_answers[std::size_t(side)].prefillDone = reused;
            emit changed();
          });
  connect(&engine, &EngineClient::prefillProgressed, this, [this, second](quint64 id, int done) {
    const int side = sideOf(second, id);
    if (side < 0) return;
    m_answers[std::size_t(side)].prefillDone = done;
    emit changed();
  });
  connect(
      &engine, &EngineClient::tokensReady, this,
      [this, second](quint64 id, const QString& text, const std::vector<GeneratedToken>& tokens) {
        const int side = sideOf(second, id);
        if (side < 0) return;
        CompareAnswer& answer = m_answers[std::size_t(side)];
        answer.text += text;
        for (const GeneratedToken& token : tokens) answer.tokenIds.push_back(token.id);
        noteAnswers();
      });
  connect(&engine, &EngineClient::turnFinished, this,
          [this, second](quint64 id, const TurnReport& report) {
            const int side = sideOf(second, id);
            if (side < 0) return;
            CompareAnswer& answer = m_answers[std::size_t(side)];
            answer.report = report;
            answer.text = toQString(report.text);
            answer.tokenIds = report.tokenIds;
            answer.running = false;
            answer.ended = true;
            m_requests[std::size_t(side)].id = 0;
            noteAnswers();
            endIfDone();
          });
  connect(&engine, &EngineClient::turnFailed, this, [this, second](quint64 id, const Error& error) {
    const int side = sideOf(second, id);
    if (side < 0) return;
    CompareAnswer& answer = m_answers[std::size_t(side)];
    answer.error = toQString(error.message);
    answer.running = false;
    answer.ended = true;
    m_requests[std::size_t(side)].id = 0;
    noteAnswers();
    endIfDone();
  });
  if (!second) return;
  connect(&engine, &EngineClient::loadProgressed, this,
          [this](quint64, const QString& stage, double fraction) {
            m_loadStage = stage;
            m_loadFraction = fraction;
            emit changed();
          });
  connect(&engine, &EngineClient::modelLoaded, this, [this] {
    if (!m_loading) return;
    const Group group = *std::exchange(m_loading, nullptr);
    ask(group);
  });
  connect(&engine, &EngineClient::loadFailed, this, [this](quint64, const Error& error) {
    if (!m_loading) return;
    failGroup(*std::exchange(m_loading, nullptr), toQString(error.message));
  });
}

void CompareRun::failGroup(const Group& group, const QString& why) {
  for (const int side : group.sides) {
    CompareAnswer& answer = m_answers[std::size_t(side)];
    answer.waiting = false;
    answer.ended = true;
    answer.error = why;
  }
  runNext();
  emit changed();
}

void CompareRun::noteAnswers() {
  if (m_answers[0].error.isEmpty() && m_answers[1].error.isEmpty()) {
    if (const auto model = m_engine.model()) {
      m_difference = firstDifference(model->tokenizer(), m_answers[0], m_answers[1]);
    }
  }
  noteSteps();
  emit changed();
}

void CompareRun::noteSteps() {
  if (m_turns[0] == 0 && m_turns[1] == 0) return;
  for (const StepRecord& step : m_engine.snapshot()->steps) {
    bool has[2] = {false, false};
    for (const StepRow& row : step.rows) {
      for (int side = 0; side < 2; ++side) {
        has[side] = has[side] ||
                    (m_turns[std::size_t(side)] != 0 && row.turn == m_turns[std::size_t(side)]);
      }
    }
    if (has[0] || has[1]) m_steps.insert(step.number);
    if (has[0] && has[1]) m_sharedSteps.insert(step.number);
  }
}

void CompareRun::endIfDone() {
  if (!m_running || m_loading) return;
  if (m_requests[0].id != 0 || m_requests[1].id != 0) return;
  if (!m_waiting.empty()) return runNext();
  m_running = false;
  noteSteps();
  emit changed();
  emit finished();
  // The engine tells of its last steps a moment after the end.
  QTimer::singleShot(kLastStepsMs, this, [this] {
    noteSteps();
    emit changed();
  });
}

}  // namespace vitrine::app

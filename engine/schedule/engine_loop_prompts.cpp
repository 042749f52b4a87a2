// Turns and questions on their way: their prompt is built on a thread of its own, then the engine's
// thread takes them.
#include "engine/schedule/engine_loop.h"

#include <memory>
#include <utility>

#include "engine/schedule/prompt_builder.h"
#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {

using Clock = Turn::Clock;

Result<EngineLoop::ForModel> EngineLoop::modelForPrompt() const {
  const std::lock_guard lock(m_mutex);
  if (!m_sharedModel) return fail(ErrorCode::kNotFound, "no model is loaded; open one first");
  return ForModel{m_sharedModel, m_sharedContext};
}

void EngineLoop::preparePrompts(std::vector<NewTurn> wanted, Clock::time_point arrival) {
  const auto found = modelForPrompt();
  SubmitTurns ready;
  for (NewTurn& turn : wanted) {
    const auto build = [&]() -> Result<std::unique_ptr<Turn>> {
      if (!found) return tl::unexpected(found.error());
      const Model& model = *found->model;
      VITRINE_TRY(turn.request.sampling.validate());
      VITRINE_ASSIGN(auto prompt, buildPrompt(model.chatTemplate(), model.tokenizer(), turn.request,
                                              found->contextTokens));
      const Turn::Language language{&model.tokenizer(), &model.endTokens()};
      return std::make_unique<Turn>(turn.id, std::move(turn.request), std::move(prompt), language,
                                    arrival, std::move(turn.stop));
    };
    if (auto built = build()) {
      ready.turns.push_back(std::move(*built));
    } else {
      post(Send{TurnFailed{turn.id, std::move(built).error()}});
    }
  }
  if (ready.turns.empty()) return;
  ready.model = found->model;
  post(std::move(ready));
}

std::vector<RequestId> EngineLoop::generateTogether(std::vector<GenerateRequest> requests) {
  const auto arrival = Clock::now();
  // std::function wants a copyable job.
  auto wanted = std::make_shared<std::vector<NewTurn>>();
  std::vector<RequestId> ids;
  for (GenerateRequest& request : requests) {
    std::stop_token stop;
    ids.push_back(newRequest(stop));
    wanted->push_back({ids.back(), std::move(request), std::move(stop)});
  }
  m_prompts->post([this, wanted, arrival] { preparePrompts(std::move(*wanted), arrival); });
  return ids;
}

RequestId EngineLoop::generate(GenerateRequest request) {
  std::vector<GenerateRequest> one;
  one.push_back(std::move(request));
  return generateTogether(std::move(one)).front();
}

/// Builds the question's prompt on the thread for prompts; the engine's thread answers.
template <typename Ask>
RequestId EngineLoop::ask(GenerateRequest request) {
  std::stop_token stop;
  const RequestId id = newRequest(stop);
  auto shared = std::make_shared<GenerateRequest>(std::move(request));
  m_prompts->post([this, id, shared, stop] {
    const auto failWith = [&](Error error) { post(Send{TurnFailed{id, std::move(error)}}); };
    if (stop.stop_requested()) {
      failWith(Error{ErrorCode::kCancelled, "stopped before it was answered"});
      return;
    }
    auto found = modelForPrompt();
    if (!found) return failWith(std::move(found).error());
    const Model& model = *found->model;
    auto prompt =
        buildAnyPrompt(model.chatTemplate(), model.tokenizer(), *shared, found->contextTokens);
    if (!prompt) return failWith(std::move(prompt).error());
    Ask question;
    question.id = id;
    question.request = std::move(*shared);
    question.prompt = std::move(*prompt);
    question.model = std::move(found->model);
    question.stop = stop;
    post(std::move(question));
  });
  return id;
}

RequestId EngineLoop::forecast(GenerateRequest request) {
  return ask<AskForecast>(std::move(request));
}

RequestId EngineLoop::verifyCache(GenerateRequest request) {
  return ask<AskProof>(std::move(request));
}

// ---------------------------------------------------------------- the engine's thread

void EngineLoop::handle(SubmitTurns& command) {
  for (std::unique_ptr<Turn>& turn : command.turns) {
    if (command.model != m_model) {
      send(TurnFinished{turn->id(), turn->report(StopReason::kCancelled)});
    } else if (takesTurns()) {
      m_scheduler->submit(std::move(turn));
    } else {
      m_held.push_back(std::move(turn));
    }
  }
}

/// Otherwise says why not.
bool EngineLoop::canAnswer(const Question& question) {
  if (question.stop.stop_requested()) {
    send(TurnFailed{question.id, Error{ErrorCode::kCancelled, "stopped before it was answered"}});
  } else if (question.model != m_model) {
    send(TurnFailed{question.id,
                    Error{ErrorCode::kNotFound, "the model was unloaded before it was answered"}});
  } else if (!m_scheduler) {
    send(TurnFailed{question.id, Error{ErrorCode::kNotFound,
                                       "the model is being moved to another backend; ask again "
                                       "when it is there"}});
  } else {
    return true;
  }
  return false;
}

void EngineLoop::handle(AskForecast& command) {
  if (!canAnswer(command)) return;
  send(ForecastReady{command.id, m_scheduler->forecast(command.prompt)});
}

void EngineLoop::handle(AskProof& command) {
  if (!canAnswer(command)) return;
  if (!fits(command.prompt, m_contextTokens)) {
    send(TurnFailed{command.id, doesNotFit(command.prompt, m_contextTokens)});
    return;
  }
  m_scheduler->verify(std::make_unique<CacheCheck>(command.id, std::move(command.prompt.tokens),
                                                   std::move(command.stop)));
}

/// Whether turns begin now, or wait for a change.
bool EngineLoop::takesTurns() const {
  return m_scheduler && !m_pending && !m_leaving;
}

/// A turn that waits for a change can be stopped like any other.
void EngineLoop::endStoppedHeld() {
  std::erase_if(m_held, [this](const std::unique_ptr<Turn>& turn) {
    if (!turn->stopRequested()) return false;
    send(TurnFinished{turn->id(), turn->report(StopReason::kCancelled)});
    return true;
  });
}

}  // namespace vitrine::engine

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

void EngineLoop::preparePrompt(RequestId id, GenerateRequest request, Clock::time_point arrival,
                               std::stop_token stop) {
  const auto failWith = [&](Error error) { post(Send{TurnFailed{id, std::move(error)}}); };
  auto found = modelForPrompt();
  if (!found) {
    failWith(std::move(found).error());
    return;
  }
  auto& [model, contextTokens] = *found;
  if (auto valid = request.sampling.validate(); !valid) {
    failWith(std::move(valid).error());
    return;
  }
  auto prompt = buildPrompt(model->chatTemplate(), model->tokenizer(), request, contextTokens);
  if (!prompt) {
    failWith(std::move(prompt).error());
    return;
  }
  const Turn::Language language{&model->tokenizer(), &model->endTokens()};
  auto turn = std::make_unique<Turn>(id, std::move(request), std::move(*prompt), language, arrival,
                                     std::move(stop));
  post(SubmitTurn{std::move(turn), std::move(model)});
}

RequestId EngineLoop::generate(GenerateRequest request) {
  const auto arrival = Clock::now();
  std::stop_token stop;
  const RequestId id = newRequest(stop);
  // std::function wants a copyable job.
  auto shared = std::make_shared<GenerateRequest>(std::move(request));
  m_prompts->post(
      [this, id, shared, arrival, stop] { preparePrompt(id, std::move(*shared), arrival, stop); });
  return id;
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

void EngineLoop::handle(SubmitTurn& command) {
  if (command.model != m_model || !m_scheduler) {
    TurnReport report = command.turn->report(StopReason::kCancelled);
    send(TurnFinished{command.turn->id(), std::move(report)});
  } else if (m_pending) {
    m_held.push_back(std::move(command.turn));
  } else {
    m_scheduler->submit(std::move(command.turn));
  }
}

/// Otherwise says why not.
bool EngineLoop::canAnswer(const Question& question) {
  if (question.stop.stop_requested()) {
    send(TurnFailed{question.id, Error{ErrorCode::kCancelled, "stopped before it was answered"}});
  } else if (question.model != m_model || !m_scheduler) {
    send(TurnFailed{question.id,
                    Error{ErrorCode::kNotFound, "the model was unloaded before it was answered"}});
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

/// A turn that waits for a change can be stopped like any other.
void EngineLoop::endStoppedHeld() {
  std::erase_if(m_held, [this](const std::unique_ptr<Turn>& turn) {
    if (!turn->stopRequested()) return false;
    send(TurnFinished{turn->id(), turn->report(StopReason::kCancelled)});
    return true;
  });
}

}  // namespace vitrine::engine

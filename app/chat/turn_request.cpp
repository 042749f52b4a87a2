#include "app/chat/turn_request.h"

#include <algorithm>

#include "app/chat/engine_client.h"
#include "app/chat/prompt_messages.h"
#include "app/settings.h"
#include "app/text.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app {

using namespace engine;

SamplingParams samplingInForce(const Conversation& conversation, const EngineClient& engine,
                               const Settings& settings) {
  SamplingParams params;
  if (const ModelInfoPtr info = engine.info()) params = overlaySampling(params, info->defaults);
  params = overlaySampling(params, settings.samplingDefaults());
  return overlaySampling(params, conversation.sampling);
}

TurnRequest makeTurnRequest(const Conversation& conversation, const std::vector<Message>& path,
                            const QString& branch, const EngineClient& engine,
                            const Settings& settings) {
  TurnRequest turn;
  GenerateRequest& request = turn.request;
  request.sampling = samplingInForce(conversation, engine, settings);
  request.conversation = toUtf8(conversation.uuid);
  request.branch = toUtf8(branch);
  request.contextPolicy = conversation.contextPolicy.value_or(settings.contextPolicy());
  for (const QJsonObject& limits : {settings.samplingDefaults(), conversation.sampling}) {
    const QJsonValue limit = limits.value(QLatin1String("max_tokens"));
    if (limit.isDouble()) request.maxTokens = std::max(0, limit.toInt());
  }
  const ModelInfoPtr info = engine.info();
  PromptMessages prompt =
      promptMessages(conversation, path, [&, model = engine.model()](const Message& message) {
        return model && info && idsMatchText(message, model->tokenizer(), info->fingerprint);
      });
  turn.origins = std::move(prompt.origins);
  request.prompt = ChatPrompt{std::move(prompt.messages)};
  return turn;
}

}  // namespace vitrine::app

#pragma once

#include <QString>
#include <vector>

#include "app/store/conversation_types.h"
#include "engine/engine_types.h"

namespace vitrine::app {

class EngineClient;
class Settings;

/// What the engine is asked for a turn, and where each message of the prompt came from.
struct TurnRequest {
  engine::GenerateRequest request;
  /// See PromptMessages::origins.
  std::vector<std::vector<int>> origins;
};

/// In force for the next turn of this conversation: the program's defaults, the model's, the
/// person's, this chat's.
engine::SamplingParams samplingInForce(const Conversation& conversation, const EngineClient& engine,
                                       const Settings& settings);

/// The request that a turn at the end of this path makes; forecasts ask about the same one. The
/// path's last message is the question, or the answer that is still to come.
TurnRequest makeTurnRequest(const Conversation& conversation, const std::vector<Message>& path,
                            const QString& branch, const EngineClient& engine,
                            const Settings& settings);

}  // namespace vitrine::app

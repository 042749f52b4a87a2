#include "app/store/conversation_types.h"

namespace vitrine::app {

QString nameOf(Role role) {
  switch (role) {
    case Role::kSystem:
      return QStringLiteral("system");
    case Role::kUser:
      return QStringLiteral("user");
    case Role::kAssistant:
      return QStringLiteral("assistant");
  }
  return {};
}

Role roleFromString(const QString& text) {
  if (text == QLatin1String("assistant")) return Role::kAssistant;
  if (text == QLatin1String("system")) return Role::kSystem;
  return Role::kUser;
}

QString nameOf(MessageState state) {
  switch (state) {
    case MessageState::kComplete:
      return QStringLiteral("complete");
    case MessageState::kStreaming:
      return QStringLiteral("streaming");
    case MessageState::kStopped:
      return QStringLiteral("stopped");
    case MessageState::kFailed:
      return QStringLiteral("failed");
  }
  return {};
}

std::optional<engine::ContextPolicy> contextPolicyFromString(const QString& text) {
  using engine::ContextPolicy;
  for (const ContextPolicy policy :
       {ContextPolicy::kStop, ContextPolicy::kDropOldest, ContextPolicy::kKeepPinned}) {
    if (text == QLatin1String(engine::nameOf(policy))) return policy;
  }
  return std::nullopt;
}

}  // namespace vitrine::app

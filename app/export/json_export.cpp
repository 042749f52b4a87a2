#include <QJsonArray>
#include <QJsonDocument>
#include <set>

#include "app/export/formats.h"
#include "app/text.h"

namespace vitrine::app::exporting {
namespace {

QJsonObject messageJson(const Message& message) {
  QJsonObject json{
      {QStringLiteral("id"), message.id},
      {QStringLiteral("parent"),
       message.parent == 0 ? QJsonValue(QJsonValue::Null) : QJsonValue(message.parent)},
      {QStringLiteral("role"), nameOf(message.role)},
      {QStringLiteral("content"), message.text},
      {QStringLiteral("created"), message.created.toUTC().toString(Qt::ISODateWithMs)}};
  if (message.pinned) json.insert(QStringLiteral("pinned"), true);
  if (message.role == Role::kAssistant) {
    json.insert(QStringLiteral("state"), nameOf(message.state));
    if (!message.error.isEmpty()) json.insert(QStringLiteral("error"), message.error);
    if (!message.model.isEmpty()) json.insert(QStringLiteral("model"), message.model);
    if (!message.metrics.isEmpty()) json.insert(QStringLiteral("metrics"), message.metrics);
    if (!message.tokenIds.empty()) {
      QJsonArray ids;
      for (const engine::TokenId id : message.tokenIds) ids.append(id);
      json.insert(QStringLiteral("token_ids"), ids);
    }
  }
  return json;
}

QJsonObject plainMessage(const char* roleName, const QString& role, const char* textName,
                         const QString& text) {
  return {{QLatin1String(roleName), role}, {QLatin1String(textName), text}};
}

}  // namespace

// OpenAI messages with our own fields beside "role" and "content". The active path stands in
// "messages"; what other branches hold stands in "other_branches", linked by id and parent.
QByteArray toJsonDocument(const ExportDocument& document) {
  const Conversation& c = document.conversation;
  QJsonArray messages;
  if (!c.systemPrompt.isEmpty()) {
    messages.append(QJsonObject{{QStringLiteral("role"), QStringLiteral("system")},
                                {QStringLiteral("content"), c.systemPrompt}});
  }
  std::set<MessageId> onPath;
  QString model;
  for (const Message& message : document.path) {
    onPath.insert(message.id);
    if (!message.model.isEmpty()) model = message.model;
    messages.append(messageJson(message));
  }
  QJsonArray others;
  for (const Message& message : document.tree) {
    if (!onPath.contains(message.id)) others.append(messageJson(message));
  }
  const char* uses[] = {"system", "merge_into_first_user", "drop"};
  QJsonObject settings{{QStringLiteral("sampling"), c.sampling},
                       {QStringLiteral("system_prompt_use"),
                        QLatin1String(uses[static_cast<int>(c.systemPromptUse)])}};
  if (c.contextPolicy) {
    settings.insert(QStringLiteral("context_policy"),
                    QLatin1String(engine::nameOf(*c.contextPolicy)));
  }
  QJsonObject json{{QStringLiteral("format"), QStringLiteral("vitrine-conversation")},
                   {QStringLiteral("version"), 1},
                   {QStringLiteral("generator"), QStringLiteral("Vitrine " VITRINE_VERSION)},
                   {QStringLiteral("id"), c.uuid},
                   {QStringLiteral("title"), c.title},
                   {QStringLiteral("created"), c.created.toUTC().toString(Qt::ISODateWithMs)},
                   {QStringLiteral("updated"), c.updated.toUTC().toString(Qt::ISODateWithMs)},
                   {QStringLiteral("model"), model},
                   {QStringLiteral("settings"), settings},
                   {QStringLiteral("messages"), messages}};
  if (!others.isEmpty()) json.insert(QStringLiteral("other_branches"), others);
  return QJsonDocument(json).toJson(QJsonDocument::Indented);
}

QByteArray toJsonl(const ExportDocument& document) {
  QJsonArray messages;
  for (const Turn& turn : turnsOf(document)) {
    if (turn.text.isEmpty()) continue;  // an answer that never came
    messages.append(plainMessage("role", nameOf(turn.role), "content", turn.text));
  }
  return QJsonDocument(QJsonObject{{QStringLiteral("messages"), messages}})
             .toJson(QJsonDocument::Compact) +
         '\n';
}

QByteArray toShareGpt(const ExportDocument& document) {
  QJsonArray turns;
  for (const Turn& turn : turnsOf(document)) {
    if (turn.text.isEmpty()) continue;  // an answer that never came
    const QString from = turn.role == Role::kUser        ? QStringLiteral("human")
                         : turn.role == Role::kAssistant ? QStringLiteral("gpt")
                                                         : QStringLiteral("system");
    turns.append(plainMessage("from", from, "value", turn.text));
  }
  const QJsonObject entry{{QStringLiteral("id"), document.conversation.uuid},
                          {QStringLiteral("title"), document.conversation.title},
                          {QStringLiteral("conversations"), turns}};
  return QJsonDocument(QJsonArray{entry}).toJson(QJsonDocument::Indented);
}

}  // namespace vitrine::app::exporting

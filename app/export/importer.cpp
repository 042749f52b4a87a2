#include <QCoreApplication>
#include <QFile>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <unordered_map>

#include "app/chat/prompt_messages.h"
#include "app/export/exporter.h"
#include "app/store/conversation_store.h"
#include "app/text.h"

namespace vitrine::app {
namespace {

using engine::ErrorCode;
using engine::Result;

// A file is read whole; larger ones are no chats.
constexpr qint64 kMaxBytes = 512LL << 20;

QString tr(const char* text) {
  return QCoreApplication::translate("Import", text);
}

// A conversation as read, before it goes to the store. Parents: see importConversation().
struct Draft {
  Conversation conversation;
  std::vector<Message> messages;
};

std::optional<Role> roleOf(const QString& word) {
  if (word == QLatin1String("user") || word == QLatin1String("human")) return Role::kUser;
  if (word == QLatin1String("assistant") || word == QLatin1String("gpt") ||
      word == QLatin1String("chatgpt") || word == QLatin1String("model") ||
      word == QLatin1String("bing") || word == QLatin1String("bard")) {
    return Role::kAssistant;
  }
  if (word == QLatin1String("system") || word == QLatin1String("developer")) return Role::kSystem;
  return std::nullopt;
}

// A string, or a list of parts of which the texts count.
std::optional<QString> contentOf(const QJsonValue& value) {
  if (value.isString()) return value.toString();
  if (!value.isArray()) return std::nullopt;
  QString text;
  const QJsonArray parts = value.toArray();
  for (const QJsonValue part : parts) {
    if (part.isString()) {
      text += part.toString();
    } else if (part.toObject().value(QLatin1String("text")).isString()) {
      text += part.toObject().value(QLatin1String("text")).toString();
    }
  }
  return text;
}

MessageState stateOf(const QString& word) {
  if (word == QLatin1String("stopped")) return MessageState::kStopped;
  if (word == QLatin1String("failed")) return MessageState::kFailed;
  return MessageState::kComplete;
}

// What our own files say beside role and text.
void readOwnFields(const QJsonObject& json, Message& message) {
  message.created =
      QDateTime::fromString(json.value(QLatin1String("created")).toString(), Qt::ISODateWithMs);
  message.model = json.value(QLatin1String("model")).toString();
  message.state = stateOf(json.value(QLatin1String("state")).toString());
  message.error = json.value(QLatin1String("error")).toString();
  message.metrics = json.value(QLatin1String("metrics")).toObject();
  message.pinned = json.value(QLatin1String("pinned")).toBool();
  const QJsonArray ids = json.value(QLatin1String("token_ids")).toArray();
  for (const QJsonValue id : ids) {
    if (!id.isDouble() || id.toInt(-1) < 0) {
      message.tokenIds.clear();  // not ids; the text is enough
      return;
    }
    message.tokenIds.push_back(id.toInt());
  }
}

// A list of messages, one below the other, or linked by id and parent where they have both.
bool readMessages(const QJsonArray& list, const char* roleName, const char* textName, bool own,
                  Draft& draft, std::unordered_map<qint64, qint64>& placeOfId) {
  for (const QJsonValue value : list) {
    const QJsonObject json = value.toObject();
    const auto role = roleOf(json.value(QLatin1String(roleName)).toString());
    const auto text = contentOf(json.value(QLatin1String(textName)));
    if (!role || !text) {
      if (!own) continue;  // tool calls and their results
      return false;
    }
    if (*role == Role::kSystem && draft.messages.empty() &&
        draft.conversation.systemPrompt.isEmpty()) {
      draft.conversation.systemPrompt = *text;
      continue;
    }
    Message message;
    message.role = *role;
    message.text = *text;
    message.parent = static_cast<qint64>(draft.messages.size());  // the one before
    if (own) {
      readOwnFields(json, message);
      const QJsonValue parent = json.value(QLatin1String("parent"));
      if (json.contains(QLatin1String("id")) && json.contains(QLatin1String("parent"))) {
        const auto found = placeOfId.find(parent.toInteger());
        message.parent = found == placeOfId.end() ? 0 : found->second;
      }
      placeOfId[json.value(QLatin1String("id")).toInteger()] =
          static_cast<qint64>(draft.messages.size()) + 1;
    }
    draft.messages.push_back(std::move(message));
  }
  return true;
}

// Puts parents before their children: "other_branches" come after the path in the file, and may
// only hang from what is there. Ids grow from parent to child in our files.
QJsonArray inOrderOfIds(const QJsonArray& path, const QJsonArray& others) {
  std::vector<QJsonValue> all;
  for (const QJsonValue value : path) all.push_back(value);
  for (const QJsonValue value : others) all.push_back(value);
  std::stable_sort(all.begin(), all.end(), [](const QJsonValue& a, const QJsonValue& b) {
    return a.toObject().value(QLatin1String("id")).toInteger() <
           b.toObject().value(QLatin1String("id")).toInteger();
  });
  QJsonArray result;
  for (const QJsonValue& value : all) result.append(value);
  return result;
}

std::optional<Draft> readOwn(const QJsonObject& json) {
  Draft draft;
  Conversation& c = draft.conversation;
  c.uuid = json.value(QLatin1String("id")).toString();
  c.title = json.value(QLatin1String("title")).toString();
  c.created =
      QDateTime::fromString(json.value(QLatin1String("created")).toString(), Qt::ISODateWithMs);
  c.updated =
      QDateTime::fromString(json.value(QLatin1String("updated")).toString(), Qt::ISODateWithMs);
  const QJsonObject settings = json.value(QLatin1String("settings")).toObject();
  c.sampling = settings.value(QLatin1String("sampling")).toObject();
  c.contextPolicy =
      contextPolicyFromString(settings.value(QLatin1String("context_policy")).toString());
  if (settings.value(QLatin1String("drop_oldest")).toBool()) {  // as earlier versions wrote it
    c.contextPolicy = engine::ContextPolicy::kDropOldest;
  }
  const QString use = settings.value(QLatin1String("system_prompt_use")).toString();
  c.systemPromptUse = use == QLatin1String("drop") ? SystemPromptUse::kDrop
                      : use == QLatin1String("merge_into_first_user")
                          ? SystemPromptUse::kMergeIntoFirstUser
                          : SystemPromptUse::kAsSystem;
  const QJsonArray path = json.value(QLatin1String("messages")).toArray();
  std::unordered_map<qint64, qint64> placeOfId;
  if (!readMessages(inOrderOfIds(path, json.value(QLatin1String("other_branches")).toArray()),
                    "role", "content", true, draft, placeOfId)) {
    return std::nullopt;
  }
  if (!path.isEmpty()) {
    const qint64 leaf = path.last().toObject().value(QLatin1String("id")).toInteger();
    const auto found = placeOfId.find(leaf);
    if (found != placeOfId.end()) c.activeLeaf = found->second;
  }
  return draft;
}

std::optional<Draft> readConversation(const QJsonObject& json) {
  if (json.value(QLatin1String("format")).toString() == QLatin1String("vitrine-conversation")) {
    return readOwn(json);
  }
  Draft draft;
  draft.conversation.title = json.value(QLatin1String("title")).toString();
  std::unordered_map<qint64, qint64> unused;
  const QJsonValue turns = json.value(QLatin1String("conversations"));
  if (turns.isArray()) {
    readMessages(turns.toArray(), "from", "value", false, draft, unused);
  } else if (json.value(QLatin1String("messages")).isArray()) {
    readMessages(json.value(QLatin1String("messages")).toArray(), "role", "content", false, draft,
                 unused);
  } else {
    return std::nullopt;
  }
  if (draft.messages.empty() && draft.conversation.systemPrompt.isEmpty()) return std::nullopt;
  return draft;
}

// One JSON value: a conversation, a list of them, or a list of messages.
void readValue(const QJsonValue& value, const QString& where, std::vector<Draft>& drafts,
               QStringList& skipped) {
  if (value.isObject()) {
    if (auto draft = readConversation(value.toObject())) {
      drafts.push_back(std::move(*draft));
    } else {
      skipped << tr("%1 holds no messages that are known here").arg(where);
    }
    return;
  }
  const QJsonArray list = value.toArray();
  if (!list.isEmpty() && list.first().toObject().contains(QLatin1String("role"))) {
    readValue(QJsonObject{{QStringLiteral("messages"), list}}, where, drafts, skipped);
    return;
  }
  int number = 0;
  for (const QJsonValue entry : list) {
    const QString inside = tr("%1, entry %2").arg(where).arg(++number);
    if (entry.isObject() || entry.toArray().first().isObject()) {
      readValue(entry, inside, drafts, skipped);
    } else {
      skipped << tr("%1 is no conversation").arg(inside);
    }
  }
}

}  // namespace

Result<ImportReport> importBytes(ConversationStore& store, const QByteArray& bytes,
                                 const QString& sourceName) {
  std::vector<Draft> drafts;
  ImportReport report;
  QJsonParseError error;
  const QByteArray text = bytes.startsWith("\xef\xbb\xbf") ? bytes.mid(3) : bytes;
  const QJsonDocument whole = QJsonDocument::fromJson(text, &error);
  const auto valueOf = [](const QJsonDocument& json) {
    return json.isArray() ? QJsonValue(json.array()) : QJsonValue(json.object());
  };
  if (error.error == QJsonParseError::NoError) {
    readValue(valueOf(whole), sourceName, drafts, report.skipped);
  } else {
    int number = 0, readable = 0;
    for (const QByteArray& line : text.split('\n')) {
      ++number;
      if (line.trimmed().isEmpty()) continue;
      QJsonParseError lineError;
      const QJsonDocument json = QJsonDocument::fromJson(line, &lineError);
      const QString where = tr("%1, line %2").arg(sourceName).arg(number);
      if (lineError.error != QJsonParseError::NoError) {
        report.skipped << tr("%1 is no JSON: %2").arg(where, lineError.errorString());
        continue;
      }
      ++readable;
      readValue(valueOf(json), where, drafts, report.skipped);
    }
    if (readable == 0) {
      return engine::fail(ErrorCode::kInvalidFile,
                          "{} is neither JSON ({} at byte {}) nor one JSON object a line",
                          toUtf8(sourceName), toUtf8(error.errorString()), error.offset);
    }
  }
  if (drafts.empty()) {
    return engine::fail(ErrorCode::kInvalidFile,
                        "{} holds no conversation in a format known here (Vitrine, OpenAI "
                        "messages, ShareGPT)",
                        toUtf8(sourceName));
  }
  for (Draft& draft : drafts) {
    if (draft.conversation.title.isEmpty()) {
      for (const Message& message : draft.messages) {
        if (message.role != Role::kUser) continue;
        draft.conversation.title = titleFromText(message.text);
        break;
      }
    }
    VITRINE_ASSIGN(const Conversation made,
                   store.importConversation(std::move(draft.conversation), draft.messages));
    report.conversations.push_back(made.id);
  }
  return report;
}

Result<ImportReport> importFile(ConversationStore& store, const QString& file) {
  QFile in(file);
  const QFileInfo info(file);
  if (!info.exists()) return engine::fail(ErrorCode::kNotFound, "{} is not there", toUtf8(file));
  if (!info.isFile()) return engine::fail(ErrorCode::kIo, "{} is no plain file", toUtf8(file));
  if (info.size() > kMaxBytes) {
    return engine::fail(ErrorCode::kUnsupported, "{} has {} bytes; at most {} are read",
                        toUtf8(file), info.size(), kMaxBytes);
  }
  if (!in.open(QIODevice::ReadOnly)) {
    return engine::fail(ErrorCode::kIo, "cannot read {}: {}", toUtf8(file),
                        toUtf8(in.errorString()));
  }
  return importBytes(store, in.readAll(), info.fileName());
}

}  // namespace vitrine::app

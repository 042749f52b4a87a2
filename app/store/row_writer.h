#pragma once

#include <QString>

#include "app/store/conversation_types.h"
#include "engine/base/result.h"

// Inserts and updates that several calls of the store share. Requires: inside a transaction.

namespace vitrine::app::rows {

qint64 now();  ///< milliseconds since 1970

/// A uuid, times and the next colour are filled in; the id is given by the database.
engine::Result<Conversation> insertConversation(const QString& connection, Conversation draft);
/// A streaming message is marked with its writer (see live_writers.h).
engine::Result<Message> insertMessage(const QString& connection, Message draft,
                                      const QString& writer);
/// `touch`: the conversation counts as changed now.
engine::Result<void> setLeaf(const QString& connection, ConversationId id, MessageId leaf,
                             bool touch);

}  // namespace vitrine::app::rows

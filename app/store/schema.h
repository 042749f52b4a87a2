#pragma once

#include <QSqlQuery>
#include <QVariantList>
#include <span>

#include "app/store/conversation_types.h"
#include "app/store/sqlite.h"

namespace vitrine::app {

/// The conversations' schema, from version 1 on. A released entry never changes; a new version is
/// a new entry at the end.
std::span<const sqlite::Migration> conversationMigrations();

// The columns of a row in the order in which the functions below read and write them.
extern const char* const kConversationColumns;
extern const char* const kMessageColumns;

Conversation readConversation(const QSqlQuery& row, int first = 0);
Message readMessage(const QSqlQuery& row, int first = 0);
/// Values for kConversationColumns / kMessageColumns; an id of 0 becomes NULL (a new one).
QVariantList conversationValues(const Conversation& conversation);
QVariantList messageValues(const Message& message);
/// "?, ?, …" for as many columns as the list names.
QString placeholders(const char* columns);

QByteArray toBlob(const std::vector<engine::TokenId>& ids);  // 32-bit little-endian each
std::vector<engine::TokenId> idsFromBlob(const QByteArray& blob);
QString compactJson(const QJsonObject& json);  // empty text for an empty object

}  // namespace vitrine::app

#pragma once

#include <QByteArray>
#include <QString>
#include <QStringList>
#include <optional>
#include <vector>

#include "app/store/conversation_types.h"
#include "engine/base/result.h"

namespace vitrine::app {

class ConversationStore;

enum class ExportFormat { kMarkdown, kJson, kJsonl, kShareGpt, kHtml, kPdf };
QString nameOf(ExportFormat format);  // "md", "json", "jsonl", "sharegpt", "html", "pdf"
std::optional<ExportFormat> exportFormatFromString(const QString& word);
QString fileSuffix(ExportFormat format);  // "md", "json", "jsonl", "json", "html", "pdf"
/// "Title of the chat.md": no character that a file system refuses.
QString suggestedFileName(const Conversation& conversation, ExportFormat format);

/// A conversation as it is exported: the active path, and the whole tree for JSON.
struct ExportDocument {
  Conversation conversation;
  std::vector<Message> path;  ///< root to active leaf, without the system prompt
  std::vector<Message> tree;  ///< all nodes
};
engine::Result<ExportDocument> loadForExport(const ConversationStore& store, ConversationId id);

/// The bytes of a document in a format. PDF needs a QGuiApplication (offscreen is enough).
/// Whatever a message holds, it is text: it cannot pass for a turn, close a fence, or be markup.
engine::Result<QByteArray> exportBytes(const ExportDocument& document, ExportFormat format);
/// Writes whole or not at all (QSaveFile).
engine::Result<void> exportToFile(const ExportDocument& document, ExportFormat format,
                                  const QString& file);

/// What an import brought in.
struct ImportReport {
  std::vector<ConversationId> conversations;
  QStringList skipped;  ///< one sentence for each entry that could not be read
};
/// Our JSON, OpenAI messages, ShareGPT (each as one object, a list, or JSONL), and a plain list of
/// {"role","content"}. Every text stays as it is.
engine::Result<ImportReport> importFile(ConversationStore& store, const QString& file);
engine::Result<ImportReport> importBytes(ConversationStore& store, const QByteArray& bytes,
                                         const QString& sourceName);

}  // namespace vitrine::app

#pragma once

#include <QMenu>

#include "app/export/exporter.h"

namespace vitrine::ui {

/// "Export ▸ Markdown, JSON, HTML, PDF, …" of one conversation: asks for a file, writes it, and
/// says where it is (or why not) in the window's toast.
class ExportMenu final : public QMenu {
  Q_OBJECT
 public:
  /// Requires: `store` outlives it.
  explicit ExportMenu(const app::ConversationStore& store, QWidget* parent = nullptr);
  void setConversation(app::ConversationId id);

  /// Without asking; for the menu after its dialog, and for tests. Shows the toast.
  bool exportTo(app::ExportFormat format, const QString& file);

 private:
  void ask(app::ExportFormat format, const QString& filter);

  const app::ConversationStore& m_store;
  app::ConversationId m_conversation = 0;
};

}  // namespace vitrine::ui

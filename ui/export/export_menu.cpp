#include "ui/export/export_menu.h"

#include <QDesktopServices>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QStandardPaths>
#include <QUrl>

#include "app/store/conversation_store.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/toast.h"

namespace vitrine::ui {

ExportMenu::ExportMenu(const app::ConversationStore& store, QWidget* parent)
    : QMenu(tr("Export"), parent), m_store(store) {
  using app::ExportFormat;
  const struct {
    ExportFormat format;
    QString name, filter;
  } formats[] = {
      {ExportFormat::kMarkdown, tr("Markdown…"), tr("Markdown (*.md)")},
      {ExportFormat::kHtml, tr("HTML page…"), tr("HTML page (*.html)")},
      {ExportFormat::kPdf, tr("PDF…"), tr("PDF (*.pdf)")},
      {ExportFormat::kJson, tr("JSON with figures…"), tr("JSON (*.json)")},
      {ExportFormat::kJsonl, tr("JSON Lines…"), tr("JSON Lines (*.jsonl)")},
      {ExportFormat::kShareGpt, tr("ShareGPT…"), tr("JSON (*.json)")},
  };
  for (const auto& entry : formats) {
    const ExportFormat format = entry.format;
    const QString filter = entry.filter;
    connect(addAction(entry.name), &QAction::triggered, this,
            [this, format, filter] { ask(format, filter); });
  }
}

void ExportMenu::setConversation(app::ConversationId id) {
  m_conversation = id;
  setEnabled(id != 0);
}

void ExportMenu::ask(app::ExportFormat format, const QString& filter) {
  const auto conversation = m_store.conversation(m_conversation);
  if (!conversation) {
    Toast::of(parentWidget())->showMessage(app::toQString(conversation.error().message));
    return;
  }
  const QString folder = QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation);
  const QString suggestion = QDir(folder).filePath(app::suggestedFileName(*conversation, format));
  const QString file =
      QFileDialog::getSaveFileName(parentWidget(), tr("Export the chat"), suggestion, filter);
  if (!file.isEmpty()) exportTo(format, file);
}

bool ExportMenu::exportTo(app::ExportFormat format, const QString& file) {
  Toast* toast = Toast::of(parentWidget());
  const auto document = app::loadForExport(m_store, m_conversation);
  const auto written = document ? app::exportToFile(*document, format, file)
                                : engine::Result<void>(tl::unexpected(document.error()));
  if (!written) {
    toast->showMessage(app::toQString(written.error().message), 8000);
    return false;
  }
  const QString folder = QFileInfo(file).absolutePath();
  toast->showMessage(tr("Exported to %1").arg(oneLine(QFileInfo(file).fileName(), 60)),
                     tr("Open folder"),
                     [folder] { QDesktopServices::openUrl(QUrl::fromLocalFile(folder)); });
  return true;
}

}  // namespace vitrine::ui

#pragma once

#include <QComboBox>
#include <QString>
#include <vector>

#include "app/studio/studio_session.h"
#include "engine/base/result.h"

namespace vitrine::app {
class ConversationStore;
}

namespace vitrine::ui {

/// A text that the studio can read: one that comes with the program, a file, a conversation.
struct TextSource {
  enum class Kind { kBundled, kFile, kConversation };
  Kind kind = Kind::kBundled;
  QString id;     ///< of the bundled text; the file; the conversation's number
  QString title;  ///< for people
};

std::vector<TextSource> bundledSources();
/// Conversations that hold something, newest first.
std::vector<TextSource> conversationSources(const app::ConversationStore& chats);
TextSource fileSource(const QString& file);

/// Reads it. Says what is wrong where it cannot be read or is no text (a file of at most 64 MB).
engine::Result<app::studio::StudioText> readSource(const TextSource& source,
                                                   const app::ConversationStore& chats);

/// One text to measure on: the bundled ones, the conversations, any file.
class TextPicker final : public QComboBox {
  Q_OBJECT
 public:
  explicit TextPicker(const app::ConversationStore& chats, QWidget* parent = nullptr);

  engine::Result<app::studio::StudioText> read() const;
  const TextSource& source() const;
  bool choose(TextSource::Kind kind, const QString& id);
  void addFile(const QString& file);  ///< and chooses it
  void refresh();                     ///< conversations may be others now

 private:
  void fill();

  const app::ConversationStore& m_chats;
  std::vector<TextSource> m_sources, m_files;
  int m_before = 0;
};

}  // namespace vitrine::ui

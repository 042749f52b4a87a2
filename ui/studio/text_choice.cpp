#include "ui/studio/text_choice.h"

#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <algorithm>

#include "app/chat/prompt_messages.h"
#include "app/store/conversation_store.h"
#include "app/studio/bundled_texts.h"
#include "app/text.h"
#include "ui/common/format.h"

namespace vitrine::ui {
namespace {

constexpr qint64 kMostBytes = 64 << 20;
constexpr int kMostConversations = 30;

/// The path that the conversation shows: from its active leaf up to the root.
std::vector<app::Message> shownPath(const app::ConversationStore& chats,
                                    const app::Conversation& conversation) {
  const std::vector<app::Message> all = chats.messages(conversation.id);
  std::vector<app::Message> path;
  for (app::MessageId at = conversation.activeLeaf; at != 0;) {
    const auto found =
        std::find_if(all.begin(), all.end(), [at](const app::Message& m) { return m.id == at; });
    if (found == all.end()) break;
    path.push_back(*found);
    at = found->parent;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

engine::Result<app::studio::StudioText> readFile(const TextSource& source) {
  QFile file(source.id);
  const std::string name = app::toUtf8(source.title);
  if (!file.open(QIODevice::ReadOnly)) {
    return engine::fail(engine::ErrorCode::kIo, "cannot read {}: {}", name,
                        app::toUtf8(file.errorString()));
  }
  if (file.size() > kMostBytes) {
    return engine::fail(engine::ErrorCode::kInvalidFile,
                        "cannot read {}: it has {} MB, and a text may have 64", name,
                        file.size() >> 20);
  }
  const QByteArray bytes = file.readAll();
  if (bytes.trimmed().isEmpty()) {
    return engine::fail(engine::ErrorCode::kInvalidFile, "cannot calibrate on {}: it is empty",
                        name);
  }
  if (bytes.contains('\0')) {
    return engine::fail(engine::ErrorCode::kInvalidFile,
                        "cannot read {} as text: it holds zero bytes; choose a text file in UTF-8",
                        name);
  }
  return app::studio::StudioText{source.title, bytes.toStdString(), {}};
}

}  // namespace

std::vector<TextSource> bundledSources() {
  std::vector<TextSource> sources;
  for (const auto& text : app::studio::bundledTexts()) {
    sources.push_back({TextSource::Kind::kBundled, text.id, text.title});
  }
  return sources;
}

std::vector<TextSource> conversationSources(const app::ConversationStore& chats) {
  std::vector<TextSource> sources;
  for (const app::Conversation& conversation : chats.conversations()) {
    if (conversation.activeLeaf == 0) continue;
    if (int(sources.size()) == kMostConversations) break;
    const QString title =
        conversation.title.isEmpty() ? TextPicker::tr("New chat") : conversation.title;
    sources.push_back({TextSource::Kind::kConversation, QString::number(conversation.id), title});
  }
  return sources;
}

TextSource fileSource(const QString& file) {
  return {TextSource::Kind::kFile, file, QFileInfo(file).fileName()};
}

engine::Result<app::studio::StudioText> readSource(const TextSource& source,
                                                   const app::ConversationStore& chats) {
  switch (source.kind) {
    case TextSource::Kind::kBundled:
      return app::studio::StudioText{
          QStringLiteral("bundled: ") + source.id, app::studio::bundledText(source.id), {}};
    case TextSource::Kind::kFile:
      return readFile(source);
    case TextSource::Kind::kConversation:
      break;
  }
  VITRINE_ASSIGN(const auto conversation, chats.conversation(source.id.toLongLong()));
  app::studio::StudioText text{source.title, {}, {}};
  // Read as text: which model gave the answers is of no matter here.
  text.messages =
      app::promptMessages(conversation, shownPath(chats, conversation), [](const app::Message&) {
        return false;
      }).messages;
  if (text.messages.empty()) {
    return engine::fail(engine::ErrorCode::kInvalidArgument,
                        "the chat “{}” holds nothing that can be read",
                        app::toUtf8(oneLine(source.title, 60)));
  }
  return text;
}

TextPicker::TextPicker(const app::ConversationStore& chats, QWidget* parent)
    : QComboBox(parent), m_chats(chats) {
  setAccessibleName(tr("Text to measure on"));
  setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  setMinimumContentsLength(18);
  fill();
  connect(this, &QComboBox::activated, this, [this](int index) {
    if (index < int(m_sources.size())) {
      m_before = index;
      return;
    }
    setCurrentIndex(m_before);
    const QString file = QFileDialog::getOpenFileName(this, tr("Text to measure on"), {},
                                                      tr("Texts (*.txt *.md);;All files (*)"));
    if (!file.isEmpty()) addFile(file);
  });
}

void TextPicker::fill() {
  clear();
  m_sources = bundledSources();
  m_sources.insert(m_sources.end(), m_files.begin(), m_files.end());
  const auto chats = conversationSources(m_chats);
  m_sources.insert(m_sources.end(), chats.begin(), chats.end());
  for (const TextSource& source : m_sources) {
    const QString title = oneLine(source.title, 40);
    addItem(source.kind == TextSource::Kind::kConversation ? tr("Chat: %1").arg(title) : title);
  }
  addItem(tr("A file…"));
  setCurrentIndex(0);
  m_before = 0;
}

void TextPicker::refresh() {
  const TextSource before = source();
  fill();
  choose(before.kind, before.id);
}

void TextPicker::addFile(const QString& file) {
  m_files.push_back(fileSource(file));
  fill();
  choose(TextSource::Kind::kFile, file);
}

bool TextPicker::choose(TextSource::Kind kind, const QString& id) {
  for (int i = 0; i < int(m_sources.size()); ++i) {
    const TextSource& source = m_sources[std::size_t(i)];
    if (source.kind == kind && source.id == id) {
      setCurrentIndex(i);
      m_before = i;
      return true;
    }
  }
  return false;
}

const TextSource& TextPicker::source() const {
  static const TextSource kNone;
  const int index = currentIndex();
  return index >= 0 && index < int(m_sources.size()) ? m_sources[std::size_t(index)] : kNone;
}

engine::Result<app::studio::StudioText> TextPicker::read() const {
  return readSource(source(), m_chats);
}

}  // namespace vitrine::ui

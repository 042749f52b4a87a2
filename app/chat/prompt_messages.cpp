#include "app/chat/prompt_messages.h"

#include <QRegularExpression>
#include <QTextBoundaryFinder>

#include "app/text.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app {
namespace {

constexpr int kMaxTitleLength = 48;

bool hasContent(const Message& message) {
  return message.role == Role::kUser || !message.text.trimmed().isEmpty();
}

}  // namespace

PromptMessages promptMessages(const Conversation& conversation, const std::vector<Message>& path,
                              const std::function<bool(const Message&)>& idsUsable) {
  PromptMessages prompt;
  auto& messages = prompt.messages;
  const std::string system = toUtf8(conversation.systemPrompt);
  bool systemDue = !system.empty() && conversation.systemPromptUse != SystemPromptUse::kDrop;
  if (systemDue && conversation.systemPromptUse == SystemPromptUse::kAsSystem) {
    messages.push_back({"system", system, {}});
    prompt.origins.emplace_back();
    systemDue = false;
  }

  std::size_t end = path.size();
  if (end > 0 && path.back().role == Role::kAssistant) --end;
  for (std::size_t i = 0; i < end; ++i) {
    const Message& message = path[i];
    if (!hasContent(message)) continue;
    const int index = static_cast<int>(i);
    std::string text = toUtf8(message.text);
    if (message.role == Role::kUser) {
      if (!messages.empty() && messages.back().role == "user") {
        messages.back().content += "\n\n" + text;
        messages.back().pinned = messages.back().pinned || message.pinned;
        prompt.origins.back().push_back(index);
        continue;
      }
      if (systemDue) {
        text = system + "\n\n" + text;
        systemDue = false;
      }
    }
    const bool withIds = !message.tokenIds.empty() && idsUsable(message);
    messages.push_back({toUtf8(nameOf(message.role)), std::move(text),
                        withIds ? message.tokenIds : std::vector<engine::TokenId>{}});
    messages.back().pinned = message.pinned;
    prompt.origins.push_back({index});
  }
  return prompt;
}

bool idsMatchText(const Message& message, const engine::Tokenizer& tokenizer,
                  std::string_view modelFingerprint) {
  constexpr std::size_t kLongestCharacter = 4;  // bytes of UTF-8
  if (toUtf8(message.metrics.value(QLatin1String("model_fingerprint")).toString()) !=
      modelFingerprint) {
    return false;
  }
  for (const engine::TokenId id : message.tokenIds) {
    if (id < 0 || id >= tokenizer.vocabSize() || tokenizer.isControl(id)) return false;
  }
  const std::string bytes = tokenizer.decode(message.tokenIds);
  const std::string text = toUtf8(message.text);
  return bytes.starts_with(text) && bytes.size() - text.size() < kLongestCharacter;
}

QString titleFromText(const QString& text) {
  static const QRegularExpression marks(QStringLiteral("^[\\s#>*`~_=\\-|]+"));
  QString title;
  for (const QString& line : text.split(QLatin1Char('\n'))) {
    title = line.simplified().remove(marks).simplified();
    if (!title.isEmpty()) break;
  }
  if (title.isEmpty()) title = text.simplified();
  if (title.size() <= kMaxTitleLength) return title;

  // At the last word that fits; a text without spaces is cut between characters.
  QTextBoundaryFinder words(QTextBoundaryFinder::Word, title);
  words.setPosition(kMaxTitleLength);
  qsizetype cut = words.isAtBoundary() ? kMaxTitleLength : words.toPreviousBoundary();
  if (cut < kMaxTitleLength / 2) {
    QTextBoundaryFinder characters(QTextBoundaryFinder::Grapheme, title);
    characters.setPosition(kMaxTitleLength);
    cut = characters.isAtBoundary() ? kMaxTitleLength : characters.toPreviousBoundary();
  }
  return title.left(cut).trimmed() + QChar(0x2026);
}

}  // namespace vitrine::app

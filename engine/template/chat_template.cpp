#include "engine/template/chat_template.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "engine/template/interpreter.h"
#include "engine/template/parser.h"

namespace vitrine::engine {
namespace {

using jinja::Text;
using jinja::Value;

// Spelled by Qwen and SmolLM2 among others, and understood by most models well enough.
constexpr std::string_view kChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>' ~ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

// Steps of one rendering. A template of a real model needs some hundred a message; the rest grows
// with the text that it has to move.
constexpr std::size_t kBaseSteps = 20'000'000;
constexpr std::size_t kStepsPerMessage = 10'000;
constexpr std::size_t kStepsPerByte = 32;

// Some templates build a control token around the role ('<|' + role + '|>'), so these roles count
// as the template's own text. Any other role is what a person wrote.
Value roleValue(const std::string& role, int message) {
  constexpr std::array<std::string_view, 9> kRoles = {"system", "user",      "assistant",
                                                      "tool",   "developer", "function",
                                                      "model",  "ipython",   "context"};
  if (std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end()) return Text(role);
  return Text::derived(role, message);
}

Value messageList(std::span<const ChatMessage> messages) {
  std::vector<Value> list;
  list.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto index = static_cast<int>(i);
    list.push_back(Value::dict({{Value("role"), roleValue(messages[i].role, index)},
                                {Value("content"), Text::ofMessage(messages[i].content, index)}}));
  }
  return Value::sequence(std::move(list));
}

// A turn's end as one marker: what stands between brackets, or up to the next white space.
std::string firstMarker(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  text.remove_prefix(begin);
  std::size_t end = text.find_first_of(" \t\r\n");
  if (text[0] == '<') {
    const std::size_t close = text.find('>');
    if (close != std::string_view::npos) end = close + 1;
  } else if (text[0] == '[') {
    const std::size_t close = text.find(']');
    if (close != std::string_view::npos) end = close + 1;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

struct ChatTemplate::Impl {
  std::string source, bosText, eosText, substituteReason;
  jinja::Body body;
};

ChatTemplate::ChatTemplate() : m_impl(std::make_unique<Impl>()) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::compile(std::string source, std::string bosText,
                                                            std::string eosText) {
  if (source.find_first_not_of(" \t\r\n") == std::string::npos) {
    return fail(ErrorCode::kTemplate, "the chat template is empty");
  }
  std::unique_ptr<ChatTemplate> result(new ChatTemplate);
  try {
    result->m_impl->body = jinja::Parser(source).parse();
  } catch (const jinja::TemplateError& error) {
    return fail(ErrorCode::kTemplate, "the chat template cannot be read: line {}, column {}: {}",
                error.at.line, error.at.column, error.what());
  } catch (const std::exception& error) {
    return fail(ErrorCode::kTemplate, "the chat template cannot be read: {}", error.what());
  }
  result->m_impl->source = std::move(source);
  result->m_impl->bosText = std::move(bosText);
  result->m_impl->eosText = std::move(eosText);
  return result;
}

std::unique_ptr<ChatTemplate> ChatTemplate::substitute(std::string reason) {
  auto result = compile(std::string(kChatMl), "", "");
  (*result)->m_impl->substituteReason = std::move(reason);
  return std::move(*result);
}

Result<PromptPieces> ChatTemplate::render(std::span<const ChatMessage> messages,
                                          bool addGenerationPrompt) const {
  std::vector<std::size_t> contentSizes;
  std::size_t bytes = 0;
  for (const ChatMessage& message : messages) {
    contentSizes.push_back(message.content.size());
    bytes += message.content.size() + message.role.size();
  }
  const std::size_t budget =
      kBaseSteps + messages.size() * kStepsPerMessage + bytes * kStepsPerByte;
  try {
    jinja::Interpreter interpreter(budget);
    interpreter.setGlobal("messages", messageList(messages));
    interpreter.setGlobal("add_generation_prompt", addGenerationPrompt);
    interpreter.setGlobal("bos_token", Value(std::string_view(m_impl->bosText)));
    interpreter.setGlobal("eos_token", Value(std::string_view(m_impl->eosText)));
    interpreter.setGlobal("tools", Value());
    interpreter.setGlobal("documents", Value());
    return interpreter.render(m_impl->body).pieces(contentSizes);
  } catch (const jinja::TemplateRefusal& refusal) {
    return tl::unexpected(Error{ErrorCode::kTemplate, refusal.what()});
  } catch (const jinja::TemplateError& error) {
    return fail(ErrorCode::kTemplate, "the chat template failed at line {}, column {}: {}",
                error.at.line, error.at.column, error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "the chat template needs more memory than there is");
  } catch (const std::exception& error) {
    return fail(ErrorCode::kTemplate, "the chat template failed: {}", error.what());
  }
}

std::vector<std::string> ChatTemplate::turnEndTexts() const {
  const ChatMessage question{"user", "Question", {}};
  const ChatMessage answer{"assistant", "Answer", {}};
  const ChatMessage system{"system", "Rules", {}};
  // The end of a conversation first; some templates close an answer only when a turn follows.
  const std::vector<std::vector<ChatMessage>> trials = {{question, answer},
                                                        {question, answer, question},
                                                        {system, question, answer},
                                                        {system, question, answer, question}};
  std::vector<std::string> found;
  for (const auto& trial : trials) {
    const auto pieces = render(trial, false);
    if (!pieces) continue;
    for (std::size_t i = 0; i + 1 < pieces->size(); ++i) {
      const int message = (*pieces)[i].message;
      if (message < 0 || trial[message].role != "assistant") continue;
      std::string marker = firstMarker((*pieces)[i + 1].text);
      if ((*pieces)[i + 1].message < 0 && !marker.empty()) found.push_back(std::move(marker));
    }
    if (!found.empty()) break;
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

const std::string& ChatTemplate::source() const {
  return m_impl->source;
}
const std::string& ChatTemplate::substituteReason() const {
  return m_impl->substituteReason;
}

bool ChatTemplate::acceptsSystemMessage() const {
  const std::vector<ChatMessage> trial = {{"system", "Rules", {}}, {"user", "Question", {}}};
  const auto pieces = render(trial);
  return pieces && std::any_of(pieces->begin(), pieces->end(),
                               [](const PromptPiece& piece) { return piece.message == 0; });
}

bool ChatTemplate::acceptsAnyOrder() const {
  const ChatMessage question{"user", "Question", {}};
  const ChatMessage answer{"assistant", "Answer", {}};
  for (const auto& trial : {std::vector{question, question}, std::vector{answer, question},
                            std::vector{question, answer, answer, question}}) {
    const auto pieces = render(trial);
    if (!pieces) return false;
    for (int message = 0; message < static_cast<int>(trial.size()); ++message) {
      if (std::none_of(pieces->begin(), pieces->end(),
                       [&](const PromptPiece& piece) { return piece.message == message; })) {
        return false;  // left out without a word
      }
    }
  }
  return true;
}

std::string joinPieces(const PromptPieces& pieces) {
  std::string text;
  for (const PromptPiece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace vitrine::engine

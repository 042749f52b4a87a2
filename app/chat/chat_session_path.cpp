// The tree of messages, the path through it that is shown, and how much of the context it takes.
#include <algorithm>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/prompt_messages.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/text.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app {

engine::Result<void> ChatSession::selectBranch(MessageId id, int step) {
  const Message* message = node(id);
  if (message == nullptr) {
    return engine::fail(engine::ErrorCode::kNotFound, "there is no such message in this chat");
  }
  const std::vector<MessageId> all = childrenByParent()[message->parent];
  const auto here = std::find(all.begin(), all.end(), id) - all.begin();
  const auto there =
      std::clamp<std::ptrdiff_t>(here + step, 0, static_cast<std::ptrdiff_t>(all.size()) - 1);
  if (there == here) return {};
  MessageId leaf = all[static_cast<std::size_t>(there)];
  const Children children = childrenByParent();
  for (auto at = children.find(leaf); at != children.end(); at = children.find(leaf)) {
    leaf = at->second.back();  // the newest
  }
  return showLeaf(leaf);
}

engine::Result<void> ChatSession::showBranch(const QString& name) {
  if (name == branchName()) return {};
  bool isNumber = false;
  MessageId leaf = name.toLongLong(&isNumber);
  if (isNumber && node(leaf) == nullptr) {
    return engine::fail(engine::ErrorCode::kNotFound, "that branch is no longer in this chat");
  }
  const Children children = childrenByParent();  // of "main": from the root, which is 0
  for (auto at = children.find(leaf); at != children.end(); at = children.find(leaf)) {
    leaf = at->second.front();
  }
  return leaf == 0 ? engine::Result<void>{} : showLeaf(leaf);
}

engine::Result<void> ChatSession::showLeaf(MessageId leaf) {
  VITRINE_TRY(m_store.setActiveLeaf(m_conversation.id, leaf));
  m_conversation.activeLeaf = leaf;
  m_failure.reset();
  rebuildPath();
  emit pathReset();
  emitUsage();
  return {};
}

void ChatSession::reload() {
  auto fresh = m_store.conversation(m_conversation.id);
  if (!fresh) {
    const ConversationId id = m_conversation.id;
    m_conversation = {};
    m_conversation.id = id;
  } else {
    m_conversation = *fresh;
  }
  m_tree.clear();
  if (fresh) {
    for (Message& message : m_store.messages(m_conversation.id)) {
      m_tree.emplace(message.id, std::move(message));
    }
  }
  if (isRunning()) m_tree[m_answer.id] = m_answer;
  rebuildPath();
  emit pathReset();
  emitUsage();
}

void ChatSession::rebuildPath() {
  MessageId leaf = m_conversation.activeLeaf;
  if (!m_tree.contains(leaf)) leaf = m_tree.empty() ? 0 : m_tree.rbegin()->first;
  // Figures that were read before are kept: reading them again takes longer than all the rest.
  std::unordered_map<MessageId, TurnMetrics> known;
  for (MessageRow& row : m_rows) {
    if (row.message.id != m_answer.id) known.emplace(row.message.id, std::move(row.metrics));
  }
  m_rows.clear();
  const Children children = childrenByParent();
  // Parents have lower numbers (the store sees to it), so this ends.
  for (const Message* message = node(leaf); message != nullptr; message = node(message->parent)) {
    MessageRow row;
    row.message = m_request != 0 && message->id == m_answer.id ? m_answer : *message;
    const auto figures = known.find(message->id);
    row.metrics = figures != known.end() ? std::move(figures->second)
                                         : turnMetricsFromJson(row.message.metrics);
    const std::vector<MessageId>& all = children.at(message->parent);
    row.branchCount = static_cast<int>(all.size());
    row.branchIndex =
        static_cast<int>(std::find(all.begin(), all.end(), message->id) - all.begin());
    m_rows.push_back(std::move(row));
  }
  std::reverse(m_rows.begin(), m_rows.end());
  m_streamingRow = m_request != 0 ? rowOf(m_answer.id) : -1;

  if (m_rows.empty() || m_rows.back().metrics.report.droppedMessages == 0) return;
  const PromptMessages prompt =
      promptMessages(m_conversation, path(), [](const Message&) { return false; });
  std::vector<int> dropped = m_rows.back().metrics.report.dropped;
  // Figures of earlier versions hold the number alone: the oldest after the system prompt.
  int number = m_rows.back().metrics.report.droppedMessages;
  for (std::size_t i = 0; dropped.empty() && i < prompt.origins.size(); ++i) {
    if (prompt.origins[i].empty()) continue;
    for (; number > 0; --number) dropped.push_back(static_cast<int>(i++));
  }
  markDropped(prompt.origins, dropped, false);
}

// The engine left these messages of the prompt out: their rows turn grey.
void ChatSession::markDropped(const std::vector<std::vector<int>>& origins,
                              const std::vector<int>& dropped, bool notify) {
  std::vector<bool> inContext(m_rows.size(), true);
  for (const int message : dropped) {
    if (message < 0 || message >= static_cast<int>(origins.size())) continue;
    for (const int row : origins[static_cast<std::size_t>(message)]) {
      if (row < static_cast<int>(inContext.size()))
        inContext[static_cast<std::size_t>(row)] = false;
    }
  }
  for (std::size_t i = 0; i < m_rows.size(); ++i) {
    if (m_rows[i].inContext == inContext[i]) continue;
    m_rows[i].inContext = inContext[i];
    if (notify) emit messageChanged(static_cast<int>(i));
  }
}

std::vector<Message> ChatSession::path() const {
  std::vector<Message> messages;
  messages.reserve(m_rows.size());
  for (const MessageRow& row : m_rows) messages.push_back(row.message);
  return messages;
}

// The same for all turns of a branch, also those before it was one of several: the last message on
// the path that came as a further version beside another.
QString ChatSession::branchName() const {
  for (auto row = m_rows.rbegin(); row != m_rows.rend(); ++row) {
    if (row->branchIndex > 0) return QString::number(row->message.id);
  }
  return QStringLiteral("main");
}

TurnRequest ChatSession::nextTurn(const QString& text) const {
  std::vector<Message> messages = path();
  Message question;
  question.role = Role::kUser;
  question.text = text;
  messages.push_back(std::move(question));
  return makeTurnRequest(m_conversation, messages, branchName(), m_engine, m_settings);
}

TurnRequest ChatSession::repeatedTurn() const {
  return makeTurnRequest(m_conversation, path(), branchName(), m_engine, m_settings);
}

int ChatSession::rowOf(MessageId id) const {
  for (std::size_t i = 0; i < m_rows.size(); ++i) {
    if (m_rows[i].message.id == id) return static_cast<int>(i);
  }
  return -1;
}

const Message* ChatSession::node(MessageId id) const {
  const auto found = m_tree.find(id);
  return found == m_tree.end() ? nullptr : &found->second;
}

std::vector<TurnMetrics> ChatSession::turnsOffPath() const {
  constexpr std::size_t kMost = 64;
  std::vector<TurnMetrics> turns;
  for (auto entry = m_tree.rbegin(); entry != m_tree.rend() && turns.size() < kMost; ++entry) {
    const Message& message = entry->second;
    if (message.role != Role::kAssistant || rowOf(message.id) >= 0) continue;
    // Figures of an answer that ran last may still change; reading them takes a while.
    auto known = m_offPath.find(message.id);
    if (known == m_offPath.end() || message.id == m_answer.id) {
      known = m_offPath.insert_or_assign(message.id, turnMetricsFromJson(message.metrics)).first;
    }
    if (known->second.known()) turns.push_back(known->second);
  }
  std::reverse(turns.begin(), turns.end());
  return turns;
}

// Children in the order in which they were made.
ChatSession::Children ChatSession::childrenByParent() const {
  Children children;
  for (const auto& [id, message] : m_tree) children[message.parent].push_back(id);
  return children;
}

// ---------------------------------------------------------------- the context

int ChatSession::contextUsed() const {
  if (isRunning() && m_promptTokens > 0) return m_promptTokens + m_generatedTokens;
  for (auto row = m_rows.rbegin(); row != m_rows.rend(); ++row) {
    if (row->metrics.known()) return row->metrics.contextUsed();
  }
  return 0;
}

int ChatSession::contextLimit() const {
  const ModelInfoPtr info = m_engine.info();
  return info ? info->contextTokens : 0;
}

int ChatSession::countTokens(const QString& text) const {
  const auto model = m_engine.model();
  return model ? static_cast<int>(model->tokenizer().encode(toUtf8(text)).size()) : 0;
}

engine::ContextPolicy ChatSession::contextPolicy() const {
  return m_conversation.contextPolicy.value_or(m_settings.contextPolicy());
}

engine::Result<void> ChatSession::setContextPolicy(std::optional<engine::ContextPolicy> policy) {
  return m_store.setContextPolicy(m_conversation.id, policy);
}

bool ChatSession::hasPins() const {
  return std::any_of(m_rows.begin(), m_rows.end(),
                     [](const MessageRow& row) { return row.message.pinned; });
}

engine::Result<void> ChatSession::setPinned(MessageId id, bool pinned) {
  const auto found = m_tree.find(id);
  if (found == m_tree.end()) {
    return engine::fail(engine::ErrorCode::kNotFound, "there is no such message in this chat");
  }
  VITRINE_TRY(m_store.setMessagePinned(id, pinned));
  found->second.pinned = pinned;
  if (m_answer.id == id) m_answer.pinned = pinned;
  if (const int row = rowOf(id); row >= 0) {
    m_rows[static_cast<std::size_t>(row)].message.pinned = pinned;
    emit messageChanged(row);
  }
  return {};
}

void ChatSession::emitUsage() {
  emit contextUsage(contextUsed(), contextLimit());
}

}  // namespace vitrine::app

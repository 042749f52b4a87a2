#include "app/chat/session_pool.h"

#include "app/chat/chat_session.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"

namespace vitrine::app {
namespace {

constexpr std::size_t kMaxIdleSessions = 8;

}  // namespace

SessionPool::SessionPool(ConversationStore& store, EngineClient& engine, Settings& settings,
                         QObject* parent)
    : QObject(parent), m_store(store), m_engine(engine), m_settings(settings) {
  connect(&store, &ConversationStore::changedElsewhere, this, [this] {
    for (auto& [id, entry] : m_sessions) entry.session->reload();
  });
}

SessionPool::~SessionPool() = default;

ChatSession* SessionPool::open(ConversationId id) {
  auto found = m_sessions.find(id);
  if (found == m_sessions.end()) {
    if (!m_store.conversation(id)) return nullptr;
    Entry entry;
    entry.session = std::make_unique<ChatSession>(m_store, m_engine, m_settings, id);
    found = m_sessions.emplace(id, std::move(entry)).first;
    emit sessionOpened(found->second.session.get());
  }
  found->second.lastUse = ++m_uses;
  m_current = found->second.session.get();
  trim();
  return m_current;
}

ChatSession* SessionPool::createConversation() {
  Conversation draft;
  draft.systemPrompt = m_settings.systemPromptDefault();
  const auto made = m_store.create(std::move(draft));
  return made ? open(made->id) : nullptr;
}

void SessionPool::close(ConversationId id) {
  const auto found = m_sessions.find(id);
  if (found == m_sessions.end()) return;
  emit sessionAboutToClose(found->second.session.get());
  if (m_current == found->second.session.get()) m_current = nullptr;
  m_sessions.erase(found);
}

int SessionPool::runningCount() const {
  int running = 0;
  for (const auto& [id, entry] : m_sessions) running += entry.session->isRunning() ? 1 : 0;
  return running;
}

void SessionPool::trim() {
  while (m_sessions.size() > kMaxIdleSessions) {
    ConversationId oldest = 0;
    qint64 lastUse = 0;
    for (const auto& [id, entry] : m_sessions) {
      if (entry.session.get() == m_current || entry.session->isRunning()) continue;
      if (oldest == 0 || entry.lastUse < lastUse) {
        oldest = id;
        lastUse = entry.lastUse;
      }
    }
    if (oldest == 0) return;
    close(oldest);
  }
}

}  // namespace vitrine::app

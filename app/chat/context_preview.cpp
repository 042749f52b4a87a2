#include "app/chat/context_preview.h"

#include <algorithm>
#include <utility>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/turn_request.h"
#include "app/text.h"
#include "engine/schedule/context_plan.h"

namespace vitrine::app {

using namespace engine;

namespace {

constexpr ContextPolicy kPolicies[] = {ContextPolicy::kStop, ContextPolicy::kDropOldest,
                                       ContextPolicy::kKeepPinned};

std::vector<ChatMessage> without(const std::vector<ChatMessage>& messages,
                                 const std::vector<int>& dropped) {
  std::vector<ChatMessage> kept;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!std::binary_search(dropped.begin(), dropped.end(), static_cast<int>(i))) {
      kept.push_back(messages[i]);
    }
  }
  return kept;
}

std::vector<int> rowsOf(const std::vector<int>& messages,
                        const std::vector<std::vector<int>>& origins, int rowCount) {
  std::vector<int> rows;
  for (const int message : messages) {
    for (const int row : origins[static_cast<std::size_t>(message)]) {
      if (row < rowCount) rows.push_back(row);
    }
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace

const ContextOption* ContextOutlook::option(ContextPolicy policy) const {
  for (const ContextOption& option : options) {
    if (option.policy == policy) return &option;
  }
  return nullptr;
}

ContextPreview::ContextPreview(EngineClient& engine, QObject* parent)
    : QObject(parent), m_engine(engine) {
  m_pool.setMaxThreadCount(1);
  m_pool.setExpiryTimeout(2000);
  connect(&engine, &EngineClient::forecastReady, this,
          [this](quint64 id, const Forecast& forecast) {
            const auto asked = m_forecasts.find(id);
            if (asked == m_forecasts.end()) return;
            m_outlook.options[asked->second].forecast = forecast;
            m_forecasts.erase(asked);
            emit changed();
          });
  connect(&engine, &EngineClient::turnFailed, this,
          [this](quint64 id, const Error&) { m_forecasts.erase(id); });
}

ContextPreview::~ContextPreview() {
  m_engine.disconnect(this);
  m_pool.waitForDone();  // its result is posted to this object
  dropForecasts();
}

void ContextPreview::dropForecasts() {
  for (const auto& [id, option] : m_forecasts) m_engine.cancel(id);
  m_forecasts.clear();
}

void ContextPreview::look(const ChatSession& session, const QString& draft) {
  ++m_call;
  dropForecasts();
  const auto model = m_engine.model();
  const ModelInfoPtr info = m_engine.info();
  if (!model || !info) {
    m_planning = false;
    m_outlook = {};
    m_outlook.problem = tr("No model is loaded.");
    emit changed();
    return;
  }
  m_planning = true;
  m_pool.clear();
  m_pool.start([this, call = m_call, model, limit = info->contextTokens,
                rowCount = static_cast<int>(session.rows().size()),
                turn = session.nextTurn(draft)] {
    const auto& messages = std::get<ChatPrompt>(turn.request.prompt).messages;
    Plan plan;
    plan.outlook.limitTokens = limit;
    ContextLimits limits{limit, turn.request.maxTokens, 0};
    const auto planFor = [&](ContextPolicy policy) {
      return planContext(model->chatTemplate(), model->tokenizer(), messages, policy, limits);
    };
    const auto whole = planFor(ContextPolicy::kStop);
    if (whole) {
      // Messages leave once the prompt exceeds what is left beside the room for an answer.
      const int quarter = std::max(1, limit / 4);
      const int room =
          turn.request.maxTokens > 0 ? std::min(turn.request.maxTokens, quarter) : quarter;
      plan.outlook.wholeTokens = whole->wholeTokens;
      plan.outlook.tokensUntilThen = limit - room - whole->wholeTokens;
      plan.outlook.ahead = plan.outlook.tokensUntilThen >= 0;
      if (plan.outlook.ahead) limits.extraTokens = plan.outlook.tokensUntilThen + 1;
    } else {
      plan.outlook.problem = toQString(whole.error().message);
    }
    for (const ContextPolicy policy : kPolicies) {
      const auto planned = planFor(policy);
      if (!planned) continue;  // told above
      ContextOption option;
      option.policy = policy;
      option.rows = rowsOf(planned->dropped, turn.origins, rowCount);
      option.promptTokens = static_cast<int>(planned->tokens.size());
      option.fits = option.promptTokens < limit;
      GenerateRequest request = turn.request;
      request.contextPolicy = ContextPolicy::kStop;  // what is asked about is what stays
      request.prompt = ChatPrompt{without(messages, planned->dropped)};
      plan.outlook.options.push_back(std::move(option));
      plan.requests.push_back(std::move(request));
    }
    m_mailbox.post([this, call, plan = std::move(plan)]() mutable {
      if (call == m_call) take(std::move(plan));
    });
  });
}

void ContextPreview::take(Plan plan) {
  m_planning = false;
  m_outlook = std::move(plan.outlook);
  for (std::size_t i = 0; i < plan.requests.size(); ++i) {
    if (!m_outlook.options[i].fits) continue;
    m_forecasts.emplace(m_engine.forecast(std::move(plan.requests[i])), i);
  }
  emit changed();
}

}  // namespace vitrine::app

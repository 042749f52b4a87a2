// What sending would cost, told while a message is written: the engine forecasts the request that
// send() would make. Until it has answered, the tokens are counted here.
#include <QPushButton>
#include <algorithm>

#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/composer/composer.h"
#include "ui/composer/forecast_line.h"

namespace vitrine::ui {

QString Composer::forecastText() const {
  return m_forecast->text();
}

void Composer::askForecast() {
  if (!m_engine.info() || draftSize() == 0) return;
  if (m_session) {
    m_session->forecast(draft());
    return;
  }
  app::Conversation conversation;
  conversation.systemPrompt = m_settings.systemPromptDefault();
  app::Message question;
  question.role = app::Role::kUser;
  question.text = draft();
  if (m_chatlessRequest != 0) m_engine.cancel(m_chatlessRequest);
  m_chatlessRequest = m_engine.forecast(
      app::makeTurnRequest(conversation, {question}, QStringLiteral("main"), m_engine, m_settings)
          .request);
}

void Composer::dropForecast() {
  m_forecastDelay.stop();
  m_answer.reset();
  m_refusal.clear();
  if (m_session) m_session->dropForecast();
  if (m_chatlessRequest != 0) m_engine.cancel(m_chatlessRequest);
  m_chatlessRequest = 0;
}

// What the engine says of this message; false: it has not answered.
bool Composer::showForecast() {
  using Line = ForecastLine;
  if (!m_refusal.isEmpty()) {
    m_forecast->setParts({{oneLine(m_refusal, 120), Line::kFault}});
    return true;
  }
  if (!m_answer) return false;
  const engine::Forecast& f = *m_answer;
  QVector<Line::Part> parts;
  if (f.reusedTokens > 0) {
    parts << Line::Part{countText(f.reusedTokens), Line::kReused}
          << Line::Part{tr(" reused · "), Line::kPlain};
  }
  if (f.restoredTokens > 0) {
    parts << Line::Part{countText(f.restoredTokens), Line::kReused}
          << Line::Part{tr(" from disk · "), Line::kPlain};
  }
  parts << Line::Part{countText(f.newTokens), Line::kPrefilled}
        << Line::Part{tr(" new"), Line::kPlain};
  const QString context = tr("%1 / %2").arg(countText(f.promptTokens), countText(f.contextTokens));
  if (!f.fits) {
    parts << Line::Part{QStringLiteral(" → "), Line::kPlain}
          << Line::Part{tr("does not fit: %1").arg(context), Line::kFault};
  } else {
    if (f.ttftMs >= 0) {
      parts << Line::Part{tr(" → first token ≈ %1").arg(millisecondsText(f.ttftMs)), Line::kPlain};
    }
    if (f.newBytes > 0) {
      parts << Line::Part{tr(" · + %1").arg(bytesText(f.newBytes)), Line::kPlain};
    }
    if (f.droppedMessages > 0) {
      parts << Line::Part{
          tr(" · %1 left out")
              .arg(pluralText(f.droppedMessages, tr("%1 message"), tr("%1 messages"))),
          Line::kFault};
    }
    if (f.evictedBlocks > 0) {
      parts << Line::Part{tr(" · %1 of idle chats give way")
                              .arg(pluralText(f.evictedBlocks, tr("%1 block"), tr("%1 blocks"))),
                          Line::kPlain};
    }
    parts << Line::Part{QStringLiteral(" · ") + context, Line::kPlain};
  }
  m_forecast->setParts(parts);
  return true;
}

void Composer::updateForecast() {
  const app::ModelInfoPtr info = m_engine.info();
  const int used = m_session ? m_session->contextUsed() : 0;
  const int limit = info ? info->contextTokens : 0;
  QVector<ForecastLine::Part> parts;
  using Line = ForecastLine;
  bool tooLong = false;
  if (!info) {
    parts = {{m_engine.isLoading() ? tr("the model is loading") : tr("no model"), Line::kPlain}};
  } else if (draftSize() == 0) {
    parts = {{used > 0 ? tr("%1 of %2 tokens of context").arg(countText(used), countText(limit))
                       : tr("%1 tokens of context are free").arg(countText(limit)),
              Line::kPlain}};
  } else if (showForecast()) {
    tooLong = m_answer && (!m_answer->fits || m_answer->droppedMessages > 0);
  } else if (m_draftTokens < 0) {
    parts = {{tr("counting tokens …"), Line::kPlain}};
  } else {
    // What the cache holds of this chat; the rest of its history would be computed again.
    const auto snapshot = m_engine.snapshot();
    int held = 0;
    if (m_session) {
      const std::string key = app::toUtf8(m_session->conversation().uuid);
      for (const engine::CacheOwner& owner : snapshot->owners) {
        if (owner.conversation == key) held = std::max(held, owner.tokens);
      }
    }
    const engine::CacheOptions& cache = m_engine.config().cache;
    const int reused = cache.enabled && cache.reuse ? std::min(used, held) : 0;
    const int fresh = used - reused + m_draftTokens;
    const int total = used + m_draftTokens;
    tooLong = total > limit;
    if (reused > 0) {
      parts << Line::Part{countText(reused), Line::kReused}
            << Line::Part{tr(" reused · "), Line::kPlain};
    }
    parts << Line::Part{countText(fresh), Line::kPrefilled} << Line::Part{tr(" new"), Line::kPlain}
          << Line::Part{QStringLiteral(" → "), Line::kPlain}
          << Line::Part{tr("%1 / %2").arg(countText(total), countText(limit)),
                        tooLong ? Line::kFault : Line::kPlain};
    if (snapshot->bytesPerBlock > 0 && cache.blockSize > 0) {
      const quint64 bytes = snapshot->bytesPerBlock * quint64(fresh) / quint64(cache.blockSize);
      parts << Line::Part{tr(" · + %1").arg(bytesText(bytes)), Line::kPlain};
    }
  }
  if (!parts.isEmpty()) m_forecast->setParts(parts);
  m_send->setEnabled(draftSize() > 0);

  showContextNotice(tooLong, used, limit);
}

// The limit of the context, before anything is sent.
void Composer::showContextNotice(bool tooLong, int used, int limit) {
  const bool running = m_session && m_session->isRunning();
  if (tooLong) {
    const bool alone = m_draftTokens >= limit;
    const bool drops = (m_session ? m_session->contextPolicy() : m_settings.contextPolicy()) !=
                       engine::ContextPolicy::kStop;
    QString text;
    if (alone) {
      text = tr("This message has %1 tokens; the context holds %2. Shorten it, or set a larger "
                "context.")
                 .arg(countText(m_draftTokens), countText(limit));
    } else if (drops) {
      text =
          m_answer && m_answer->droppedMessages > 0
              ? tr("The context is full: the %1 will be left out of the prompt. They stay in the "
                   "chat.")
                    .arg(pluralText(m_answer->droppedMessages, tr("oldest message"),
                                    tr("%1 oldest messages")))
              : tr("The context is full: the oldest turns will be left out of the prompt. They "
                   "stay in the chat.");
    } else {
      text = tr("This message needs %1 tokens; %2 of %3 are free.")
                 .arg(countText(m_draftTokens), countText(std::max(0, limit - used)),
                      countText(limit));
    }
    showNotice(text);
    m_noticeIsForecast = true;
    m_noticeContext->setVisible(!alone && m_session);
    m_noticeNewChat->setVisible(!alone && !drops);
  } else if (m_noticeIsForecast && !running) {
    showNotice({});
  }
}

}  // namespace vitrine::ui

// How the transcript follows its session: which row changes when, and the figures of the turn that
// runs.
#include <algorithm>

#include "ui/chat/answer_item.h"
#include "ui/chat/transcript.h"

namespace vitrine::ui {

void Transcript::setSession(app::ChatSession* session) {
  if (m_session) disconnect(m_session, nullptr, this, nullptr);
  m_session = session;
  m_live = {};
  m_tokenMsSum = 0;
  if (session) {
    using app::ChatSession;
    connect(session, &ChatSession::pathReset, this, &Transcript::resetSlots);
    connect(session, &ChatSession::messageAdded, this, [this](int row) {
      addSlot(row);
      m_follow = true;  // the person has just sent something
      relayout();
    });
    connect(session, &ChatSession::messageChanged, this, &Transcript::onMessageChanged);
    connect(session, &ChatSession::turnStarted, this, [this](int prompt, int reused) {
      m_live = {};
      m_live.reused = reused;
      m_live.prefillTotal = prompt - reused;
      m_tokenMsSum = 0;
      m_remainingMs = -1;
      updateLive();
    });
    connect(session, &ChatSession::prefillProgressed, this,
            [this](int done, int total, double remainingMs) {
              m_live.prefilled = std::max(0, m_live.prefillTotal - (total - done));
              m_remainingMs = remainingMs;
              m_sinceStep.start();
              if (!m_liveTimer.isActive()) m_liveTimer.start(kLiveIntervalMs);
            });
    connect(session, &ChatSession::tokensArrived, this,
            [this](const std::vector<engine::GeneratedToken>& tokens) {
              for (const engine::GeneratedToken& token : tokens) {
                if (m_live.generated++ == 0) {
                  m_live.ttftMs = token.milliseconds;
                  m_live.prefilled = std::max(m_live.prefilled, m_live.prefillTotal);
                } else {
                  m_tokenMsSum += token.milliseconds;
                  m_live.tpotMs = m_tokenMsSum / (m_live.generated - 1);
                }
              }
              if (!m_liveTimer.isActive()) m_liveTimer.start(kLiveIntervalMs);
            });
    connect(session, &ChatSession::phaseChanged, this, [this](app::TurnPhase phase) {
      if (phase == app::TurnPhase::kWaiting) m_live = {};
      if (phase == app::TurnPhase::kWaiting || phase == app::TurnPhase::kIdle) {
        m_streamTimer.stop();
        for (int row = 0; row < int(m_slots.size()); ++row) fillItem(row);
        relayout();
      }
      updateLive();
    });
    connect(session, &ChatSession::turnFinished, this, [this](int row) {
      m_streamTimer.stop();
      fillItem(row);
      if (row > 0) fillItem(row - 1);
      relayout();
    });
    connect(session, &ChatSession::turnFailed, this, &Transcript::onFailure);
    m_live.prefillTotal = session->prefillTotal();
    m_live.prefilled = session->prefillDone();
  }
  resetSlots();
}

}  // namespace vitrine::ui

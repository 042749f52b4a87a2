#include "ui/inspector/inspector_panel.h"

#include <QFrame>
#include <QPointer>
#include <QScrollArea>
#include <QStackedWidget>
#include <QTabBar>
#include <QVBoxLayout>

#include "app/chat/chat_session.h"
#include "app/chat/prompt_messages.h"
#include "app/settings.h"
#include "app/studio/profile_list.h"
#include "engine/model/model.h"
#include "ui/common/engine_switching.h"
#include "ui/common/toast.h"
#include "ui/inspector/attention/attention_tab.h"
#include "ui/inspector/batch/batch_tab.h"
#include "ui/inspector/cache/block_text.h"
#include "ui/inspector/cache/cache_tab.h"
#include "ui/inspector/latency/latency_tab.h"
#include "ui/inspector/precision/precision_tab.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kRefreshMs = 100;
constexpr int kMemoryMs = 1000;  // reading the process's maps costs more than all the rest

struct TabEntry {
  const char* name;
  const char* title;
  InspectorTab* (*make)(QWidget* parent);
};

template <typename Tab>
InspectorTab* make(QWidget* parent) {
  return new Tab(parent);
}

// A new tab: one line here.
constexpr TabEntry kTabs[] = {
    {"cache", QT_TRANSLATE_NOOP("vitrine::ui::InspectorPanel", "Cache"), &make<CacheTab>},
    {"latency", QT_TRANSLATE_NOOP("vitrine::ui::InspectorPanel", "Latency"), &make<LatencyTab>},
    {"batch", QT_TRANSLATE_NOOP("vitrine::ui::InspectorPanel", "Batch"), &make<BatchTab>},
    {"precision", QT_TRANSLATE_NOOP("vitrine::ui::InspectorPanel", "Precision"),
     &make<PrecisionTab>},
    {"attention", QT_TRANSLATE_NOOP("vitrine::ui::InspectorPanel", "Attention"),
     &make<AttentionTab>},
};

// Their texts alone: another precision or model may be asked about them.
std::vector<engine::ChatMessage> messagesOf(const app::ChatSession& session) {
  std::vector<app::Message> path;
  for (const app::MessageRow& row : session.rows()) path.push_back(row.message);
  path.emplace_back().role = app::Role::kAssistant;  // an answer to come, which is left out
  return app::promptMessages(session.conversation(), path,
                             [](const app::Message&) { return false; })
      .messages;
}

}  // namespace

InspectorPanel::InspectorPanel(app::EngineClient& engine, app::Settings& settings, QWidget* parent)
    : QWidget(parent),
      m_engine(engine),
      m_settings(settings),
      m_tabs(new QTabBar(this)),
      m_pages(new QStackedWidget(this)) {
  setAccessibleName(tr("Inspector"));
  m_tabs->setAccessibleName(tr("Inspector's tabs"));
  m_tabs->setExpanding(false);
  m_tabs->setDrawBase(false);
  m_tabs->setUsesScrollButtons(false);
  auto* line = new QFrame(this);
  line->setProperty("kind", "line");
  line->setFixedHeight(1);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(m_tabs);
  column->addWidget(line);
  column->addWidget(m_pages, 1);

  for (const TabEntry& entry : kTabs) {
    InspectorTab* tab = entry.make(this);
    tab->setAccessibleName(tr(entry.title));
    connect(tab, &InspectorTab::configWanted, this, &InspectorPanel::applyConfig);
    connect(tab, &InspectorTab::cancelWanted, this, [this] { m_engine.cancelLoad(); });
    connect(tab, &InspectorTab::cacheProofWanted, this, &InspectorPanel::verifyCache);
    connect(tab, &InspectorTab::cacheProofCancelWanted, this, [this] {
      if (m_session) m_session->cancelCacheProof();
    });
    connect(tab, &InspectorTab::stateWanted, this, &InspectorPanel::refreshSoon);
    connect(tab, &InspectorTab::studioWanted, this, &InspectorPanel::studioWanted);
    connect(tab, &InspectorTab::messageWanted, this, &InspectorPanel::messageWanted);
    connect(tab, &InspectorTab::blockTextWanted, this, &InspectorPanel::readBlock);
    auto* scroll = new QScrollArea(m_pages);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setFrameShape(QFrame::NoFrame);
    scroll->viewport()->setAutoFillBackground(false);
    tab->setAutoFillBackground(false);
    scroll->setWidget(tab);
    m_pages->addWidget(scroll);
    m_tabs->addTab(tr(entry.title));
  }
  connect(m_tabs, &QTabBar::currentChanged, this, [this](int index) {
    m_pages->setCurrentIndex(index);
    refreshSoon();
  });

  m_state.snapshot = engine.snapshot();
  m_refresh.setSingleShot(true);
  connect(&m_refresh, &QTimer::timeout, this, &InspectorPanel::refresh);

  connect(&engine, &app::EngineClient::busyChanged, this, &InspectorPanel::refreshSoon);
  connect(&engine, &app::EngineClient::loadStarted, this, [this] {
    m_state.loadStage.clear();
    m_state.loadFraction = 0;
    refreshSoon();
  });
  connect(&engine, &app::EngineClient::loadProgressed, this,
          [this](quint64, const QString& stage, double fraction) {
            m_state.loadStage = stage;
            m_state.loadFraction = fraction;
            refreshSoon();
          });
  const auto engineChanged = [this] {
    m_sinceMemory.invalidate();
    refreshSoon();
  };
  connect(&engine, &app::EngineClient::modelLoaded, this, engineChanged);
  connect(&engine, &app::EngineClient::modelUnloaded, this, engineChanged);
  connect(&engine, &app::EngineClient::loadFailed, this, engineChanged);
  connect(&engine, &app::EngineClient::turnFinished, this, engineChanged);
  connect(&engine, &app::EngineClient::blockInspected, this, &InspectorPanel::onBlock);
  connect(&settings, &app::Settings::changed, this, &InspectorPanel::refreshSoon);
  connect(&Theme::instance(), &Theme::changed, this, &InspectorPanel::refreshSoon);
}

void InspectorPanel::setSession(app::ChatSession* session) {
  if (m_session) m_session->disconnect(this);
  m_session = session;
  m_turnsChanged = true;
  m_state.live = {};
  m_state.conversation = session ? session->conversation().uuid : QString();
  m_state.chatMessages = nullptr;
  if (session) {
    m_state.chatMessages = [chat = QPointer(session)] {
      return chat ? messagesOf(*chat) : std::vector<engine::ChatMessage>();
    };
  }
  if (session) {
    const auto pathChanged = [this] {
      m_turnsChanged = true;
      refreshSoon();
    };
    connect(session, &app::ChatSession::pathReset, this, pathChanged);
    connect(session, &app::ChatSession::messageAdded, this, pathChanged);
    connect(session, &app::ChatSession::turnFinished, this, [this] {
      m_turnsChanged = true;
      m_state.live = {};
      refreshSoon();
    });
    connect(session, &app::ChatSession::turnFailed, this, [this] {
      m_state.live = {};
      refreshSoon();
    });
    connect(session, &app::ChatSession::turnStarted, this, [this](int prompt, int reused) {
      m_state.live = {};
      m_state.live.running = true;
      m_state.live.promptTokens = prompt;
      m_state.live.reusedTokens = reused;
      refreshSoon();
    });
    connect(session, &app::ChatSession::prefillProgressed, this, [this](int done, int total) {
      m_state.live.prefillDone = done;
      m_state.live.prefillTotal = total;
      refreshSoon();
    });
    connect(session, &app::ChatSession::cacheProofChanged, this, &InspectorPanel::refreshSoon);
    connect(session, &app::ChatSession::tokensArrived, this, &InspectorPanel::onTokens);
  }
  refreshSoon();
}

void InspectorPanel::setOwnerLook(std::function<OwnerLook(const QString&)> look) {
  m_state.ownerLook = std::move(look);
  refreshSoon();
}

void InspectorPanel::setChatLengths(std::function<std::vector<int>()> lengths) {
  m_chatLengths = std::move(lengths);
  m_turnsChanged = true;
  refreshSoon();
}

void InspectorPanel::setProfiles(app::studio::ProfileList* profiles) {
  m_profiles = profiles;
  connect(profiles, &app::studio::ProfileList::changed, this, &InspectorPanel::refreshSoon);
  refreshSoon();
}

void InspectorPanel::showTab(const QString& name) {
  for (int i = 0; i < int(std::size(kTabs)); ++i) {
    if (name == QLatin1String(kTabs[i].name)) m_tabs->setCurrentIndex(i);
  }
}

QString InspectorPanel::currentTab() const {
  return QString::fromLatin1(kTabs[m_tabs->currentIndex()].name);
}

void InspectorPanel::refreshSoon() {
  if (!m_refresh.isActive() && isVisible()) m_refresh.start(kRefreshMs);
}

void InspectorPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  m_turnsChanged = true;
  m_sinceMemory.invalidate();
  if (!m_refresh.isActive()) m_refresh.start(0);
}

void InspectorPanel::collectTurns() {
  m_turnsChanged = false;
  ++m_state.turnsVersion;
  m_state.turns.clear();
  m_state.turnTokens.clear();
  m_state.otherTurns.clear();
  if (m_chatLengths) m_state.chatLengths = m_chatLengths();
  m_state.branch.clear();
  if (!m_session) return;
  m_state.branch = m_session->branchName();
  for (const app::MessageRow& row : m_session->rows()) {
    if (row.message.role == app::Role::kAssistant && row.metrics.known()) {
      m_state.turns.push_back(row.metrics);
      m_state.turnTokens.push_back(row.message.tokenIds);
    }
  }
  m_state.otherTurns = m_session->turnsOffPath();
}

void InspectorPanel::onTokens(const std::vector<engine::GeneratedToken>& tokens) {
  m_state.live.running = true;
  for (const engine::GeneratedToken& token : tokens) {
    m_state.live.tokenMs.push_back(token.milliseconds);
    m_state.live.tokenCauses.push_back(token.cause);
    m_state.live.tokenIds.push_back(token.id);
  }
  refreshSoon();
}

void InspectorPanel::refresh() {
  if (!isVisible()) return;
  m_state.snapshot = m_engine.snapshot();
  m_state.info = m_engine.info();
  m_state.model = m_engine.model();
  m_state.wanted = wantedConfig(m_engine, m_settings);
  m_state.loading = m_engine.isLoading();
  if (m_profiles) m_state.profiles = m_profiles->profiles();
  if (m_turnsChanged) collectTurns();
  m_state.proof = m_session ? m_session->cacheProof() : app::CacheProofState{};
  m_state.proofSeconds = m_session ? m_session->cacheProofSeconds() : 0;
  m_state.canVerify = m_session && m_state.info && !m_state.loading && !m_session->isRunning() &&
                      !m_state.turns.empty();
  // Not while a load maps and frees hundreds of megabytes: the kernel would let this thread wait.
  const bool memoryIsDue = !m_sinceMemory.isValid() || m_sinceMemory.elapsed() >= kMemoryMs;
  if (memoryIsDue && !m_state.loading) {
    m_state.memory =
        engine::readMemoryLedger(*m_state.snapshot, m_state.info ? m_state.info->path : "");
    m_sinceMemory.start();
  }
  for (int i = 0; i < m_pages->count(); ++i) {
    auto* tab = static_cast<InspectorTab*>(static_cast<QScrollArea*>(m_pages->widget(i))->widget());
    if (i == m_pages->currentIndex() || tab->wantsStates()) tab->showState(m_state);
  }
  if (m_engine.isBusy() || m_state.proof.running) m_refresh.start(kRefreshMs);
}

void InspectorPanel::verifyCache() {
  if (!m_session) return;
  if (const auto asked = m_session->verifyCache(); !asked) {
    Toast::of(this)->showMessage(QString::fromStdString(asked.error().message));
  }
  refreshSoon();
}

// A question a block; only the answer to the latest is of interest.
void InspectorPanel::readBlock(int block) {
  m_blockRequest = block >= 0 ? m_engine.inspectBlock(block) : 0;
}

void InspectorPanel::onBlock(quint64 id, const engine::BlockContent& content) {
  const auto model = m_engine.model();
  if (id != m_blockRequest || !model) return;
  const QString text = blockText(model->tokenizer(), content.tokens);
  for (int i = 0; i < m_pages->count(); ++i) {
    static_cast<InspectorTab*>(static_cast<QScrollArea*>(m_pages->widget(i))->widget())
        ->showBlockText(content.block, text);
  }
}

void InspectorPanel::applyConfig(const engine::EngineConfig& config) {
  switchEngine(m_engine, m_settings, config);
  refreshSoon();
}

}  // namespace vitrine::ui

#include "ui/main_window.h"

#include <QApplication>
#include <QCloseEvent>
#include <QCursor>
#include <QDateTime>
#include <QDropEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QJsonDocument>
#include <QJsonObject>
#include <QMimeData>
#include <QThread>
#include <QTimer>
#include <algorithm>
#include <memory>

#include <spdlog/spdlog.h>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/chat/message_positions.h"
#include "app/chat/session_pool.h"
#include "app/export/exporter.h"
#include "app/model_library.h"
#include "app/server/local_server.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/text.h"
#include "engine/backend/gpu.h"
#include "engine/cache/archive_catalog.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/transcript.h"
#include "ui/common/format.h"
#include "ui/common/toast.h"
#include "ui/compare/compare_page.h"
#include "ui/composer/composer.h"
#include "ui/export/export_menu.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/models/model_opener.h"
#include "ui/models/models_page.h"
#include "ui/precision/range_guard.h"
#include "ui/replay/replay_page.h"
#include "ui/settings/settings_dialog.h"
#include "ui/sidebar/side_bar.h"
#include "ui/theme/theme.h"
#include "ui/topbar/top_bar.h"

namespace vitrine::ui {

namespace {

constexpr int kTrashDays = 30;  ///< deleted chats stay that long

QString localFile(const QMimeData* data, const QStringList& suffixes) {
  for (const QUrl& url : data->urls()) {
    if (!url.isLocalFile()) continue;
    const QString file = url.toLocalFile();
    if (suffixes.contains(QFileInfo(file).suffix().toLower())) return file;
  }
  return {};
}

}  // namespace

MainWindow::MainWindow(Services services, QWidget* parent)
    : QMainWindow(parent), m_services(services) {
  setAcceptDrops(true);
  setMinimumSize(420, 360);
  keepArchive();
  emptyOldTrash();
  buildLayout();
  buildShortcuts();
  connectParts();
  connect(&Theme::instance(), &Theme::changed, this, &MainWindow::applyTheme);
  applySettings();
  applyTheme();
  restoreState();
  updateTitle();
  updateContext();
  if (const QString notice = m_services.store.notice(); !notice.isEmpty()) {
    QTimer::singleShot(0, this, [this, notice] { Toast::of(this)->showMessage(notice, 15000); });
  }
}

/// The KV of chats is kept beside the other files that may be deleted. What went to the trash in an
/// earlier run is not brought back by Undo any more, so its KV goes.
void MainWindow::keepArchive() {
  const QString folder = m_services.paths.archive();
  m_services.settings.setArchiveFolder(folder);
  m_services.settings.setCalibrationFolder(m_services.paths.calibration());
  std::vector<std::string> gone;
  for (const app::Conversation& conversation : m_services.store.trash()) {
    gone.push_back(app::toUtf8(conversation.uuid));
  }
  if (!gone.empty()) engine::ArchiveCatalog::removeConversations(app::toPath(folder), gone);
}

void MainWindow::emptyOldTrash() {
  const QDateTime oldest = QDateTime::currentDateTime().addDays(-kTrashDays);
  if (const auto done = m_services.store.purgeTrashOlderThan(oldest); !done) {
    spdlog::warn("old deleted chats stay for now: {}", done.error().message);
  }
}

MainWindow::~MainWindow() {
  if (m_modelSearch) m_modelSearch->wait();
}

void MainWindow::connectParts() {
  connect(m_sideBar, &SideBar::newChatRequested, this, &MainWindow::newChat);
  connect(m_sideBar, &SideBar::conversationChosen, this, &MainWindow::openConversation);
  connect(m_sideBar, &SideBar::conversationAboutToBeDeleted, this, [this](qint64 id) {
    if (m_chat->session() && m_chat->session()->conversation().id == id) newChat();
  });
  connect(m_sideBar, &SideBar::exportRequested, this, &MainWindow::exportConversation);
  connect(m_sideBar, &SideBar::importRequested, this, &MainWindow::chooseChatFile);
  connect(m_chat, &ChatView::sessionStarted, this, &MainWindow::showSession);
  connect(m_chat, &ChatView::modelWanted, this, &MainWindow::openModelsPage);
  connect(m_chat, &ChatView::cacheProofStarted, this,
          [this] { m_inspector->showTab(QStringLiteral("latency")); });
  connect(m_topBar, &TopBar::modelsPageWanted, this, &MainWindow::openModelsPage);
  connect(m_topBar, &TopBar::contextWanted, this, &MainWindow::openContextDialog);
  connect(m_chat, &ChatView::contextWanted, this, &MainWindow::openContextDialog);
  connect(m_topBar, &TopBar::modelWanted, this, &MainWindow::openModel);
  connect(m_topBar, &TopBar::openFileWanted, this, [this] { m_opener->openWithDialog(this); });
  connect(m_opener, &ModelOpener::failed, this, &MainWindow::noteLoadFailure);
  connect(m_opener, &ModelOpener::noticed, this,
          [this](const QString& notice) { Toast::of(this)->showMessage(notice, 10000); });
  connect(&m_services.engine, &app::EngineClient::loadFailed, this,
          [this](quint64 id, const engine::Error& error, bool) {
            // A switch that failed; a model that did not open is the opener's to tell.
            if (!m_opener->started(id) && error.code != engine::ErrorCode::kCancelled) {
              Toast::of(this)->showMessage(app::toQString(error.message), 10000);
            }
          });
  connect(&m_services.pool, &app::SessionPool::sessionAboutToClose, this,
          [this](app::ChatSession* session) {
            if (m_chat->session() == session) showSession(nullptr);
          });
  connect(&m_services.settings, &app::Settings::changed, this, &MainWindow::applySettings);
  connect(&m_services.engine, &app::EngineClient::modelLoaded, this, &MainWindow::updateContext);
  connect(&m_services.engine, &app::EngineClient::modelLoaded, this, &MainWindow::tellWhyNoGpu);
  connect(&m_services.engine, &app::EngineClient::modelUnloaded, this, &MainWindow::updateContext);
  connect(&m_services.store, &app::ConversationStore::changedElsewhere, this, [this] {
    if (m_chat->session() && !m_chat->session()->isRunning()) m_chat->session()->reload();
  });
  connect(&m_services.store, &app::ConversationStore::conversationChanged, this,
          &MainWindow::updateTitle);
  connect(m_inspector, &InspectorPanel::messageWanted, this, &MainWindow::openMessage);
  connect(m_inspector, &InspectorPanel::studioWanted, this, &MainWindow::openStudio);
  m_inspector->setChatLengths([this] { return m_services.store.chatLengths(); });
  m_inspector->setOwnerLook([this](const QString& key) {
    OwnerLook look;
    if (const auto conversation = m_services.store.conversationByUuid(key)) {
      look.title = conversation->title;
      look.colour = Theme::instance().conversationColour(conversation->colour);
    }
    return look;
  });
}

// ---------------------------------------------------------------- chats

void MainWindow::showSession(app::ChatSession* session) {
  if (m_chat->session()) disconnect(m_chat->session(), nullptr, this, nullptr);
  m_chat->setSession(session);
  m_inspector->setSession(session);
  m_comparePage->setSession(session);
  m_rangeGuard->setSession(session);
  m_replayPage->setSession(session);
  m_sideBar->setCurrent(session ? session->conversation().id : 0);
  if (session) {
    connect(session, &app::ChatSession::contextUsage, this, &MainWindow::updateContext);
    connect(session, &app::ChatSession::conversationChanged, this, &MainWindow::updateTitle);
  }
  closePage();
  updateTitle();
  updateContext();
}

void MainWindow::openConversation(app::ConversationId id) {
  if (app::ChatSession* session = m_services.pool.open(id)) {
    showSession(session);
  }
}

void MainWindow::newChat() {
  showSession(nullptr);
  m_chat->composer()->focusInput();
}

void MainWindow::openMessage(const QString& key, const QString& branch, int position) {
  const auto conversation = m_services.store.conversationByUuid(key);
  if (!conversation || conversation->trashed.isValid()) {
    Toast::of(this)->showMessage(
        tr("These blocks are not of a chat in the list: they came through the local API, or the "
           "chat was deleted."));
    return;
  }
  const app::ChatSession* shown = m_chat->session();
  if (!shown || shown->conversation().id != conversation->id) openConversation(conversation->id);
  closePage();
  app::ChatSession* session = m_chat->session();
  if (!session) return;
  if (const auto switched = session->showBranch(branch); !switched) {
    Toast::of(this)->showMessage(app::toQString(switched.error().message));
    return;
  }
  const int row = app::rowAtPosition(session->rows(), position);
  if (row < 0) return;
  m_chat->transcript()->showRow(row);
  m_chat->transcript()->flashRow(row);
}

void MainWindow::updateTitle() {
  const QString title = m_chat->session() ? m_chat->session()->conversation().title : QString();
  setWindowTitle(title.isEmpty() ? tr("Vitrine") : tr("%1 – Vitrine").arg(oneLine(title, 80)));
}

void MainWindow::tellWhyNoGpu() {
  const app::ModelInfoPtr info = m_services.engine.info();
  if (!info || !engine::shouldTellWhyNoGpu(info->backend)) return;
  Toast::of(this)->showMessage(tr("Running on the CPU: %1").arg(app::toQString(info->backend.note)),
                               10000);
}

void MainWindow::updateContext() {
  const app::ModelInfoPtr info = m_services.engine.info();
  const int limit = info ? info->contextTokens : 0;
  m_topBar->setContext(m_chat->session() ? m_chat->session()->contextUsed() : 0, limit);
}

void MainWindow::exportConversation(app::ConversationId id) {
  m_exportMenu->setConversation(id);
  m_exportMenu->popup(QCursor::pos());
}

void MainWindow::chooseChatFile() {
  const QString file = QFileDialog::getOpenFileName(this, tr("Import chats"), {},
                                                    tr("Chats (*.json *.jsonl);;All files (*)"));
  if (!file.isEmpty()) importChats(file);
}

void MainWindow::importChats(const QString& file) {
  const auto result = app::importFile(m_services.store, file);
  if (!result) {
    Toast::of(this)->showMessage(app::toQString(result.error().message), 10000);
    return;
  }
  QString message = pluralText(qint64(result->conversations.size()), tr("Imported %1 chat"),
                               tr("Imported %1 chats"));
  if (!result->skipped.isEmpty()) message += tr("; left out: %1").arg(result->skipped.first());
  Toast::of(this)->showMessage(message, 8000);
  if (!result->conversations.empty()) openConversation(result->conversations.front());
}

// ---------------------------------------------------------------- models and settings

void MainWindow::openModel(const std::filesystem::path& path) {
  m_opener->open(path);
}

void MainWindow::openFirstModel(const std::filesystem::path& wanted) {
  const app::Settings& settings = m_services.settings;
  if (!wanted.empty()) return openModel(wanted);
  if (!settings.lastModel().empty()) {
    if (settings.loadLastModelAtStart()) openModel(settings.lastModel());
    return;
  }
  // A first start: the only usable model of the folder, or the page that leads to one.
  const QString folder =
      settings.modelFolder().isEmpty() ? m_services.paths.models : settings.modelFolder();
  auto found = std::make_shared<std::vector<app::ModelEntry>>();
  QThread* search = QThread::create([folder, found] { *found = app::findModels({folder}); });
  m_modelSearch = search;
  connect(search, &QThread::finished, this, [this, found] {
    std::erase_if(*found, [](const app::ModelEntry& e) { return !e.problem.isEmpty(); });
    if (m_services.engine.info() || m_services.engine.isLoading()) return;
    if (found->size() == 1) {
      openModel(found->front().path);
    } else {
      openModelsPage();
    }
  });
  connect(search, &QThread::finished, search, &QObject::deleteLater);
  search->start();
}

void MainWindow::openSettings(const QString& page) {
  auto* dialog = new SettingsDialog(m_services.engine, m_services.settings, *m_server,
                                    m_services.paths.models, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  if (!page.isEmpty()) dialog->showPage(page);
  dialog->open();
}

void MainWindow::applySettings() {
  Theme& theme = Theme::instance();
  switch (m_services.settings.theme()) {
    case app::Theme::kSystem:
      theme.setMode(ThemeMode::kSystem);
      break;
    case app::Theme::kLight:
      theme.setMode(ThemeMode::kLight);
      break;
    case app::Theme::kDark:
      theme.setMode(ThemeMode::kDark);
      break;
  }
  theme.setZoom(m_services.settings.zoomPercent() / 100.0);
  m_chat->composer()->refresh();
}

void MainWindow::zoom(int step) {
  const int percent = step == 0 ? 100 : m_services.settings.zoomPercent() + 10 * step;
  m_services.settings.setZoomPercent(std::clamp(percent, 70, 200));
  applySettings();
}

// ---------------------------------------------------------------- the window itself

void MainWindow::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape) {
    isChatShown() ? m_chat->stop() : closePage();
    return;
  }
  QMainWindow::keyPressEvent(event);
}

bool MainWindow::event(QEvent* event) {
  if (event->type() == QEvent::WindowActivate) m_services.store.checkForChanges();
  return QMainWindow::event(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (!localFile(event->mimeData(), {"gguf", "json", "jsonl"}).isEmpty()) {
    event->acceptProposedAction();
  }
}

void MainWindow::dropEvent(QDropEvent* event) {
  const QString model = localFile(event->mimeData(), {"gguf"});
  const QString chats = localFile(event->mimeData(), {"json", "jsonl"});
  event->acceptProposedAction();
  // After the drop is through: a dialog or a load must not hold the other program's drag.
  QMetaObject::invokeMethod(
      this,
      [this, model, chats] {
        if (!model.isEmpty()) {
          openModel(app::toPath(model));
        } else if (!chats.isEmpty()) {
          importChats(chats);
        }
      },
      Qt::QueuedConnection);
}

void MainWindow::closeEvent(QCloseEvent* event) {
  saveState();
  // A load ends within a step; a running answer is kept as far as it came.
  m_services.engine.cancelLoad();
  m_chat->stop();
  QMainWindow::closeEvent(event);
}

void MainWindow::saveState() {
  QJsonObject state;
  state["side_bar"] = m_sideBarWanted;
  state["inspector"] = m_inspectorWanted;
  state["tab"] = m_inspector->currentTab();
  state["conversation"] = m_chat->session() ? m_chat->session()->conversation().uuid : QString();
  m_services.settings.setViewState("window", saveGeometry());
  m_services.settings.setViewState("panels", QJsonDocument(state).toJson(QJsonDocument::Compact));
  m_services.settings.setViewState("drafts", m_chat->composer()->saveDrafts());
  m_services.settings.sync();
}

void MainWindow::restoreState() {
  if (!restoreGeometry(m_services.settings.viewState("window"))) resize(1440, 900);
  const QJsonObject state =
      QJsonDocument::fromJson(m_services.settings.viewState("panels")).object();
  m_sideBarWanted = state["side_bar"].toBool(true);
  m_inspectorWanted = state["inspector"].toBool(true);
  m_inspector->showTab(state["tab"].toString());
  m_chat->composer()->restoreDrafts(m_services.settings.viewState("drafts"));
  if (const auto last = m_services.store.conversationByUuid(state["conversation"].toString());
      last && !last->trashed.isValid()) {
    openConversation(last->id);
  } else {
    newChat();
  }
  arrange();
}

}  // namespace vitrine::ui

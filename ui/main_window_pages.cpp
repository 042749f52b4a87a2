// The window's pages, how each is reached, and the keys.
#include <QShortcut>
#include <QStackedWidget>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/studio/profile_list.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/transcript.h"
#include "ui/compare/compare_page.h"
#include "ui/composer/composer.h"
#include "ui/context/context_dialog.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/lab/lab_page.h"
#include "ui/main_window.h"
#include "ui/models/model_opener.h"
#include "ui/models/models_page.h"
#include "ui/precision/range_guard.h"
#include "ui/replay/replay_page.h"
#include "ui/sidebar/side_bar.h"
#include "ui/studio/studio_page.h"
#include "ui/topbar/top_bar.h"

namespace vitrine::ui {

// A page: made here, added to the middle, with an entry of the side bar.
void MainWindow::addPages() {
  m_modelsPage = new ModelsPage(m_services.engine, m_services.settings, *m_opener,
                                m_services.paths.models, m_middle);
  connect(m_modelsPage, &ModelsPage::closeWanted, this, &MainWindow::closePage);
  m_comparePage = new ComparePage(m_services.engine, m_services.settings, m_middle);
  connect(m_comparePage, &ComparePage::closeWanted, this, &MainWindow::closePage);
  m_profiles = new app::studio::ProfileList(m_services.paths.calibration(), this);
  m_replayPage = new ReplayPage(m_services.engine, m_services.store, *m_profiles, m_middle);
  connect(m_replayPage, &ReplayPage::closeWanted, this, &MainWindow::closePage);
  connect(m_replayPage, &ReplayPage::compareWanted, this, [this] { openPage(m_comparePage); });
  connect(m_comparePage, &ComparePage::replayWanted, this, [this] { openPage(m_replayPage); });
  m_middle->addWidget(m_replayPage);
  m_labPage = new LabPage(m_services.engine, m_services.settings,
                          m_services.paths.data + QStringLiteral("/lab"), m_middle);
  connect(m_labPage, &LabPage::closeWanted, this, &MainWindow::closePage);
  m_studioPage = new StudioPage(m_services.engine, m_services.settings, m_services.store,
                                m_services.paths.calibration(), m_middle);
  connect(m_studioPage, &StudioPage::closeWanted, this, &MainWindow::closePage);
  connect(m_replayPage, &ReplayPage::studioWanted, this, &MainWindow::openStudio);
  for (QWidget* page : {static_cast<QWidget*>(m_modelsPage), static_cast<QWidget*>(m_comparePage),
                        static_cast<QWidget*>(m_labPage), static_cast<QWidget*>(m_studioPage)}) {
    m_middle->addWidget(page);
  }
  m_sideBar->addEntry(tr("Lab"), tr("measure the trade-offs"), [this] { openPage(m_labPage); });
  m_sideBar->addEntry(tr("Studio"), tr("calibrate INT8"), [this] { openStudio(); });
  m_sideBar->addEntry(tr("Compare"), QStringLiteral("Ctrl+Shift+K"),
                      [this] { openPage(m_comparePage); });
  m_sideBar->addEntry(tr("Models"), QStringLiteral("Ctrl+L"), [this] { openModelsPage(); });
  m_sideBar->addEntry(tr("Settings"), QStringLiteral("Ctrl+,"), [this] { openSettings(); });
}

/// Calibration profiles can be chosen in the inspector, and layers that leave one are told of.
void MainWindow::guardRanges() {
  m_inspector->setProfiles(m_profiles);
  m_rangeGuard = new RangeGuard(m_services.engine, m_services.settings, *m_profiles, m_chatPlace);
}

void MainWindow::noteLoadFailure(const std::filesystem::path& path, const QString& message, bool) {
  openModelsPage();
  m_modelsPage->showFailure(path, message);
}

bool MainWindow::isModelsPageShown() const {
  return m_middle->currentWidget() == m_modelsPage;
}

bool MainWindow::isChatShown() const {
  return m_middle->currentWidget() == m_chat;
}

void MainWindow::openPage(QWidget* page) {
  m_middle->setCurrentWidget(page);
  page->setFocus();
  arrange();
}

void MainWindow::openStudio() {
  openPage(m_studioPage);
}

void MainWindow::openModelsPage() {
  openPage(m_modelsPage);
}

void MainWindow::closePage() {
  if (isChatShown()) return;
  m_middle->setCurrentWidget(m_chat);
  m_chat->composer()->focusInput();
  arrange();
}

void MainWindow::openContextDialog() {
  auto* dialog = new ContextDialog(m_chat->session(), m_chat->composer()->draft(),
                                   m_services.engine, m_services.settings, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &ContextDialog::rowChosen, m_chat->transcript(), &Transcript::showRow);
  dialog->open();
}

void MainWindow::buildShortcuts() {
  const auto key = [this](const QKeySequence& sequence, auto action) {
    auto* shortcut = new QShortcut(sequence, this);
    connect(shortcut, &QShortcut::activated, this, action);
  };
  key(Qt::CTRL | Qt::Key_N, [this] { newChat(); });
  key(Qt::CTRL | Qt::Key_K, [this] {
    setSideBarWanted(true);
    m_sideBar->focusSearch();
  });
  key(Qt::CTRL | Qt::Key_F, [this] { m_chat->openFind(); });
  key(Qt::CTRL | Qt::Key_B, [this] { setSideBarWanted(!isSideBarShown()); });
  key(Qt::CTRL | Qt::Key_I, [this] { setInspectorWanted(!isInspectorShown()); });
  key(Qt::CTRL | Qt::SHIFT | Qt::Key_L, [this] { openPage(m_labPage); });
  key(Qt::CTRL | Qt::SHIFT | Qt::Key_S, [this] { openStudio(); });
  key(Qt::CTRL | Qt::Key_L, [this] { m_topBar->openModelMenu(); });
  key(Qt::CTRL | Qt::Key_O, [this] { m_opener->openWithDialog(this); });
  key(Qt::CTRL | Qt::Key_R, [this] { m_chat->regenerateLast(); });
  key(Qt::CTRL | Qt::SHIFT | Qt::Key_E, [this] { m_chat->editLast(); });
  key(Qt::CTRL | Qt::SHIFT | Qt::Key_C, [this] { m_chat->copyLastAnswer(); });
  key(Qt::CTRL | Qt::SHIFT | Qt::Key_P, [this] { m_chat->transcript()->togglePin(); });
  key(Qt::CTRL | Qt::SHIFT | Qt::Key_K, [this] { openPage(m_comparePage); });
  key(Qt::CTRL | Qt::Key_Comma, [this] { openSettings(); });
  key(Qt::CTRL | Qt::Key_Slash, [this] { openSettings("keys"); });
  key(Qt::CTRL | Qt::Key_Plus, [this] { zoom(1); });
  key(Qt::CTRL | Qt::Key_Equal, [this] { zoom(1); });
  key(Qt::CTRL | Qt::Key_Minus, [this] { zoom(-1); });
  key(Qt::CTRL | Qt::Key_0, [this] { zoom(0); });
  key(Qt::Key_F2, [this] { m_sideBar->renameCurrent(); });
  key(QKeySequence::Quit, [this] { close(); });
}

}  // namespace vitrine::ui

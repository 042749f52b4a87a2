#pragma once

#include <QMainWindow>
#include <QPointer>
#include <filesystem>

#include "app/store/conversation_types.h"
#include "ui/services.h"

class QFrame;
class QStackedWidget;
class QThread;
class QToolButton;

namespace vitrine::app {
class ChatSession;
class LocalServer;
namespace studio {
class ProfileList;
}
}  // namespace vitrine::app

namespace vitrine::ui {

class ChatView;
class ComparePage;
class ExportMenu;
class InspectorPanel;
class LabPage;
class ModelOpener;
class ModelsPage;
class RangeGuard;
class ReplayPage;
class SideBar;
class StudioPage;
class TopBar;

/// The window: top bar (52 px), side bar (248 px), the chat, inspector (364 px). A narrow window
/// hides the inspector first, then the side bar; what the person hid stays hidden.
class MainWindow final : public QMainWindow {
  Q_OBJECT
 public:
  /// Requires: what `services` refers to outlives the window.
  explicit MainWindow(Services services, QWidget* parent = nullptr);
  ~MainWindow() override;

  /// What a start does after the window is on screen: opens this model, or the last one, or the
  /// only one in the model folder.
  void openFirstModel(const std::filesystem::path& wanted);
  void openModel(const std::filesystem::path& path);
  /// Chats from a file (JSON, JSONL); says what came of it.
  void importChats(const QString& file);

  void openConversation(app::ConversationId id);
  void newChat();
  /// Shows the message that holds this position of a branch's cached history.
  void openMessage(const QString& conversation, const QString& branch, int position);

  ChatView* chat() const { return m_chat; }
  SideBar* sideBar() const { return m_sideBar; }
  InspectorPanel* inspector() const { return m_inspector; }
  TopBar* topBar() const { return m_topBar; }
  ModelsPage* modelsPage() const { return m_modelsPage; }
  LabPage* labPage() const { return m_labPage; }
  StudioPage* studioPage() const { return m_studioPage; }
  ComparePage* comparePage() const { return m_comparePage; }
  ReplayPage* replayPage() const { return m_replayPage; }
  RangeGuard* rangeGuard() const { return m_rangeGuard; }
  bool isModelsPageShown() const;
  /// Shows a page in place of the chat; Escape, its closeWanted() or opening a chat ends it.
  void openPage(QWidget* page);

  void setSideBarWanted(bool wanted);
  void setInspectorWanted(bool wanted);
  bool isSideBarShown() const;
  bool isInspectorShown() const;

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void closeEvent(QCloseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  bool event(QEvent* event) override;

 private:
  void keepArchive();
  void emptyOldTrash();
  void buildLayout();
  void addPages();
  void guardRanges();
  void buildShortcuts();
  void connectParts();
  void applySettings();
  void applyTheme();
  void arrange();
  void showSession(app::ChatSession* session);
  void updateTitle();
  void updateContext();
  void tellWhyNoGpu();
  void openSettings(const QString& page = {});
  void noteLoadFailure(const std::filesystem::path& path, const QString& message, bool kept);
  void exportConversation(app::ConversationId id);
  void openModelsPage();
  void openStudio();
  void openContextDialog();
  void closePage();
  bool isChatShown() const;
  void chooseChatFile();
  void zoom(int step);
  void saveState();
  void restoreState();

  Services m_services;
  QPointer<QThread> m_modelSearch;  ///< looks for the model of a first start
  QFrame* m_topBarPlace = nullptr;
  QFrame* m_sideBarPlace = nullptr;
  QFrame* m_chatPlace = nullptr;
  QFrame* m_inspectorPlace = nullptr;
  QStackedWidget* m_middle = nullptr;
  QToolButton* m_sideBarButton = nullptr;
  QToolButton* m_inspectorButton = nullptr;
  TopBar* m_topBar = nullptr;
  SideBar* m_sideBar = nullptr;
  ChatView* m_chat = nullptr;
  InspectorPanel* m_inspector = nullptr;
  ModelOpener* m_opener = nullptr;
  ModelsPage* m_modelsPage = nullptr;
  LabPage* m_labPage = nullptr;
  StudioPage* m_studioPage = nullptr;
  ComparePage* m_comparePage = nullptr;
  ReplayPage* m_replayPage = nullptr;
  ExportMenu* m_exportMenu = nullptr;
  app::LocalServer* m_server = nullptr;
  app::studio::ProfileList* m_profiles = nullptr;
  RangeGuard* m_rangeGuard = nullptr;
  bool m_sideBarWanted = true;
  bool m_inspectorWanted = true;
  bool m_inspectorFirst = false;  ///< asked for in a narrow window: it goes before the side bar
};

}  // namespace vitrine::ui

#pragma once

#include <QMainWindow>

class QFrame;

namespace vitrine::ui {

/// The window: top bar (52 px), side bar (248 px), the chat, inspector (364 px). A narrow window
/// hides the inspector first, then the side bar; what the person hid stays hidden.
class MainWindow final : public QMainWindow {
  Q_OBJECT
 public:
  explicit MainWindow(QWidget* parent = nullptr);

  /// The places that other parts fill; the window owns what it is given.
  void setTopBar(QWidget* topBar);
  void setInspector(QWidget* inspector);

  void setSideBarWanted(bool wanted);
  void setInspectorWanted(bool wanted);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void applyTheme();
  void arrange();

  QFrame* m_topBarPlace = nullptr;
  QFrame* m_sideBarPlace = nullptr;
  QFrame* m_chatPlace = nullptr;
  QFrame* m_inspectorPlace = nullptr;
  bool m_sideBarWanted = true;
  bool m_inspectorWanted = true;
};

}  // namespace vitrine::ui

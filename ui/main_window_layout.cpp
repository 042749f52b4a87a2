// How the window is put together and how its parts share the room.
#include <QFrame>
#include <QGridLayout>
#include <QPainter>
#include <QStackedWidget>
#include <QToolButton>

#include "app/server/local_server.h"
#include "app/settings.h"
#include "ui/chat/chat_view.h"
#include "ui/common/drawn_icon.h"
#include "ui/export/export_menu.h"
#include "ui/inspector/inspector_panel.h"
#include "ui/main_window.h"
#include "ui/models/model_opener.h"
#include "ui/sidebar/side_bar.h"
#include "ui/theme/theme.h"
#include "ui/topbar/top_bar.h"

namespace vitrine::ui {

namespace {

constexpr int kTopBarHeight = 52;
constexpr int kSideBarWidth = 248;
constexpr int kInspectorWidth = 364;
constexpr int kNarrowestChat = 480;  // the chat keeps at least this; then panels go

QFrame* makePlace(QWidget* parent, const QString& name) {
  auto* place = new QFrame(parent);
  place->setObjectName(name);
  place->setProperty("kind", "panel");
  auto* layout = new QHBoxLayout(place);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  return place;
}

QFrame* makeLine(QWidget* parent, Qt::Orientation orientation) {
  auto* line = new QFrame(parent);
  line->setProperty("kind", "line");
  if (orientation == Qt::Horizontal) {
    line->setFixedHeight(1);
  } else {
    line->setFixedWidth(1);
  }
  return line;
}

/// A window with one of its sides filled: the sign for showing and hiding it.
QIcon sideIcon(bool left) {
  return drawnIcon([left](QPainter& painter, int side) {
    const QRectF frame(1.5, 2.5, side - 3.0, side - 5.0);
    painter.setPen(QPen(Theme::instance().tokens().muted, 1.3));
    painter.drawRoundedRect(frame, 2.5, 2.5);
    const double x =
        left ? frame.left() + frame.width() * 0.36 : frame.right() - frame.width() * 0.36;
    painter.drawLine(QPointF(x, frame.top()), QPointF(x, frame.bottom()));
  });
}

}  // namespace

void MainWindow::buildLayout() {
  auto* centre = new QWidget(this);
  auto* grid = new QGridLayout(centre);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setSpacing(0);
  m_topBarPlace = makePlace(centre, "topBarPlace");
  m_sideBarPlace = makePlace(centre, "sideBarPlace");
  m_chatPlace = makePlace(centre, "chatPlace");
  m_inspectorPlace = makePlace(centre, "inspectorPlace");
  grid->addWidget(m_topBarPlace, 0, 0, 1, 3);
  grid->addWidget(makeLine(centre, Qt::Horizontal), 1, 0, 1, 3);
  grid->addWidget(m_sideBarPlace, 2, 0);
  grid->addWidget(m_chatPlace, 2, 1);
  grid->addWidget(m_inspectorPlace, 2, 2);
  grid->setColumnStretch(1, 1);
  grid->setRowStretch(2, 1);
  setCentralWidget(centre);

  m_topBar = new TopBar(m_services.engine, m_services.settings, m_topBarPlace);
  m_topBarPlace->layout()->addWidget(m_topBar);
  m_sideBar = new SideBar(m_services.store, m_services.pool, m_services.engine, m_sideBarPlace);
  m_sideBarPlace->layout()->addWidget(m_sideBar);
  m_sideBarPlace->layout()->addWidget(makeLine(m_sideBarPlace, Qt::Vertical));
  m_middle = new QStackedWidget(m_chatPlace);
  m_chatPlace->layout()->addWidget(m_middle);
  m_chat = new ChatView(m_services, m_middle);
  m_middle->addWidget(m_chat);
  m_opener = new ModelOpener(m_services.engine, m_services.settings, this);
  addPages();
  m_exportMenu = new ExportMenu(m_services.store, this);
  m_server = new app::LocalServer(m_services.engine, m_services.settings, this);
  m_inspectorPlace->layout()->addWidget(makeLine(m_inspectorPlace, Qt::Vertical));
  m_inspector = new InspectorPanel(m_services.engine, m_services.settings, m_inspectorPlace);
  m_inspectorPlace->layout()->addWidget(m_inspector);
  guardRanges();

  const auto sideButton = [this](const QString& name) {
    auto* button = new QToolButton(m_chatPlace);
    button->setAccessibleName(name);
    button->setToolTip(name);
    button->setFocusPolicy(Qt::TabFocus);
    return button;
  };
  m_sideBarButton = sideButton(tr("Show or hide the chats (Ctrl+B)"));
  m_inspectorButton = sideButton(tr("Show or hide the inspector (Ctrl+I)"));
  connect(m_sideBarButton, &QToolButton::clicked, this,
          [this] { setSideBarWanted(!isSideBarShown()); });
  connect(m_inspectorButton, &QToolButton::clicked, this,
          [this] { setInspectorWanted(!isInspectorShown()); });
}

void MainWindow::setSideBarWanted(bool wanted) {
  m_sideBarWanted = wanted;
  if (wanted) m_inspectorFirst = false;
  arrange();
}

void MainWindow::setInspectorWanted(bool wanted) {
  m_inspectorWanted = wanted;
  m_inspectorFirst = wanted;
  arrange();
}

bool MainWindow::isSideBarShown() const {
  return !m_sideBarPlace->isHidden();
}

bool MainWindow::isInspectorShown() const {
  return !m_inspectorPlace->isHidden();
}

void MainWindow::applyTheme() {
  const Theme& theme = Theme::instance();
  m_topBarPlace->setFixedHeight(theme.px(kTopBarHeight));
  m_sideBarPlace->setFixedWidth(theme.px(kSideBarWidth));
  m_inspectorPlace->setFixedWidth(theme.px(kInspectorWidth));
  for (QToolButton* button : {m_sideBarButton, m_inspectorButton}) {
    button->setIcon(sideIcon(button == m_sideBarButton));
    button->setIconSize(QSize(theme.px(16), theme.px(16)));
    button->setFixedSize(theme.px(28), theme.px(28));
  }
  arrange();
}

void MainWindow::arrange() {
  const Theme& theme = Theme::instance();
  int room = width() - theme.px(kNarrowestChat);
  const int sideBar = m_sideBarPlace->width();
  const int inspector = m_inspectorPlace->width();
  bool showsSideBar = false;
  bool showsInspector = false;
  const auto takeSideBar = [&] {
    showsSideBar = m_sideBarWanted && room >= sideBar;
    if (showsSideBar) room -= sideBar;
  };
  if (!m_inspectorFirst) takeSideBar();
  // A page may need all the room beside the chats.
  const bool wide = m_middle->currentWidget()->property("wide").toBool();
  showsInspector = m_inspectorWanted && !wide && room >= inspector;
  if (showsInspector) room -= inspector;
  if (m_inspectorFirst) takeSideBar();
  m_sideBarPlace->setVisible(showsSideBar);
  m_inspectorPlace->setVisible(showsInspector);
  const int chatWidth = width() - (showsSideBar ? sideBar : 0) - (showsInspector ? inspector : 0);
  const int margin = theme.px(10);
  m_sideBarButton->move(margin, margin);
  m_inspectorButton->move(chatWidth - m_inspectorButton->width() - margin - theme.px(6), margin);
  m_sideBarButton->setVisible(isChatShown());
  m_inspectorButton->setVisible(isChatShown());
  m_sideBarButton->raise();
  m_inspectorButton->raise();
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  arrange();
}

}  // namespace vitrine::ui

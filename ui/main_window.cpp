#include "ui/main_window.h"

#include <QFrame>
#include <QGridLayout>

#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

constexpr int kTopBarHeight = 52;
constexpr int kSideBarWidth = 248;
constexpr int kInspectorWidth = 364;
constexpr int kNarrowestChat = 560;  // the chat keeps at least this; then panels go

QFrame* makePlace(QWidget* parent) {
  auto* place = new QFrame(parent);
  place->setProperty("kind", "panel");
  auto* layout = new QVBoxLayout(place);
  layout->setContentsMargins(0, 0, 0, 0);
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

}  // namespace

MainWindow::MainWindow(QWidget* parent) : QMainWindow(parent) {
  setWindowTitle(tr("Vitrine"));
  auto* centre = new QWidget(this);
  auto* grid = new QGridLayout(centre);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setSpacing(0);
  m_topBarPlace = makePlace(centre);
  m_sideBarPlace = makePlace(centre);
  m_chatPlace = makePlace(centre);
  m_inspectorPlace = makePlace(centre);
  m_sideBarPlace->layout()->addWidget(makeLine(m_sideBarPlace, Qt::Vertical));
  grid->addWidget(m_topBarPlace, 0, 0, 1, 3);
  grid->addWidget(makeLine(centre, Qt::Horizontal), 1, 0, 1, 3);
  grid->addWidget(m_sideBarPlace, 2, 0);
  grid->addWidget(m_chatPlace, 2, 1);
  grid->addWidget(m_inspectorPlace, 2, 2);
  grid->setColumnStretch(1, 1);
  grid->setRowStretch(2, 1);
  setCentralWidget(centre);
  resize(1440, 900);
  connect(&Theme::instance(), &Theme::changed, this, &MainWindow::applyTheme);
  applyTheme();
}

void MainWindow::setTopBar(QWidget* topBar) {
  m_topBarPlace->layout()->addWidget(topBar);
}

void MainWindow::setInspector(QWidget* inspector) {
  m_inspectorPlace->layout()->addWidget(inspector);
}

void MainWindow::setSideBarWanted(bool wanted) {
  m_sideBarWanted = wanted;
  arrange();
}

void MainWindow::setInspectorWanted(bool wanted) {
  m_inspectorWanted = wanted;
  arrange();
}

void MainWindow::applyTheme() {
  const Theme& theme = Theme::instance();
  m_topBarPlace->setFixedHeight(theme.px(kTopBarHeight));
  m_sideBarPlace->setFixedWidth(theme.px(kSideBarWidth));
  m_inspectorPlace->setFixedWidth(theme.px(kInspectorWidth));
  arrange();
}

void MainWindow::arrange() {
  const Theme& theme = Theme::instance();
  int left = width() - theme.px(kNarrowestChat);
  const bool sideBarFits = left >= m_sideBarPlace->width();
  if (m_sideBarWanted && sideBarFits) left -= m_sideBarPlace->width();
  const bool inspectorFits = left >= m_inspectorPlace->width();
  m_sideBarPlace->setVisible(m_sideBarWanted && sideBarFits);
  m_inspectorPlace->setVisible(m_inspectorWanted && inspectorFits);
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  arrange();
}

}  // namespace vitrine::ui

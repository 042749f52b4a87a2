#include "ui/settings/settings_dialog.h"

#include <QFrame>
#include <QHBoxLayout>
#include <QListWidget>
#include <QPushButton>
#include <QScrollArea>
#include <QStackedWidget>

#include "ui/settings/settings_pages.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

SettingsDialog::SettingsDialog(app::EngineClient& engine, app::Settings& settings,
                               app::LocalServer& server, QString standardModelFolder,
                               QWidget* parent)
    : QDialog(parent), m_list(new QListWidget(this)), m_pages(new QStackedWidget(this)) {
  setWindowTitle(tr("Settings"));
  const Theme& theme = Theme::instance();
  resize(theme.px(760), theme.px(600));
  m_list->setFixedWidth(theme.px(168));
  m_list->setAccessibleName(tr("Pages of the settings"));
  m_list->setSpacing(2);

  auto* right = new QVBoxLayout;
  right->setContentsMargins(0, 0, 0, 0);
  right->setSpacing(0);
  right->addWidget(m_pages, 1);
  auto* line = new QFrame(this);
  line->setProperty("kind", "line");
  line->setFixedHeight(1);
  right->addWidget(line);
  auto* buttons = new QHBoxLayout;
  buttons->setContentsMargins(20, 12, 20, 12);
  buttons->addStretch();
  auto* close = new QPushButton(tr("Close"), this);
  close->setDefault(true);
  connect(close, &QPushButton::clicked, this, &QDialog::accept);
  buttons->addWidget(close);
  right->addLayout(buttons);

  auto* divider = new QFrame(this);
  divider->setProperty("kind", "line");
  divider->setFixedWidth(1);
  auto* left = new QVBoxLayout;
  left->setContentsMargins(10, 16, 10, 16);
  left->addWidget(m_list);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  row->addLayout(left);
  row->addWidget(divider);
  row->addLayout(right, 1);

  addPage("general", tr("General"), new GeneralPage(settings, standardModelFolder));
  addPage("engine", tr("Engine"), new EnginePage(engine, settings));
  addPage("chats", tr("Chats"), new ChatsPage(settings));
  addPage("archive", tr("Warm resume"), new ArchivePage(engine, settings));
  addPage("sampling", tr("Sampling"), new SamplingPage(engine, settings));
  addPage("server", tr("Local server"), new ServerPage(server, settings));
  addPage("keys", tr("Keys"), new KeysPage);
  connect(m_list, &QListWidget::currentRowChanged, m_pages, &QStackedWidget::setCurrentIndex);
  m_list->setCurrentRow(0);
}

void SettingsDialog::addPage(const QString& name, const QString& title, QWidget* page) {
  auto* scroll = new QScrollArea(m_pages);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setWidget(page);
  scroll->viewport()->setAutoFillBackground(false);
  page->setAutoFillBackground(false);
  m_pages->addWidget(scroll);
  auto* item = new QListWidgetItem(title, m_list);
  item->setData(Qt::UserRole, name);
  item->setSizeHint(QSize(0, Theme::instance().px(32)));
}

void SettingsDialog::showPage(const QString& name) {
  for (int i = 0; i < m_list->count(); ++i) {
    if (m_list->item(i)->data(Qt::UserRole).toString() == name) m_list->setCurrentRow(i);
  }
}

}  // namespace vitrine::ui

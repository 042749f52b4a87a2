#include "ui/models/models_page.h"

#include <QDesktopServices>
#include <QDir>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QListView>
#include <QMimeData>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollArea>
#include <QThread>
#include <QTimer>
#include <QUrl>
#include <QVBoxLayout>

#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/models/model_details.h"
#include "ui/models/model_list.h"
#include "ui/models/model_opener.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

const char* const kModelSearch = "https://huggingface.co/models?library=gguf&sort=downloads";

// The home folder as "~", as people write it.
QString shortFolder(const QString& path) {
  const QString home = QDir::homePath();
  return path == home || path.startsWith(home + u'/') ? u'~' + path.mid(home.size())
                                                      : QDir::toNativeSeparators(path);
}

QPushButton* makeButton(const QString& text, const char* kind, QWidget* parent) {
  auto* button = new QPushButton(text, parent);
  if (*kind) button->setProperty("kind", kind);
  return button;
}

}  // namespace

ModelsPage::ModelsPage(app::EngineClient& engine, app::Settings& settings, ModelOpener& opener,
                       QString standardFolder, QWidget* parent)
    : QWidget(parent),
      m_engine(engine),
      m_settings(settings),
      m_opener(opener),
      m_standardFolder(std::move(standardFolder)),
      m_list(new ModelList(this)),
      m_watchDelay(new QTimer(this)) {
  setAccessibleName(tr("Models"));
  setAcceptDrops(true);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(32, 24, 32, 24);
  column->setSpacing(12);

  auto* head = new QHBoxLayout;
  auto* titles = new QVBoxLayout;
  titles->setSpacing(2);
  titles->addWidget(new PlainLabel(tr("Models"), LabelStyle::kTitle, this));
  m_folderLabel = new PlainLabel(LabelStyle::kMuted, this);
  m_folderLabel->setElided(Qt::ElideMiddle);
  titles->addWidget(m_folderLabel);
  head->addLayout(titles, 1);
  auto* backButton = makeButton(tr("Back to the chat"), "quiet", this);
  backButton->setObjectName("backToChat");
  connect(backButton, &QPushButton::clicked, this, &ModelsPage::closeWanted);
  head->addWidget(backButton);
  m_headButtons = new QWidget(this);
  auto* headRow = new QHBoxLayout(m_headButtons);
  headRow->setContentsMargins(0, 0, 0, 0);
  auto* folderButton = makeButton(tr("Open folder"), "quiet", m_headButtons);
  auto* changeButton = makeButton(tr("Change folder…"), "quiet", m_headButtons);
  auto* openButton = makeButton(tr("Open a GGUF file…"), "primary", m_headButtons);
  openButton->setObjectName("openFile");
  connect(folderButton, &QPushButton::clicked, this, &ModelsPage::openFolder);
  connect(changeButton, &QPushButton::clicked, this, &ModelsPage::chooseFolder);
  connect(openButton, &QPushButton::clicked, this, [this] { m_opener.openWithDialog(this); });
  headRow->addWidget(folderButton);
  headRow->addWidget(changeButton);
  headRow->addWidget(openButton);
  head->addWidget(m_headButtons);
  column->addLayout(head);

  m_faultBox = new QFrame(this);
  m_faultBox->setProperty("kind", "card");
  auto* faultRow = new QHBoxLayout(m_faultBox);
  m_fault = new PlainLabel(LabelStyle::kFault, m_faultBox);
  m_fault->setObjectName("loadFailure");
  m_fault->setWordWrap(true);
  m_fault->setTextInteractionFlags(Qt::TextSelectableByMouse);
  auto* closeFault = makeButton(tr("Close"), "quiet", m_faultBox);
  connect(closeFault, &QPushButton::clicked, m_faultBox, &QWidget::hide);
  faultRow->addWidget(m_fault, 1);
  faultRow->addWidget(closeFault, 0, Qt::AlignTop);
  m_faultBox->hide();
  column->addWidget(m_faultBox);

  m_loadingBox = new QFrame(this);
  m_loadingBox->setProperty("kind", "card");
  auto* loadingColumn = new QVBoxLayout(m_loadingBox);
  auto* loadingRow = new QHBoxLayout;
  m_loadingText = new PlainLabel(LabelStyle::kBody, m_loadingBox);
  auto* stop = makeButton(tr("Stop"), "", m_loadingBox);
  stop->setObjectName("stopLoad");
  connect(stop, &QPushButton::clicked, this, [this] { m_engine.cancelLoad(); });
  loadingRow->addWidget(m_loadingText, 1);
  loadingRow->addWidget(stop);
  m_progress = new QProgressBar(m_loadingBox);
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress of loading"));
  loadingColumn->addLayout(loadingRow);
  loadingColumn->addWidget(m_progress);
  m_loadingBox->hide();
  column->addWidget(m_loadingBox);

  m_filled = new QWidget(this);
  auto* split = new QHBoxLayout(m_filled);
  split->setContentsMargins(0, 0, 0, 0);
  m_view = new QListView(m_filled);
  m_view->setModel(m_list);
  m_view->setItemDelegate(new ModelDelegate(m_view));
  m_view->setMouseTracking(true);
  m_view->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  m_view->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  m_view->setAccessibleName(tr("Models in the folder"));
  connect(m_view->selectionModel(), &QItemSelectionModel::currentChanged, this,
          &ModelsPage::showSelected);
  const auto use = [this] {
    const app::ModelEntry* entry = m_list->entryAt(m_view->currentIndex().row());
    if (entry && entry->problem.isEmpty()) m_opener.open(entry->path);
  };
  connect(m_view, &QListView::activated, this, use);
  m_details = new ModelDetails(m_filled);
  connect(m_details, &ModelDetails::loadWanted, this, use);
  split->addWidget(m_view, 5);
  auto* detailsPlace = new QScrollArea(m_filled);
  detailsPlace->setWidgetResizable(true);
  detailsPlace->setFrameShape(QFrame::NoFrame);
  detailsPlace->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  detailsPlace->viewport()->setAutoFillBackground(false);
  detailsPlace->setWidget(m_details);
  m_details->setAutoFillBackground(false);
  split->addWidget(detailsPlace, 4);
  column->addWidget(m_filled, 1);
  m_empty = makeEmptyState();
  column->addWidget(m_empty, 1);
  m_empty->hide();

  m_watchDelay->setSingleShot(true);
  m_watchDelay->setInterval(500);
  connect(m_watchDelay, &QTimer::timeout, this, &ModelsPage::readAgain);
  connect(&m_watcher, &QFileSystemWatcher::directoryChanged, m_watchDelay,
          qOverload<>(&QTimer::start));

  const auto loadedChanged = [this] {
    const app::ModelInfoPtr info = m_engine.info();
    m_list->setLoaded(info ? std::filesystem::path(info->path) : std::filesystem::path());
    showSelected();
    showLoading();
  };
  connect(&engine, &app::EngineClient::modelLoaded, this, loadedChanged);
  connect(&engine, &app::EngineClient::modelUnloaded, this, loadedChanged);
  connect(&engine, &app::EngineClient::loadFailed, this, loadedChanged);
  connect(&engine, &app::EngineClient::loadStarted, this, [this] {
    m_faultBox->hide();
    m_progress->setValue(0);
    m_loadingText->setText(tr("Loading…"));
    showLoading();
  });
  connect(&engine, &app::EngineClient::loadProgressed, this,
          [this](quint64, const QString& stage, double fraction) {
            m_progress->setValue(int(fraction * 1000));
            const QString file = oneLine(app::displayPath(m_opener.opening().filename()), 60);
            m_loadingText->setText(file.isEmpty() ? oneLine(stage, 60)
                                                  : tr("%1: %2").arg(file, oneLine(stage, 60)));
          });
  connect(&opener, &ModelOpener::failed, this,
          [this](const std::filesystem::path& path, const QString& message) {
            showFailure(path, message);
          });
  connect(&opener, &ModelOpener::opened, this, [this] {
    if (isVisible()) emit closeWanted();
  });
  loadedChanged();
}

ModelsPage::~ModelsPage() {
  if (m_reader) {
    m_reader->disconnect(this);
    m_reader->wait();
    delete m_reader;
  }
}

QWidget* ModelsPage::makeEmptyState() {
  auto* place = new QWidget(this);
  auto* centre = new QVBoxLayout(place);
  centre->addStretch(2);
  auto* card = new QFrame(place);
  card->setProperty("kind", "card");
  card->setMaximumWidth(Theme::instance().px(580));
  auto* column = new QVBoxLayout(card);
  column->setContentsMargins(28, 24, 28, 24);
  column->setSpacing(10);
  column->addWidget(new PlainLabel(tr("A model to talk with"), LabelStyle::kTitle, card));
  auto* why = new PlainLabel(tr("Vitrine runs language models on this machine, from files in GGUF "
                                "format. There is none yet; nothing is fetched unless you ask."),
                             LabelStyle::kBody, card);
  why->setWordWrap(true);
  column->addWidget(why);
  column->addSpacing(6);

  const auto addStep = [&](const QString& heading, const QString& text) {
    column->addWidget(new PlainLabel(heading, LabelStyle::kHeading, card));
    auto* words = new PlainLabel(text, LabelStyle::kBody, card);
    words->setWordWrap(true);
    column->addWidget(words);
    auto* row = new QHBoxLayout;
    column->addLayout(row);
    column->addSpacing(6);
    return std::pair(words, row);
  };
  auto* openRow = addStep(tr("You have a file"), tr("Open it, or drop it on this window.")).second;
  auto* open = makeButton(tr("Open a GGUF file…"), "primary", card);
  open->setObjectName("openFirstFile");
  connect(open, &QPushButton::clicked, this, [this] { m_opener.openWithDialog(this); });
  openRow->addWidget(open);
  openRow->addStretch();

  const auto [folderWords, folderRow] = addStep(tr("Or put files into the model folder"), {});
  m_emptyFolder = folderWords;
  m_emptyFolder->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  auto* openFolderButton = makeButton(tr("Open folder"), "", card);
  connect(openFolderButton, &QPushButton::clicked, this, &ModelsPage::openFolder);
  auto* again = makeButton(tr("Look again"), "quiet", card);
  connect(again, &QPushButton::clicked, this, &ModelsPage::readAgain);
  folderRow->addWidget(openFolderButton);
  folderRow->addWidget(again);
  auto* change = makeButton(tr("Change folder…"), "quiet", card);
  connect(change, &QPushButton::clicked, this, &ModelsPage::chooseFolder);
  folderRow->addWidget(change);
  folderRow->addStretch();

  auto* searchRow =
      addStep(tr("You need one"),
              tr("SmolLM2-135M-Instruct (about 100 MB) answers at once on any machine: "
                 "packaging/start.sh in the source folder fetches it. Larger models answer better; "
                 "choose a file that is smaller than the free memory."))
          .second;
  auto* search = makeButton(tr("Find GGUF models in the browser"), "link", card);
  search->setToolTip(QString::fromLatin1(kModelSearch));
  connect(search, &QPushButton::clicked, this,
          [] { QDesktopServices::openUrl(QUrl(QString::fromLatin1(kModelSearch))); });
  searchRow->addWidget(search);
  searchRow->addStretch();
  auto* row = new QHBoxLayout;  // as wide as it may be, so that its words wrap as little
  row->addStretch(1);
  row->addWidget(card, 100);
  row->addStretch(1);
  centre->addLayout(row);
  centre->addStretch(3);
  return place;
}

QString ModelsPage::folder() const {
  const QString chosen = m_settings.modelFolder();
  return chosen.isEmpty() ? m_standardFolder : chosen;
}

void ModelsPage::readAgain() {
  if (m_reader) {
    m_readOnceMore = true;
    return;
  }
  const QString path = folder();
  m_folderLabel->setText(shortFolder(path));
  m_emptyFolder->setText(shortFolder(path));
  auto entries = std::make_shared<std::vector<app::ModelEntry>>();
  // The folder, and what was opened from elsewhere.
  const std::vector<std::filesystem::path> recent = m_settings.recentModels();
  m_reader = QThread::create([path, recent, entries] {
    *entries = app::findModels({path});
    for (const std::filesystem::path& file : recent) {
      std::error_code error;
      const bool known = std::any_of(entries->begin(), entries->end(), [&](const auto& entry) {
        std::error_code ignored;
        return std::filesystem::equivalent(entry.path, file, ignored);
      });
      if (!known && std::filesystem::exists(file, error)) {
        entries->push_back(app::describeModel(file));
      }
    }
  });
  connect(m_reader, &QThread::finished, this, [this, entries] {
    m_reader->deleteLater();
    m_reader = nullptr;
    takeEntries(std::move(*entries));
    emit reading(false);
    if (std::exchange(m_readOnceMore, false)) readAgain();
  });
  m_reader->start();
  emit reading(true);
}

void ModelsPage::takeEntries(std::vector<app::ModelEntry> entries) {
  const app::ModelEntry* before = m_list->entryAt(m_view->currentIndex().row());
  const std::filesystem::path chosen = before ? before->path : std::filesystem::path();
  const app::ModelInfoPtr info = m_engine.info();
  const bool any = !entries.empty();
  m_list->setEntries(std::move(entries));
  m_list->setLoaded(info ? std::filesystem::path(info->path) : std::filesystem::path());
  m_headButtons->setVisible(any);
  m_folderLabel->setVisible(any);
  m_filled->setVisible(any);
  m_empty->setVisible(!any);
  int row = m_list->rowOf(chosen);
  if (row < 0 && info) row = m_list->rowOf(info->path);
  if (any) m_view->setCurrentIndex(m_list->index(std::max(row, 0)));
  showSelected();
}

void ModelsPage::showSelected() {
  const QModelIndex current = m_view->currentIndex();
  m_details->showEntry(m_list->entryAt(current.row()),
                       current.data(ModelList::kLoadedRole).toBool());
}

void ModelsPage::showLoading() {
  m_loadingBox->setVisible(m_engine.isLoading());
}

void ModelsPage::showFailure(const std::filesystem::path& path, const QString& message) {
  m_fault->setText(
      tr("%1 did not open: %2").arg(oneLine(app::displayPath(path.filename()), 80), message));
  m_faultBox->show();
}

void ModelsPage::chooseFolder() {
  const QString chosen = QFileDialog::getExistingDirectory(this, tr("Model folder"), folder());
  if (chosen.isEmpty()) return;
  m_settings.setModelFolder(chosen);
  if (isVisible()) {
    if (!m_watcher.directories().isEmpty()) m_watcher.removePaths(m_watcher.directories());
    m_watcher.addPath(chosen);
  }
  readAgain();
}

void ModelsPage::openFolder() {
  QDir().mkpath(folder());
  QDesktopServices::openUrl(QUrl::fromLocalFile(folder()));
}

void ModelsPage::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  QDir().mkpath(folder());
  m_watcher.addPath(folder());
  readAgain();
}

void ModelsPage::hideEvent(QHideEvent* event) {
  QWidget::hideEvent(event);
  if (!m_watcher.directories().isEmpty()) m_watcher.removePaths(m_watcher.directories());
  m_watchDelay->stop();
}

void ModelsPage::dragEnterEvent(QDragEnterEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile()) {
      event->acceptProposedAction();
      return;
    }
  }
}

void ModelsPage::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls()) {
    if (!url.isLocalFile()) continue;
    event->acceptProposedAction();
    m_opener.open(app::toPath(url.toLocalFile()));
    return;
  }
}

}  // namespace vitrine::ui

#pragma once

#include <QFileSystemWatcher>
#include <QPointer>
#include <QThread>
#include <QWidget>
#include <filesystem>
#include <memory>

#include "app/model_library.h"

class QListView;
class QProgressBar;
class QPushButton;
class QTimer;

namespace vitrine::app {
class EngineClient;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

class ModelDetails;
class ModelList;
class ModelOpener;
class PlainLabel;

/// The Models page: what lies in the model folder, what each file is and needs, opening and
/// loading with progress. Without any model it says what to do, step by step. The folder is read
/// on a thread of its own, when the page is shown and when the folder changes while it is.
class ModelsPage final : public QWidget {
  Q_OBJECT
 public:
  /// `standardFolder`: the model folder where the settings name none.
  /// Requires: what is given by reference outlives it.
  ModelsPage(app::EngineClient& engine, app::Settings& settings, ModelOpener& opener,
             QString standardFolder, QWidget* parent = nullptr);
  ~ModelsPage() override;

  QString folder() const;
  bool isReading() const { return m_reader != nullptr; }
  const ModelList& models() const { return *m_list; }
  /// Shows why a file did not open.
  void showFailure(const std::filesystem::path& path, const QString& message);

 public slots:
  void readAgain();

 signals:
  void reading(bool on);
  /// The person is done here (a model was opened, or "Back to the chat").
  void closeWanted();

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  QWidget* makeEmptyState();
  void takeEntries(std::vector<app::ModelEntry> entries);
  void showSelected();
  void showLoading();
  void chooseFolder();
  void openFolder();

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  ModelOpener& m_opener;
  QString m_standardFolder;
  ModelList* m_list;
  QPointer<QThread> m_reader;
  bool m_readOnceMore = false;
  QFileSystemWatcher m_watcher;
  QTimer* m_watchDelay;

  PlainLabel* m_folderLabel;
  QWidget* m_headButtons;
  QWidget* m_faultBox;
  PlainLabel* m_fault;
  QWidget* m_loadingBox;
  PlainLabel* m_loadingText;
  QProgressBar* m_progress;
  QWidget* m_filled;
  QWidget* m_empty;
  PlainLabel* m_emptyFolder;
  QListView* m_view;
  ModelDetails* m_details;
};

}  // namespace vitrine::ui

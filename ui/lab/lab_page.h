#pragma once

#include <QWidget>

#include "app/lab/lab_runner.h"
#include "app/lab/report_writer.h"

class QPushButton;

namespace vitrine::app {
class EngineClient;
class Settings;
}  // namespace vitrine::app
namespace vitrine::app::lab {
class LabSession;
struct LabProgress;
}  // namespace vitrine::app::lab

namespace vitrine::ui {

class LabChart;
class LabTable;
class LoadForm;
class PlainLabel;
class ProgressCard;
class RecommendationCard;

/// The Lab: the trade-off table measured on the loaded model, three recommended configurations,
/// charts, and the load generator. Measuring happens on a thread and engines of the lab's own; the
/// chats keep their model and cache.
class LabPage final : public QWidget {
  Q_OBJECT
 public:
  /// `folder`: where measured rows are kept. Requires: `engine` and `settings` outlive it.
  LabPage(app::EngineClient& engine, app::Settings& settings, const QString& folder,
          QWidget* parent = nullptr);
  ~LabPage() override;

  bool isRunning() const;
  /// Measures these rows; none: all. Rows that are there already are kept unless `again`.
  void start(app::lab::Effort effort, const QStringList& rows = {}, bool again = false);
  void stop();
  /// Writes the report of all measured rows; tells what came of it.
  bool exportReport(app::lab::ReportFormat format, const QString& file);

  const app::lab::LabReport& report() const { return m_report; }
  LabTable* table() const { return m_table; }
  LoadForm* loadForm() const { return m_load; }
  RecommendationCard* card(int index) const { return m_cards[index]; }
  LabChart* throughputChart() const { return m_throughput; }
  LabChart* cacheChart() const { return m_cacheTime; }

 signals:
  void closeWanted();
  void runningChanged(bool running);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* makeHead();
  QWidget* makeCharts();
  app::lab::LabPlan plan() const;
  void takeModel();
  void refresh();
  void updateButtons();
  void updateCards();
  void updateCharts();
  void showProgress(const app::lab::LabProgress& progress);
  void startOrGoOn();
  void startLoad();
  void apply(const engine::EngineConfig& config);
  void chooseExport(app::lab::ReportFormat format);
  int missingRows(app::lab::Effort effort) const;

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  std::filesystem::path m_folder;
  app::lab::LabSession* m_session;
  app::lab::LabReport m_report;
  bool m_loadRuns = false;
  PlainLabel *m_subtitle, *m_notice, *m_chartsHint;
  QPushButton *m_export, *m_full, *m_run;
  ProgressCard* m_progress;
  LabTable* m_table;
  RecommendationCard* m_cards[3];
  LabChart *m_throughput, *m_tpot, *m_ttft, *m_cacheTime, *m_cacheTotal;
  LoadForm* m_load;
};

}  // namespace vitrine::ui

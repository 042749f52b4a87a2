#pragma once

#include <QVector>
#include <QWidget>

#include "engine/quant/calibration_profile.h"

class QLabel;
class QPushButton;
class QStackedWidget;
class QTabBar;

namespace vitrine::app {
class ConversationStore;
class EngineClient;
class Settings;
}  // namespace vitrine::app
namespace vitrine::app::studio {
struct CalibrationJob;
}

namespace vitrine::ui {

class DemoSection;
class LossSection;
class OutlierSection;
class PlainLabel;
class ProfileSection;
class ProgressCard;
class RangeSection;
class SensitivitySection;
class StudioState;

/// The Studio: what INT8 costs on the loaded model, and how to get it back. Profiles, ranges,
/// outliers, sensitivity, loss, and a demonstration that needs no model. Long work runs on a thread
/// and backends of its own; the chats keep their model and cache.
class StudioPage final : public QWidget {
  Q_OBJECT
 public:
  enum Section { kProfiles, kRanges, kOutliers, kSensitivity, kLoss, kDemo };

  /// `folder`: where profiles are kept. Requires: the others outlive it.
  StudioPage(app::EngineClient& engine, app::Settings& settings, app::ConversationStore& chats,
             const QString& folder, QWidget* parent = nullptr);
  ~StudioPage() override;

  void showSection(Section section);
  Section section() const;
  bool isRunning() const;
  /// What the wizard asks for. Requires: a model, nothing runs.
  void calibrate(app::studio::CalibrationJob job);

  StudioState& state() { return *m_state; }
  ProfileSection* profiles() const { return m_profiles; }
  RangeSection* ranges() const { return m_ranges; }
  OutlierSection* outliers() const { return m_outliers; }
  SensitivitySection* sensitivity() const { return m_sensitivity; }
  LossSection* loss() const { return m_loss; }
  DemoSection* demo() const { return m_demo; }

 signals:
  void closeWanted();

 private:
  QWidget* makeHead();
  void addSection(const QString& name, QWidget* section);
  void connectSession();
  void openWizard();
  void takeCalibration(const engine::CalibrationPtr& profile);
  void showFault(const QString& message);
  void update();

  StudioState* m_state;
  QTabBar* m_tabs;
  QStackedWidget* m_stack;
  PlainLabel *m_subtitle, *m_fault;
  ProgressCard* m_progress;
  QPushButton* m_calibrate;
  ProfileSection* m_profiles;
  RangeSection* m_ranges;
  OutlierSection* m_outliers;
  SensitivitySection* m_sensitivity;
  LossSection* m_loss;
  DemoSection* m_demo;
};

}  // namespace vitrine::ui

#pragma once

#include <QWidget>
#include <filesystem>

#include "engine/engine_types.h"

class QMenu;
class QProgressBar;
class QPushButton;

namespace vitrine::app {
class EngineClient;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

class ContextBar;
class DeviceChip;
class MenuChip;
class ModelButton;
class PlainLabel;
class SegmentedSwitch;
class ToggleSwitch;

/// The window's top bar (52 px): model, switches that take effect on the loaded model, and at the
/// right the context in use and the device. Narrow windows lose captions first, then the chips
/// that the inspector shows as well; nothing is cut.
class TopBar final : public QWidget {
  Q_OBJECT
 public:
  /// Requires: `engine` and `settings` outlive it.
  TopBar(app::EngineClient& engine, app::Settings& settings, QWidget* parent = nullptr);

 public slots:
  /// Tokens of the shown chat against the limit; 0 as limit: no model.
  void setContext(int usedTokens, int limitTokens);
  /// As a click on the model's button (Ctrl+L).
  void openModelMenu();

 signals:
  /// The person asks for the Models page.
  void modelsPageWanted();
  /// A recent model was chosen.
  void modelWanted(const std::filesystem::path& path);
  void openFileWanted();
  /// What leaves the prompt when the context is full?
  void contextWanted();

 protected:
  void resizeEvent(QResizeEvent* event) override;

 public:
  QSize minimumSizeHint() const override { return {320, 30}; }

 private:
  void showModel();
  void showConfig();
  void showProgress(const QString& stage, double fraction);
  void collapse();
  void fillModelMenu();
  void fillAttentionMenu();
  void showAttention();
  void openDeviceMenu();
  template <typename Change>
  void want(Change change);

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  bool m_filling = false;
  QVector<engine::WeightMode> m_weightModes;  ///< of the switch's choices
  ModelButton* m_model;
  QMenu* m_modelMenu;
  SegmentedSwitch* m_weights;
  SegmentedSwitch* m_kv;
  MenuChip* m_attentionChip;
  QMenu* m_attentionMenu;
  ToggleSwitch* m_reuse;
  QWidget* m_progressChip;
  PlainLabel* m_progressText;
  QProgressBar* m_progress;
  QPushButton* m_cancel;
  ContextBar* m_context;
  DeviceChip* m_device;
  QMenu* m_deviceMenu;
};

}  // namespace vitrine::ui

#pragma once

#include <QTimer>
#include <QVector>
#include <QWidget>
#include <functional>
#include <memory>
#include <vector>

#include "app/chat/engine_client.h"
#include "engine/engine_types.h"
#include "engine/quant/calibration_profile.h"

class QComboBox;
class QDoubleSpinBox;
class QGridLayout;
class QPushButton;

namespace vitrine::ui {

class KeptLayers;
class PlainLabel;
class SegmentedSwitch;

/// Every mode of weights, activations and KV cache as switches, a row each; rows appear where they
/// have a meaning, and a choice that does not go with the others is grey and says why. Shows what
/// is in force; a click only asks (configWanted).
class PrecisionForm final : public QWidget {
  Q_OBJECT
 public:
  explicit PrecisionForm(QWidget* parent = nullptr);

  /// The loaded model (null: none) and the calibration profiles that could be used with it.
  void setModel(const app::ModelInfoPtr& info, const std::shared_ptr<const engine::Model>& model,
                const std::vector<engine::CalibrationPtr>& profiles);
  /// What is in force, and what is on its way while `changing`.
  void setConfig(const engine::EngineConfig& running, const engine::EngineConfig& wanted,
                 bool changing);

 signals:
  /// A configuration in which all modes go together.
  void configWanted(const vitrine::engine::EngineConfig& config);
  /// The person wants a calibration profile to be made.
  void studioWanted();

 private:
  using Take = std::function<void(engine::EngineConfig&, int index)>;
  using Get = std::function<int(const engine::EngineConfig&)>;
  /// A row with a switch: how a choice changes a configuration, and which one it holds.
  struct Row {
    PlainLabel* name = nullptr;
    SegmentedSwitch* field = nullptr;
    QStringList texts, toolTips;
    Take take;
    Get get;
    std::vector<QString> problems = {};  ///< as last set, to leave the switch alone
  };

  void addRow(Row& row, const QString& name, const char* object, const QStringList& texts,
              const QStringList& toolTips, Take take, Get get);
  void addRows();
  QWidget* addField(const QString& name, QWidget* field);
  void showRow(Row& row);
  void showChoices();
  void showProfiles();
  void want(const std::function<void(engine::EngineConfig&)>& change);
  engine::EngineConfig with(const std::function<void(engine::EngineConfig&)>& change) const;
  QString problemWith(const engine::EngineConfig& config) const;

  app::ModelInfoPtr m_info;
  std::shared_ptr<const engine::Model> m_model;
  std::vector<engine::CalibrationPtr> m_profiles;  ///< that fit the model; newest first
  engine::EngineConfig m_running, m_wanted;
  bool m_changing = false;
  bool m_filling = false;

  QGridLayout* m_grid;
  Row m_weights, m_scales, m_activations, m_activationScales, m_outliers, m_kv, m_keys;
  PlainLabel *m_strengthName, *m_calibrationName;
  QDoubleSpinBox* m_strength;
  QTimer m_strengthSettles;  ///< single shot: a switch of the engine for the last of many steps
  QComboBox* m_calibration;
  QWidget* m_noProfile;
  KeptLayers* m_kept;
};

}  // namespace vitrine::ui

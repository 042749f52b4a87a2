#include "ui/models/model_opener.h"

#include <QFileDialog>
#include <QFileInfo>
#include <utility>

#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/text.h"

namespace vitrine::ui {
namespace {

/// Leaves out what belongs to the model for which it was chosen: the number of KV heads, matrices
/// that stay FP16, a calibration. False where there was nothing.
bool forgetModelsOwn(engine::EngineConfig& config) {
  engine::EngineConfig without = config;
  without.kvHeads = 0;
  without.precision.keep = {};
  if (config.precision.needsCalibration()) {
    without.precision = app::withoutCalibration(without.precision);
  }
  if (without == config) return false;
  config = without;
  return true;
}

}  // namespace

ModelOpener::ModelOpener(app::EngineClient& engine, app::Settings& settings, QObject* parent)
    : QObject(parent), m_engine(engine), m_settings(settings) {
  connect(&engine, &app::EngineClient::modelLoaded, this, [this](quint64 id) {
    if (id != m_request || m_opening.empty()) return;
    const std::filesystem::path path = std::exchange(m_opening, {});
    m_settings.setLastModel(path);
    emit openingChanged();
    emit opened(path);
  });
  connect(&engine, &app::EngineClient::loadFailed, this,
          [this](quint64 id, const engine::Error& error, bool kept) {
            if (id != m_request || m_opening.empty()) return;
            const std::filesystem::path path = std::exchange(m_opening, {});
            emit openingChanged();
            // The file may have become another model: the next try takes it as it is.
            engine::EngineConfig config = m_settings.engineConfig();
            if (error.code == engine::ErrorCode::kInvalidArgument && forgetModelsOwn(config)) {
              m_settings.setEngineConfig(config);
            }
            if (error.code == engine::ErrorCode::kCancelled) return;
            emit failed(path, app::toQString(error.message), kept);
          });
}

void ModelOpener::open(const std::filesystem::path& path) {
  m_opening = path;
  engine::EngineConfig config = m_settings.engineConfig();
  if (const QString problem = m_settings.calibrationProblem(); !problem.isEmpty()) {
    m_settings.setEngineConfig(config);  // told once
    emit noticed(problem);
  }
  if (path != m_settings.lastModel() && forgetModelsOwn(config)) {
    m_settings.setEngineConfig(config);
  }
  m_request = m_engine.load(path, config);
  emit openingChanged();
}

void ModelOpener::openWithDialog(QWidget* parent) {
  const auto recent = m_settings.recentModels();
  const QString folder =
      recent.empty() ? m_settings.modelFolder() : app::displayPath(recent.front().parent_path());
  const QString file = QFileDialog::getOpenFileName(
      parent, tr("Open a model"), QFileInfo(folder).isDir() ? folder : QString(),
      tr("GGUF models (*.gguf *.GGUF);;All files (*)"));
  if (!file.isEmpty()) open(app::toPath(file));
}

}  // namespace vitrine::ui

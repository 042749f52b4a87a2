#pragma once

#include <QString>
#include <QStringList>
#include <filesystem>
#include <vector>

#include "engine/model/inspect.h"
#include "engine/model/model_config.h"

namespace vitrine::app {

/// One model found on disk; a split set is one entry, named by its first part.
struct ModelEntry {
  std::filesystem::path path;
  QString name;          ///< file name as people read it, without ".gguf" and the part number
  QString quantization;  ///< "Q4_1"; empty where unknown
  QString architecture;
  quint64 bytes = 0;  ///< of all parts
  quint64 parameters = 0;
  int contextLength = 0;
  int parts = 1;
  engine::ModelConfig config;  ///< shapes; nLayers is 0 where they could not be read
  std::vector<engine::ModelInspection::WeightNeed> weightNeeds;  ///< empty where unknown
  quint64 mappedBytes = 0;  ///< of the file, what is read while running
  QString problem;          ///< not empty: why it cannot be used, in one sentence
};

/// Looks through folders (two levels deep) for model files. Reads headers only; a broken file is
/// listed with its reason, a fifo or a broken link neither hangs nor ends the search.
/// May take a while on slow disks: call it from a worker thread. Sorted by name.
std::vector<ModelEntry> findModels(const QStringList& folders);

/// One file.
ModelEntry describeModel(const std::filesystem::path& path);

}  // namespace vitrine::app

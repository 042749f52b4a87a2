#include "app/model_library.h"

#include <algorithm>
#include <regex>
#include <set>
#include <system_error>

#include "app/text.h"
#include "engine/model/inspect.h"

namespace vitrine::app {
namespace {

namespace fs = std::filesystem;
using namespace engine;

constexpr int kMaxDepth = 2;

bool hasModelSuffix(const fs::path& path) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  return suffix == ".gguf";
}

// "name-00002-of-00003" → 2; 0 where the name is of no split set.
int partNumber(const std::string& stem) {
  static const std::regex pattern("^.*-(\\d{5})-of-(\\d{5})$");
  std::smatch match;
  return std::regex_match(stem, match, pattern) ? std::stoi(match[1]) : 0;
}

QString nameOf(const fs::path& path) {
  std::string stem = path.stem().string();
  if (partNumber(stem) > 0) stem.resize(stem.size() - std::string("-00001-of-00001").size());
  return toQString(stem);
}

void search(const fs::path& folder, int depth, std::set<fs::path>& seen,
            std::vector<ModelEntry>& found) {
  std::error_code error;
  std::vector<fs::path> files;
  // Step by step: an entry that cannot be read ends neither the loop nor the search.
  for (fs::directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code entryError;
    if (it->is_directory(entryError)) {
      if (depth < kMaxDepth) search(it->path(), depth + 1, seen, found);
    } else if (hasModelSuffix(it->path())) {
      files.push_back(it->path());
    }
  }
  for (const fs::path& path : files) {
    const int part = partNumber(path.stem().string());
    if (part > 1) {
      // Shown by its first part, unless that one is missing.
      std::string first = path.string();
      const std::size_t digits = first.rfind("-of-") - 5;
      first.replace(digits, 5, "00001");
      std::error_code firstError;
      if (fs::exists(first, firstError)) continue;
    }
    std::error_code pathError;
    const fs::path real = fs::weakly_canonical(path, pathError);
    if (!seen.insert(pathError ? path : real).second) continue;
    found.push_back(describeModel(path));
  }
}

}  // namespace

ModelEntry describeModel(const fs::path& path) {
  ModelEntry entry;
  entry.path = path;
  entry.name = nameOf(path);
  const auto model = inspectModel(path);  // refuses what is no plain file
  if (!model) {
    entry.problem = toQString(model.error().message);
    std::error_code error;
    if (fs::is_regular_file(path, error)) entry.bytes = fs::file_size(path, error);
    return entry;
  }
  entry.parts = model->nParts;
  entry.bytes = model->fileBytes;
  entry.quantization = toQString(model->quantization);
  entry.architecture = toQString(model->architecture);
  entry.parameters = model->parameters;
  entry.contextLength = static_cast<int>(model->contextLength);
  entry.weightNeeds = model->weightNeeds;
  entry.mappedBytes = model->mappedBytes;
  entry.problem = toQString(model->problem);
  // All or nothing: whoever computes with the shapes divides by them.
  if (model->nLayers > 0 && model->nHeads > 0 && model->nKvHeads > 0 && model->headDim > 0) {
    entry.config.architecture = model->architecture;
    entry.config.name = model->name;
    entry.config.nLayers = model->nLayers;
    entry.config.nHeads = model->nHeads;
    entry.config.nKvHeads = model->nKvHeads;
    entry.config.headDim = model->headDim;
    entry.config.dModel = model->dModel;
    entry.config.vocabSize = model->vocabSize;
    entry.config.contextLength = entry.contextLength;
  }
  return entry;
}

std::vector<ModelEntry> findModels(const QStringList& folders) {
  std::set<fs::path> seen;
  std::vector<ModelEntry> found;
  for (const QString& folder : folders) {
    if (!folder.isEmpty()) search(toPath(folder), 0, seen, found);
  }
  std::stable_sort(found.begin(), found.end(), [](const ModelEntry& a, const ModelEntry& b) {
    return QString::compare(a.name, b.name, Qt::CaseInsensitive) < 0;
  });
  return found;
}

}  // namespace vitrine::app

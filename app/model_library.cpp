#include "app/model_library.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <system_error>

#include "app/text.h"
#include "engine/model/architecture.h"
#include "engine/model/gguf_file.h"
#include "engine/model/tensor_types.h"

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

// The type that holds most of the weights' values.
QString mainType(const GgufFile& file) {
  std::map<std::string, std::uint64_t> values;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.nDims >= 2) values[tensor.type.name] += tensor.elements();
  }
  const auto most =
      std::max_element(values.begin(), values.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == values.end() ? QString() : toQString(most->first);
}

Result<void> readHeader(const GgufFile& file, ModelEntry& entry) {
  entry.parts = file.nParts();
  entry.bytes = file.fileBytes();
  entry.quantization = mainType(file);
  for (const GgufTensor& tensor : file.tensors()) entry.parameters += tensor.elements();
  if (const auto name = file.text("general.architecture"); name && *name) {
    entry.architecture = toQString(**name);
  }
  VITRINE_ASSIGN(const Architecture* architecture, architectureOf(file));
  std::vector<std::string> warnings;
  VITRINE_ASSIGN(const ModelConfig config, readConfig(file, *architecture, warnings));
  entry.config = config;
  entry.contextLength = config.contextLength;
  if (std::string reason = unsupportedTypes(file); !reason.empty()) {
    return fail(ErrorCode::kUnsupported, "{}", reason);
  }
  if (auto weights = readWeights(file, *architecture, config, warnings); !weights) {
    return tl::unexpected(weights.error());
  }
  return {};
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
  const auto file = GgufFile::open(path);  // refuses what is no plain file
  if (!file) {
    entry.problem = toQString(file.error().message);
    std::error_code error;
    if (fs::is_regular_file(path, error)) entry.bytes = fs::file_size(path, error);
    return entry;
  }
  if (const auto read = readHeader(**file, entry); !read) {
    entry.problem = toQString(read.error().message);
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

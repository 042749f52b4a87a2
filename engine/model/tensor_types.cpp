#include "engine/model/tensor_types.h"

#include <algorithm>
#include <map>

#include "engine/base/result.h"
#include "engine/model/gguf_file.h"

namespace vitrine::engine {

std::string commonestMatrixType(const GgufFile& file) {
  std::map<std::string, std::uint64_t> elements;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.nDims >= 2) elements[tensor.type.name] += tensor.elements();
  }
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? "?" : most->first;
}

std::string unsupportedTypes(const GgufFile& file) {
  std::map<std::string, int> counts;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!tensor.type.runnable) ++counts[tensor.type.name];
  }
  if (counts.empty()) return {};
  std::string types;
  for (const auto& [name, count] : counts) {
    types += fmt::format("{}{} ({} tensor{})", types.empty() ? "" : ", ", name, count,
                         count == 1 ? "" : "s");
  }
  return fmt::format(
      "the weight type{} {} {} not supported yet; F32, F16, BF16, Q8_0, Q4_0 and Q4_1 "
      "are",
      counts.size() == 1 ? "" : "s", types, counts.size() == 1 ? "is" : "are");
}

}  // namespace vitrine::engine

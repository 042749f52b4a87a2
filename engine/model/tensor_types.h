#pragma once

#include <string>

namespace vitrine::engine {

class GgufFile;

/// The type that holds most elements of a file's matrices, as people name files: "Q4_1".
std::string commonestMatrixType(const GgufFile& file);

/// Empty, or the sentence why tensors of this file cannot be computed with ("… Q4_K …").
std::string unsupportedTypes(const GgufFile& file);

}  // namespace vitrine::engine

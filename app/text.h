#pragma once

#include <QString>
#include <filesystem>
#include <string>
#include <string_view>

// Between the engine's UTF-8 and the window's QString; between QString and paths of any bytes.

namespace vitrine::app {

inline QString toQString(std::string_view utf8) {
  return QString::fromUtf8(utf8.data(), static_cast<qsizetype>(utf8.size()));
}
inline std::string toUtf8(const QString& text) {
  return text.toStdString();
}

/// A path as people read it; bytes that are no UTF-8 show as U+FFFD.
inline QString displayPath(const std::filesystem::path& path) {
  return toQString(path.string());
}
inline std::filesystem::path toPath(const QString& path) {
  return std::filesystem::path(path.toStdString());
}

}  // namespace vitrine::app

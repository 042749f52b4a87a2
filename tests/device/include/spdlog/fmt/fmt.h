// Where spdlog is not there: the standard library's formatting under the names that the engine
// uses (std::format, GCC 13).
#pragma once

#include <format>

namespace fmt {

using std::format;
template <typename... Args>
using format_string = std::format_string<Args...>;

}  // namespace fmt

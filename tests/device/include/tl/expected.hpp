// Where Debian's libexpected-dev is not there: the standard library's, under the name that the
// engine uses (std::expected, C++23).
#pragma once

#include <expected>

namespace tl {

using std::expected;
using std::unexpected;

}  // namespace tl

#pragma once

namespace vitrine::device {

/// INT8 forms that the table of operations does not have, against plain integers on the host: one
/// scale a row, static scales, outlier columns. Prints what differs.
struct Int8Checks {
  int ran = 0;
  int failed = 0;
};
Int8Checks checkInt8Forms();

}  // namespace vitrine::device

#pragma once

#include <QString>

#include "engine/base/result.h"

namespace vitrine::app {

/// Moves a damaged database aside (never deletes it), copies every conversation and message that
/// can still be read into a new file of the same name, and returns a sentence that says so.
/// Requires: nobody in this process has the file open.
engine::Result<QString> repairDatabase(const QString& file);

}  // namespace vitrine::app

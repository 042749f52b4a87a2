#pragma once

#include <QString>

namespace vitrine::app {

/// Names one open store of one running process ("pid:start time:serial"). A message that is
/// "streaming" carries its writer's name; when that writer is gone, the message was interrupted.
QString registerWriter();
void unregisterWriter(const QString& writer);
/// Whether that store is still open, in this process or another one.
bool isWriterAlive(const QString& writer);

}  // namespace vitrine::app

#include "app/store/live_writers.h"

#include <QCoreApplication>
#include <QFile>
#include <QSet>
#include <QStringList>
#include <mutex>

namespace vitrine::app {
namespace {

std::mutex g_mutex;
QSet<QString> g_writers;  // of this process; guarded by g_mutex
int g_serial = 0;         // guarded by g_mutex

// When a process started, in clock ticks since the boot: tells a process from a later one that
// was given the same number. Empty: there is no such process (or no /proc, then nobody else lives).
QString startTime(const QString& pid) {
  QFile file(QStringLiteral("/proc/%1/stat").arg(pid));
  if (!file.open(QIODevice::ReadOnly)) return {};
  const QByteArray line = file.readAll();
  // The second field is the program's name in parentheses and may hold anything; count after it.
  const QList<QByteArray> fields = line.mid(line.lastIndexOf(')') + 2).split(' ');
  return fields.size() > 19 ? QString::fromLatin1(fields[19]) : QString();
}

QString thisProcess() {
  const QString pid = QString::number(QCoreApplication::applicationPid());
  return pid + QLatin1Char(':') + startTime(pid);
}

}  // namespace

QString registerWriter() {
  const std::lock_guard lock(g_mutex);
  const QString writer = thisProcess() + QLatin1Char(':') + QString::number(++g_serial);
  g_writers.insert(writer);
  return writer;
}

void unregisterWriter(const QString& writer) {
  const std::lock_guard lock(g_mutex);
  g_writers.remove(writer);
}

bool isWriterAlive(const QString& writer) {
  const QStringList parts = writer.split(QLatin1Char(':'));
  if (parts.size() != 3) return false;
  if (parts[0] + QLatin1Char(':') + parts[1] == thisProcess()) {
    const std::lock_guard lock(g_mutex);
    return g_writers.contains(writer);
  }
  const QString started = startTime(parts[0]);
  return !started.isEmpty() && started == parts[1];
}

}  // namespace vitrine::app

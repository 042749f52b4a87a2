#pragma once

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QStringList>

/// One run of vitrine-cli and what came of it.
struct CliResult {
  int exitCode = -1;
  bool crashed = false;
  QByteArray out, err;

  QJsonObject json() const { return QJsonDocument::fromJson(out).object(); }
  QJsonArray jsonArray() const { return QJsonDocument::fromJson(out).array(); }
  /// One object a line.
  QList<QJsonObject> jsonLines() const {
    QList<QJsonObject> lines;
    for (const QByteArray& line : out.split('\n')) {
      if (!line.trimmed().isEmpty()) lines << QJsonDocument::fromJson(line).object();
    }
    return lines;
  }
};

inline CliResult runCli(const QStringList& arguments, const QByteArray& input = {},
                        const QStringList& environment = {}) {
  QProcess process;
  QProcessEnvironment variables = QProcessEnvironment::systemEnvironment();
  for (const QString& pair : environment) {
    variables.insert(pair.section('=', 0, 0), pair.section('=', 1));
  }
  process.setProcessEnvironment(variables);
  process.start(VITRINE_CLI, arguments);
  process.write(input);
  process.closeWriteChannel();
  CliResult result;
  if (!process.waitForFinished(240'000)) {
    process.kill();
    process.waitForFinished();
    result.err = "vitrine-cli did not end within 240 s";
    return result;
  }
  result.exitCode = process.exitCode();
  result.crashed = process.exitStatus() == QProcess::CrashExit;
  result.out = process.readAllStandardOutput();
  result.err = process.readAllStandardError();
  return result;
}

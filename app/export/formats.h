#pragma once

#include <QByteArray>
#include <QJsonObject>
#include <QString>
#include <vector>

#include "app/chat/turn_metrics.h"
#include "app/export/exporter.h"

// The writers behind exporter.h, one a format.

namespace vitrine::app::exporting {

QByteArray toMarkdown(const ExportDocument& document);
QByteArray toHtml(const ExportDocument& document);
QByteArray toJsonDocument(const ExportDocument& document);
QByteArray toJsonl(const ExportDocument& document);
QByteArray toShareGpt(const ExportDocument& document);
engine::Result<QByteArray> toPdf(const ExportDocument& document);

/// One message as people read it in an export: the system prompt first, then the path.
struct Turn {
  Role role = Role::kUser;
  QString text;
  QString speaker;  ///< "User", "Assistant", "System prompt"
  QDateTime time;   ///< invalid: not known
  QString model;
  TurnMetrics metrics;
  QString note;  ///< "stopped", or why it failed; empty for the usual
};
std::vector<Turn> turnsOf(const ExportDocument& document);
/// "12 reused · 40 prefilled · 128 generated · TTFT 120 ms · TPOT 9.1 ms"; empty where not known.
QString figuresOf(const TurnMetrics& metrics);
QString titleOf(const ExportDocument& document);

/// A stretch of a message: prose, or one fenced code block with its fence lines.
struct Segment {
  bool code = false;
  QString text;
};
/// Cuts at top-level fences, as CommonMark closes them; joined, the segments give the text.
std::vector<Segment> splitFences(const QString& text);

/// "\r\n" and "\r" become "\n"; characters that text formats cannot hold become visible signs.
QString printable(const QString& text);

}  // namespace vitrine::app::exporting

#include "app/export/exporter.h"

#include <QCoreApplication>
#include <QLocale>
#include <QRegularExpression>
#include <QSaveFile>
#include <algorithm>
#include <unordered_map>

#include "app/export/formats.h"
#include "app/store/conversation_store.h"
#include "app/text.h"

namespace vitrine::app {

using engine::ErrorCode;
using engine::Result;

namespace {

struct FormatWords {
  ExportFormat format;
  const char* word;
  const char* suffix;
};
constexpr FormatWords kFormats[] = {
    {ExportFormat::kMarkdown, "md", "md"},    {ExportFormat::kJson, "json", "json"},
    {ExportFormat::kJsonl, "jsonl", "jsonl"}, {ExportFormat::kShareGpt, "sharegpt", "json"},
    {ExportFormat::kHtml, "html", "html"},    {ExportFormat::kPdf, "pdf", "pdf"},
};

QString tr(const char* text) {
  return QCoreApplication::translate("Export", text);
}

}  // namespace

QString nameOf(ExportFormat format) {
  for (const auto& entry : kFormats) {
    if (entry.format == format) return QLatin1String(entry.word);
  }
  return {};
}

std::optional<ExportFormat> exportFormatFromString(const QString& word) {
  for (const auto& entry : kFormats) {
    if (word == QLatin1String(entry.word)) return entry.format;
  }
  return std::nullopt;
}

QString fileSuffix(ExportFormat format) {
  for (const auto& entry : kFormats) {
    if (entry.format == format) return QLatin1String(entry.suffix);
  }
  return {};
}

QString suggestedFileName(const Conversation& conversation, ExportFormat format) {
  static const QRegularExpression refused(
      QStringLiteral("[\\x00-\\x1f\\x7f/\\\\:*?\"<>|\\x{202a}-\\x{202e}\\x{2066}-\\x{2069}]"));
  QString name = conversation.title;
  name = name.replace(refused, QStringLiteral(" ")).simplified();
  // Not hidden, and no way up.
  while (name.startsWith(QLatin1Char('.')) || name.startsWith(QLatin1Char(' '))) name.remove(0, 1);
  // File systems count bytes (255), and the ending needs room.
  while (name.toUtf8().size() > 120) name.chop(1);
  if (!name.isEmpty() && name.back().isHighSurrogate()) name.chop(1);
  name = name.trimmed();
  if (name.isEmpty()) name = QStringLiteral("chat");
  return name + QLatin1Char('.') + fileSuffix(format);
}

Result<ExportDocument> loadForExport(const ConversationStore& store, ConversationId id) {
  ExportDocument document;
  VITRINE_ASSIGN(document.conversation, store.conversation(id));
  document.tree = store.messages(id);
  std::unordered_map<MessageId, const Message*> byId;
  for (const Message& message : document.tree) byId.emplace(message.id, &message);
  auto at = byId.find(document.conversation.activeLeaf);
  if (at == byId.end() && !document.tree.empty()) at = byId.find(document.tree.back().id);
  for (; at != byId.end(); at = byId.find(at->second->parent)) {
    document.path.push_back(*at->second);
  }
  std::reverse(document.path.begin(), document.path.end());
  return document;
}

Result<QByteArray> exportBytes(const ExportDocument& document, ExportFormat format) {
  switch (format) {
    case ExportFormat::kMarkdown:
      return exporting::toMarkdown(document);
    case ExportFormat::kJson:
      return exporting::toJsonDocument(document);
    case ExportFormat::kJsonl:
      return exporting::toJsonl(document);
    case ExportFormat::kShareGpt:
      return exporting::toShareGpt(document);
    case ExportFormat::kHtml:
      return exporting::toHtml(document);
    case ExportFormat::kPdf:
      return exporting::toPdf(document);
  }
  return engine::fail(ErrorCode::kInvalidArgument, "unknown export format");
}

Result<void> exportToFile(const ExportDocument& document, ExportFormat format,
                          const QString& file) {
  VITRINE_ASSIGN(const QByteArray bytes, exportBytes(document, format));
  QSaveFile out(file);
  if (!out.open(QIODevice::WriteOnly) || out.write(bytes) != bytes.size() || !out.commit()) {
    return engine::fail(ErrorCode::kIo, "cannot write {}: {}", toUtf8(file),
                        toUtf8(out.errorString()));
  }
  return {};
}

namespace exporting {

std::vector<Turn> turnsOf(const ExportDocument& document) {
  std::vector<Turn> turns;
  if (!document.conversation.systemPrompt.isEmpty()) {
    turns.push_back(
        {Role::kSystem, document.conversation.systemPrompt, tr("System prompt"), {}, {}, {}, {}});
  }
  for (const Message& message : document.path) {
    Turn turn;
    turn.role = message.role;
    turn.text = message.text;
    turn.speaker = message.role == Role::kUser        ? tr("User")
                   : message.role == Role::kAssistant ? tr("Assistant")
                                                      : tr("System");
    turn.time = message.created;
    turn.model = message.model;
    turn.metrics = turnMetricsFromJson(message.metrics);
    switch (message.state) {
      case MessageState::kComplete:
        break;
      case MessageState::kStreaming:
        turn.note = tr("still being written");
        break;
      case MessageState::kStopped:
        turn.note = tr("stopped");
        break;
      case MessageState::kFailed:
        turn.note = tr("failed: %1").arg(message.error);
        break;
    }
    turns.push_back(std::move(turn));
  }
  return turns;
}

QString figuresOf(const TurnMetrics& metrics) {
  if (!metrics.known()) return {};
  const engine::TurnReport& r = metrics.report;
  const QLocale c = QLocale::c();
  QStringList parts{tr("%1 reused").arg(r.reusedTokens), tr("%1 prefilled").arg(r.prefilledTokens),
                    tr("%1 generated").arg(r.generatedTokens),
                    tr("TTFT %1 ms").arg(c.toString(r.ttftMs, 'f', 0))};
  if (r.tpotMs > 0) parts << tr("TPOT %1 ms").arg(c.toString(r.tpotMs, 'f', 1));
  if (!r.weights.empty()) {
    parts << tr("%1 weights, %2 KV").arg(toQString(r.weights), toQString(r.kvType));
    if (!r.precision.empty()) parts << toQString(r.precision);
  }
  return parts.join(QStringLiteral(" · "));
}

QString titleOf(const ExportDocument& document) {
  const QString title = document.conversation.title.simplified();
  return title.isEmpty() ? tr("Chat") : title;
}

QString printable(const QString& text) {
  QString result = text;
  result.replace(QLatin1String("\r\n"), QLatin1String("\n"));
  result.replace(QLatin1Char('\r'), QLatin1Char('\n'));
  for (QChar& c : result) {
    // U+2400 has a picture of every control character.
    if (c.unicode() < 0x20 && c != QLatin1Char('\n') && c != QLatin1Char('\t')) {
      c = QChar(0x2400 + c.unicode());
    }
  }
  return result;
}

std::vector<Segment> splitFences(const QString& text) {
  static const QRegularExpression fence(QStringLiteral("^ {0,3}(`{3,}|~{3,})([^\\n]*)$"));
  std::vector<Segment> segments;
  const auto add = [&](bool code, const QString& line, bool startsNew) {
    if (segments.empty() || startsNew || segments.back().code != code) {
      segments.push_back({code, {}});
    }
    segments.back().text += line;
  };
  QString open;  // the fence that is open
  qsizetype at = 0;
  while (at < text.size()) {
    qsizetype end = text.indexOf(QLatin1Char('\n'), at);
    const qsizetype next = end < 0 ? text.size() : end + 1;
    if (end < 0) end = text.size();
    const QString line = text.mid(at, end - at);
    const QString whole = text.mid(at, next - at);
    const QRegularExpressionMatch match = fence.match(line);
    const QString marks = match.captured(1);
    if (open.isEmpty()) {
      // An info string after backticks holds no backtick, else it is inline code.
      const bool opens = match.hasMatch() && (marks.startsWith(QLatin1Char('~')) ||
                                              !match.captured(2).contains(QLatin1Char('`')));
      if (opens) open = marks;
      add(opens, whole, opens);
    } else {
      add(true, whole, false);
      if (match.hasMatch() && marks.front() == open.front() && marks.size() >= open.size() &&
          match.captured(2).trimmed().isEmpty()) {
        open.clear();
        if (next < text.size()) segments.push_back({false, {}});
      }
    }
    at = next;
  }
  std::erase_if(segments, [](const Segment& segment) { return segment.text.isEmpty(); });
  return segments;
}

}  // namespace exporting
}  // namespace vitrine::app

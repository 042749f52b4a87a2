#include <QCoreApplication>
#include <QLocale>

#include "app/export/formats.h"

namespace vitrine::app::exporting {
namespace {

QString tr(const char* text) {
  return QCoreApplication::translate("Export", text);
}

QString escaped(const QString& text) {
  return printable(text).toHtmlEscaped();
}

// One file, nothing outside it: the policy forbids scripts and every request. The colours have the
// meaning they have in the window: teal reused, amber prefilled, violet generated.
constexpr char kHead[] = R"(<!DOCTYPE html>
<html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%1</title>
<style>
:root { --bg: #f6f7f9; --panel: #ffffff; --line: #e2e6eb; --text: #1c2127; --muted: #626c7a;
  --reused: #0f9488; --prefilled: #c17d10; --generated: #6d5bd6; --fault: #cf4860;
  color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --bg: #101317; --panel: #161a20; --line: #272d36;
  --text: #e7eaef; --muted: #8d96a5; --reused: #2fc4b2; --prefilled: #e8a93f;
  --generated: #9b87f5; --fault: #f07a8c; } }
body { margin: 0; background: var(--bg); color: var(--text);
  font: 15px/1.55 Inter, "Noto Sans", "Noto Sans CJK SC", system-ui, sans-serif; }
main { max-width: 720px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 22px; line-height: 1.3; overflow-wrap: anywhere; }
.about, .figures { color: var(--muted); font-size: 13px; }
.turn { background: var(--panel); border: 1px solid var(--line); border-radius: 7px;
  padding: 12px 16px; margin: 14px 0; }
.turn.user { border-left: 3px solid var(--muted); }
.turn.system { border-style: dashed; }
.who { font-size: 13px; font-weight: 600; color: var(--muted); margin-bottom: 6px; }
.text, .code { font-variant-ligatures: none; font-feature-settings: "calt" 0; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4; }
.code { white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4; margin: 8px 0;
  padding: 10px 12px; background: var(--bg); border: 1px solid var(--line); border-radius: 7px;
  font: 13px/1.5 "JetBrains Mono", ui-monospace, monospace; }
.bar { display: flex; height: 5px; margin: 12px 0 5px; border-radius: 3px; overflow: hidden; }
.reused { background: var(--reused); } .prefilled { background: var(--prefilled); }
.generated { background: var(--generated); }
.key { display: inline-block; width: 9px; height: 9px; margin: 0 4px 0 10px; border-radius: 2px; }
.note { color: var(--fault); font-size: 13px; }
@media print { body { background: #fff; } .turn { break-inside: avoid-page; } }
</style></head><body><main>
)";

// The text as it was typed: every character, line breaks and leading spaces; code blocks in a
// monospaced box, with their fences.
QString body(const QString& text) {
  QString html;
  for (const Segment& segment : splitFences(printable(text))) {
    QString shown = segment.text;
    if (shown.endsWith(QLatin1Char('\n')) && segment.code) shown.chop(1);
    // A line break right after <pre> would be swallowed: a div has no such rule.
    html += QStringLiteral("<div class=\"%1\" dir=\"auto\">")
                .arg(segment.code ? QLatin1String("code") : QLatin1String("text"));
    html += shown.toHtmlEscaped() + QStringLiteral("</div>\n");
  }
  return html;
}

QString bar(const TurnMetrics& metrics) {
  const engine::TurnReport& r = metrics.report;
  const double all = r.reusedTokens + r.prefilledTokens + r.generatedTokens;
  if (!metrics.known() || all <= 0) return {};
  QString html = QStringLiteral("<div class=\"bar\" role=\"img\" aria-label=\"") +
                 figuresOf(metrics).toHtmlEscaped() + QStringLiteral("\">");
  const auto part = [&](const char* name, int tokens) {
    html += QStringLiteral("<span class=\"%1\" style=\"width:%2%\"></span>")
                .arg(QLatin1String(name), QLocale::c().toString(100.0 * tokens / all, 'f', 2));
  };
  part("reused", r.reusedTokens);
  part("prefilled", r.prefilledTokens);
  part("generated", r.generatedTokens);
  return html + QStringLiteral("</div>\n<div class=\"figures\">") +
         figuresOf(metrics).toHtmlEscaped() + QStringLiteral("</div>\n");
}

}  // namespace

QByteArray toHtml(const ExportDocument& document) {
  const std::vector<Turn> turns = turnsOf(document);
  const QString title = escaped(titleOf(document));
  // Not arg(): the head has no other place marks, but the title may hold "%1" itself.
  QString html = QString::fromUtf8(kHead);
  html.replace(html.indexOf(QLatin1String("%1")), 2, title);
  html +=
      QStringLiteral("<h1 dir=\"auto\">") + title + QStringLiteral("</h1>\n<p class=\"about\">");
  html += document.conversation.created.toUTC().toString(Qt::ISODate).toHtmlEscaped();
  html += QStringLiteral(" · Vitrine " VITRINE_VERSION "</p>\n<p class=\"figures\">");
  for (const auto& [name, words] :
       {std::pair{"reused", tr("reused")}, std::pair{"prefilled", tr("prefilled")},
        std::pair{"generated", tr("generated")}}) {
    html += QStringLiteral("<span class=\"key %1\"></span>").arg(QLatin1String(name)) +
            words.toHtmlEscaped();
  }
  html += QStringLiteral("</p>\n");
  for (const Turn& turn : turns) {
    html +=
        QStringLiteral("<section class=\"turn %1\">\n<div class=\"who\">").arg(nameOf(turn.role));
    html += escaped(turn.speaker);
    if (!turn.model.isEmpty()) html += QStringLiteral(" · ") + escaped(turn.model);
    html += QStringLiteral("</div>\n") + body(turn.text);
    if (!turn.note.isEmpty()) {
      html +=
          QStringLiteral("<div class=\"note\">") + escaped(turn.note) + QStringLiteral("</div>\n");
    }
    html += bar(turn.metrics) + QStringLiteral("</section>\n");
  }
  html += QStringLiteral("</main></body></html>\n");
  return html.toUtf8();
}

}  // namespace vitrine::app::exporting

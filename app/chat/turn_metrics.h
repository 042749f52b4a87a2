#pragma once

#include <QJsonObject>
#include <QMetaType>
#include <QString>

#include "engine/engine_types.h"

namespace vitrine::app {

/// The figures of one answered turn as they are kept with its message: the engine's report
/// (without text and ids, which the message holds), what the window adds, and what it takes to
/// run the same turn again (the receipt).
struct TurnMetrics {
  engine::TurnReport report;
  double beforeRequestMs = 0;  ///< send pressed to the engine's queue: the question is stored
  double firstPaintMs = 0;     ///< send pressed to first text on screen; 0: not seen
  QString model;               ///< as the file calls itself
  QString modelFingerprint;
  QString quantization;
  int contextTokens = 0;  ///< limit in force
  QJsonObject sampling;   ///< as used, the seed included

  /// False for an answer without figures (imported, or cut by a crash).
  bool known() const { return report.promptTokens > 0; }
  /// Tokens of the context that are taken after this turn.
  int contextUsed() const { return report.promptTokens + report.generatedTokens; }
};

/// Field names as `vitrine-cli run --json` has them ("reused_tokens", "ttft_ms", …); what is one a
/// token or a step is written shorter.
QJsonObject toJson(const TurnMetrics& metrics);
/// Whatever is missing or of another kind keeps its default.
TurnMetrics turnMetricsFromJson(const QJsonObject& json);

}  // namespace vitrine::app

Q_DECLARE_METATYPE(vitrine::app::TurnMetrics)

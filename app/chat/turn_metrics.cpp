#include "app/chat/turn_metrics.h"

#include <QJsonArray>
#include <algorithm>

#include "app/text.h"

namespace vitrine::app {
namespace {

using namespace engine;

StopReason stopReasonFrom(const QString& word) {
  for (const StopReason reason :
       {StopReason::kStopText, StopReason::kLength, StopReason::kContext, StopReason::kCancelled}) {
    if (word == QLatin1String(nameOf(reason))) return reason;
  }
  return StopReason::kEnd;
}

ReuseCause reuseCauseFrom(const QString& word) {
  for (const ReuseCause cause : {ReuseCause::kNew, ReuseCause::kChanged, ReuseCause::kEvicted,
                                 ReuseCause::kPrecision, ReuseCause::kOff}) {
    if (word == QLatin1String(nameOf(cause))) return cause;
  }
  return ReuseCause::kNone;
}

// A letter a token: an answer of 2,000 tokens takes 2 KB.
constexpr char kCauseLetters[] = {'-', 'p', 'b', 'r', 's'};

QString causeLetters(const std::vector<StallCause>& causes) {
  QString letters;
  letters.reserve(static_cast<qsizetype>(causes.size()));
  for (const StallCause cause : causes) {
    letters += QLatin1Char(kCauseLetters[static_cast<std::size_t>(cause) % 5]);
  }
  return letters;
}

std::vector<StallCause> causesFrom(const QString& letters) {
  std::vector<StallCause> causes;
  for (const QChar letter : letters) {
    const auto* found = std::find(std::begin(kCauseLetters), std::end(kCauseLetters), letter);
    causes.push_back(found == std::end(kCauseLetters)
                         ? StallCause::kNone
                         : static_cast<StallCause>(found - std::begin(kCauseLetters)));
  }
  return causes;
}

// Three decimals are a microsecond, and keep the stored text short.
double rounded(double value) {
  return static_cast<double>(qRound64(value * 1000.0)) / 1000.0;
}

int intOf(const QJsonObject& json, const char* name) {
  return static_cast<int>(qBound(-2e9, json.value(QLatin1String(name)).toDouble(), 2e9));
}
std::uint64_t bytesOf(const QJsonObject& json, const char* name) {
  const double value = json.value(QLatin1String(name)).toDouble();
  return value > 0 && value < 1e18 ? static_cast<std::uint64_t>(value) : 0;
}
double numberOf(const QJsonObject& json, const char* name) {
  return json.value(QLatin1String(name)).toDouble();
}
std::string textOf(const QJsonObject& json, const char* name) {
  return toUtf8(json.value(QLatin1String(name)).toString());
}

}  // namespace

QJsonObject toJson(const TurnMetrics& metrics) {
  const TurnReport& r = metrics.report;
  const auto bytes = [](std::uint64_t value) { return static_cast<double>(value); };
  QJsonObject json;
  json[QLatin1String("stop_reason")] = QLatin1String(nameOf(r.stopReason));
  json[QLatin1String("prompt_tokens")] = r.promptTokens;
  json[QLatin1String("reused_tokens")] = r.reusedTokens;
  json[QLatin1String("prefilled_tokens")] = r.prefilledTokens;
  json[QLatin1String("generated_tokens")] = r.generatedTokens;
  json[QLatin1String("dropped_messages")] = r.droppedMessages;
  if (!r.dropped.empty()) {
    QJsonArray dropped;
    for (const int message : r.dropped) dropped.append(message);
    json[QLatin1String("dropped")] = dropped;
  }
  json[QLatin1String("seed")] = QString::number(r.seed);
  json[QLatin1String("ttft_ms")] = rounded(r.ttftMs);
  if (metrics.firstPaintMs > 0) {
    json[QLatin1String("first_paint_ms")] = rounded(metrics.firstPaintMs);
  }
  if (metrics.beforeRequestMs > 0) {
    json[QLatin1String("before_request_ms")] = rounded(metrics.beforeRequestMs);
  }
  if (r.forecastTtftMs >= 0) json[QLatin1String("forecast_ttft_ms")] = rounded(r.forecastTtftMs);
  json[QLatin1String("tpot_ms")] = rounded(r.tpotMs);
  json[QLatin1String("tpot_p50_ms")] = rounded(r.tpotP50Ms);
  json[QLatin1String("tpot_p95_ms")] = rounded(r.tpotP95Ms);
  json[QLatin1String("prefill_tps")] = rounded(r.prefillTps);
  json[QLatin1String("decode_tps")] = rounded(r.decodeTps);
  json[QLatin1String("bytes_per_token")] = r.bandwidthBytesPerToken;
  json[QLatin1String("ttft_parts_ms")] =
      QJsonObject{{QStringLiteral("render"), rounded(r.ttft.render)},
                  {QStringLiteral("tokenize"), rounded(r.ttft.tokenize)},
                  {QStringLiteral("match"), rounded(r.ttft.match)},
                  {QStringLiteral("queue"), rounded(r.ttft.queue)},
                  {QStringLiteral("restore"), rounded(r.ttft.restore)},
                  {QStringLiteral("prefill"), rounded(r.ttft.prefill)},
                  {QStringLiteral("sample"), rounded(r.ttft.sample)},
                  {QStringLiteral("detokenize"), rounded(r.ttft.detokenize)}};
  if (!r.chunks.empty()) {
    QJsonArray chunks;  // [tokens, milliseconds, tokens of others]
    for (const PrefillChunk& chunk : r.chunks) {
      chunks.append(QJsonArray{chunk.tokens, rounded(chunk.milliseconds), chunk.othersTokens});
    }
    json[QLatin1String("chunks")] = chunks;
  }
  json[QLatin1String("reuse_cause")] = QLatin1String(nameOf(r.reuse.cause));
  json[QLatin1String("reuse_reason")] = toQString(r.reuse.reason);
  if (!r.reuse.cachedText.empty() || !r.reuse.promptText.empty()) {
    json[QLatin1String("reuse_difference")] =
        QJsonObject{{QStringLiteral("position"), r.reuse.firstNewPosition},
                    {QStringLiteral("cached"), toQString(r.reuse.cachedText)},
                    {QStringLiteral("prompt"), toQString(r.reuse.promptText)}};
  }
  if (r.restore.tokens > 0) {
    json[QLatin1String("restore")] =
        QJsonObject{{QStringLiteral("tokens"), r.restore.tokens},
                    {QStringLiteral("bytes"), bytes(r.restore.bytes)},
                    {QStringLiteral("ms"), rounded(r.restore.milliseconds)},
                    {QStringLiteral("recompute_ms"), rounded(r.restore.recomputeMs)},
                    {QStringLiteral("restored"), r.restore.restored}};
  }
  json[QLatin1String("kv")] =
      QJsonObject{{QStringLiteral("bytes_used"), bytes(r.kv.bytesUsed)},
                  {QStringLiteral("bytes_reserved"), bytes(r.kv.bytesReserved)},
                  {QStringLiteral("bytes_formula"), bytes(r.kv.bytesFormula)},
                  {QStringLiteral("blocks_used"), r.kv.blocksUsed},
                  {QStringLiteral("blocks_total"), r.kv.blocksTotal},
                  {QStringLiteral("block_size"), r.kv.blockSize}};
  QJsonArray tokenMs;
  for (const float ms : r.tokenMs) tokenMs.append(rounded(ms));
  json[QLatin1String("token_ms")] = tokenMs;
  const auto stalls = [](StallCause cause) { return cause != StallCause::kNone; };
  if (std::any_of(r.tokenCauses.begin(), r.tokenCauses.end(), stalls)) {
    json[QLatin1String("token_causes")] = causeLetters(r.tokenCauses);
  }
  if (!r.tokenRows.empty()) {
    // One position a token is how a cache works: ones at the end are left out.
    auto end = r.tokenRows.end();
    while (end != r.tokenRows.begin() && *(end - 1) == 1) --end;
    QJsonArray rows;
    for (auto row = r.tokenRows.begin(); row != end; ++row) rows.append(*row);
    json[QLatin1String("token_rows")] = rows;
  }
  json[QLatin1String("backend")] = toQString(r.backend);
  json[QLatin1String("weights")] = toQString(r.weights);
  json[QLatin1String("activations")] = toQString(r.activations);
  json[QLatin1String("kv_type")] = toQString(r.kvType);
  if (!r.precision.empty()) json[QLatin1String("precision")] = toQString(r.precision);
  json[QLatin1String("model")] = metrics.model;
  json[QLatin1String("model_fingerprint")] = metrics.modelFingerprint;
  json[QLatin1String("quantization")] = metrics.quantization;
  json[QLatin1String("context_tokens")] = metrics.contextTokens;
  json[QLatin1String("sampling")] = metrics.sampling;
  return json;
}

TurnMetrics turnMetricsFromJson(const QJsonObject& json) {
  TurnMetrics metrics;
  TurnReport& r = metrics.report;
  r.stopReason = stopReasonFrom(json.value(QLatin1String("stop_reason")).toString());
  r.promptTokens = intOf(json, "prompt_tokens");
  r.reusedTokens = intOf(json, "reused_tokens");
  r.prefilledTokens = intOf(json, "prefilled_tokens");
  r.generatedTokens = intOf(json, "generated_tokens");
  r.droppedMessages = intOf(json, "dropped_messages");
  const QJsonArray dropped = json.value(QLatin1String("dropped")).toArray();
  for (const QJsonValue message : dropped) r.dropped.push_back(message.toInt(-1));
  r.seed = json.value(QLatin1String("seed")).toString().toULongLong();
  r.ttftMs = numberOf(json, "ttft_ms");
  metrics.firstPaintMs = numberOf(json, "first_paint_ms");
  metrics.beforeRequestMs = numberOf(json, "before_request_ms");
  const QJsonValue forecast = json.value(QLatin1String("forecast_ttft_ms"));
  if (forecast.isDouble()) r.forecastTtftMs = forecast.toDouble();
  r.tpotMs = numberOf(json, "tpot_ms");
  r.tpotP50Ms = numberOf(json, "tpot_p50_ms");
  r.tpotP95Ms = numberOf(json, "tpot_p95_ms");
  r.prefillTps = numberOf(json, "prefill_tps");
  r.decodeTps = numberOf(json, "decode_tps");
  r.bandwidthBytesPerToken = numberOf(json, "bytes_per_token");
  const QJsonObject parts = json.value(QLatin1String("ttft_parts_ms")).toObject();
  const auto part = [&](const char* name) { return static_cast<float>(numberOf(parts, name)); };
  r.ttft = {part("render"),  part("tokenize"), part("match"),  part("queue"),
            part("restore"), part("prefill"),  part("sample"), part("detokenize")};
  r.reuse.reusedTokens = r.reuse.firstNewPosition = r.reusedTokens;
  r.reuse.cause = reuseCauseFrom(json.value(QLatin1String("reuse_cause")).toString());
  r.reuse.reason = textOf(json, "reuse_reason");
  const QJsonObject difference = json.value(QLatin1String("reuse_difference")).toObject();
  if (!difference.isEmpty()) {
    r.reuse.firstNewPosition = intOf(difference, "position");
    r.reuse.cachedText = textOf(difference, "cached");
    r.reuse.promptText = textOf(difference, "prompt");
  }
  const QJsonArray chunks = json.value(QLatin1String("chunks")).toArray();
  for (const QJsonValue value : chunks) {
    const QJsonArray chunk = value.toArray();
    r.chunks.push_back(
        {chunk.at(0).toInt(), static_cast<float>(chunk.at(1).toDouble()), chunk.at(2).toInt()});
  }
  const QJsonObject restore = json.value(QLatin1String("restore")).toObject();
  r.restore = {intOf(restore, "tokens"), bytesOf(restore, "bytes"), numberOf(restore, "ms"),
               numberOf(restore, "recompute_ms"),
               restore.value(QLatin1String("restored")).toBool()};
  const QJsonObject kv = json.value(QLatin1String("kv")).toObject();
  r.kv.bytesUsed = bytesOf(kv, "bytes_used");
  r.kv.bytesReserved = bytesOf(kv, "bytes_reserved");
  r.kv.bytesFormula = bytesOf(kv, "bytes_formula");
  r.kv.blocksUsed = intOf(kv, "blocks_used");
  r.kv.blocksTotal = intOf(kv, "blocks_total");
  r.kv.blockSize = intOf(kv, "block_size");
  const QJsonArray tokenMs = json.value(QLatin1String("token_ms")).toArray();
  for (const QJsonValue ms : tokenMs) r.tokenMs.push_back(static_cast<float>(ms.toDouble()));
  r.tokenCauses = causesFrom(json.value(QLatin1String("token_causes")).toString());
  const QJsonValue rows = json.value(QLatin1String("token_rows"));
  if (rows.isArray()) {
    for (const QJsonValue row : rows.toArray()) r.tokenRows.push_back(row.toInt());
    if (r.tokenRows.size() < r.tokenMs.size()) r.tokenRows.resize(r.tokenMs.size(), 1);
  }
  r.backend = textOf(json, "backend");
  r.weights = textOf(json, "weights");
  r.activations = textOf(json, "activations");
  r.kvType = textOf(json, "kv_type");
  r.precision = textOf(json, "precision");
  metrics.model = json.value(QLatin1String("model")).toString();
  metrics.modelFingerprint = json.value(QLatin1String("model_fingerprint")).toString();
  metrics.quantization = json.value(QLatin1String("quantization")).toString();
  metrics.contextTokens = intOf(json, "context_tokens");
  metrics.sampling = json.value(QLatin1String("sampling")).toObject();
  return metrics;
}

}  // namespace vitrine::app

#include "app/chat/turn_metrics.h"

#include <QJsonArray>

#include "app/text.h"

namespace vitrine::app {
namespace {

using namespace engine;

StopReason stopReasonFrom(const QString& word) {
  for (const StopReason reason :
       {StopReason::kStopText, StopReason::kLength, StopReason::kContext, StopReason::kCancelled}) {
    if (word == QLatin1String(toString(reason))) return reason;
  }
  return StopReason::kEnd;
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
  json[QLatin1String("stop_reason")] = QLatin1String(toString(r.stopReason));
  json[QLatin1String("prompt_tokens")] = r.promptTokens;
  json[QLatin1String("reused_tokens")] = r.reusedTokens;
  json[QLatin1String("prefilled_tokens")] = r.prefilledTokens;
  json[QLatin1String("generated_tokens")] = r.generatedTokens;
  json[QLatin1String("dropped_messages")] = r.droppedMessages;
  json[QLatin1String("seed")] = QString::number(r.seed);
  json[QLatin1String("ttft_ms")] = rounded(r.ttftMs);
  if (metrics.firstPaintMs > 0) {
    json[QLatin1String("first_paint_ms")] = rounded(metrics.firstPaintMs);
  }
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
  json[QLatin1String("reuse_reason")] = toQString(r.reuse.reason);
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
  json[QLatin1String("backend")] = toQString(r.backend);
  json[QLatin1String("weights")] = toQString(r.weights);
  json[QLatin1String("activations")] = toQString(r.activations);
  json[QLatin1String("kv_type")] = toQString(r.kvType);
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
  r.seed = json.value(QLatin1String("seed")).toString().toULongLong();
  r.ttftMs = numberOf(json, "ttft_ms");
  metrics.firstPaintMs = numberOf(json, "first_paint_ms");
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
  r.reuse.reason = textOf(json, "reuse_reason");
  const QJsonObject kv = json.value(QLatin1String("kv")).toObject();
  r.kv.bytesUsed = bytesOf(kv, "bytes_used");
  r.kv.bytesReserved = bytesOf(kv, "bytes_reserved");
  r.kv.bytesFormula = bytesOf(kv, "bytes_formula");
  r.kv.blocksUsed = intOf(kv, "blocks_used");
  r.kv.blocksTotal = intOf(kv, "blocks_total");
  r.kv.blockSize = intOf(kv, "block_size");
  const QJsonArray tokenMs = json.value(QLatin1String("token_ms")).toArray();
  for (const QJsonValue ms : tokenMs) r.tokenMs.push_back(static_cast<float>(ms.toDouble()));
  r.backend = textOf(json, "backend");
  r.weights = textOf(json, "weights");
  r.activations = textOf(json, "activations");
  r.kvType = textOf(json, "kv_type");
  metrics.model = json.value(QLatin1String("model")).toString();
  metrics.modelFingerprint = json.value(QLatin1String("model_fingerprint")).toString();
  metrics.quantization = json.value(QLatin1String("quantization")).toString();
  metrics.contextTokens = intOf(json, "context_tokens");
  metrics.sampling = json.value(QLatin1String("sampling")).toObject();
  return metrics;
}

}  // namespace vitrine::app

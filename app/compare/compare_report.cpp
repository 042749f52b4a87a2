#include <QStringList>
#include <algorithm>

#include "app/compare/compare_types.h"
#include "app/text.h"
#include "engine/quant/precision_text.h"

namespace vitrine::app {

using namespace engine;

namespace {

QString number(double value, int decimals) {
  return QString::number(value, 'f', decimals);
}

QString orderText(CompareOrder order) {
  switch (order) {
    case CompareOrder::kOneBatch:
      return QStringLiteral("Both at once, in one batch of the loaded engine.");
    case CompareOrder::kOwnBatch:
      return QStringLiteral("Both at once, in one batch of a second engine.");
    case CompareOrder::kOneAfterOther:
      return QStringLiteral("One after the other, so that neither slows the other down.");
    case CompareOrder::kTwoEngines:
      return QStringLiteral("At once on two engines, which share the processor.");
  }
  return {};
}

// In a fence that no run of backquotes in the text can close.
QString fenced(const QString& text) {
  int longest = 0;
  int run = 0;
  for (const QChar c : text) {
    run = c == QLatin1Char('`') ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const QString fence(std::max(3, longest + 1), QLatin1Char('`'));
  return fence + QStringLiteral("text\n") + text + QLatin1Char('\n') + fence + QLatin1Char('\n');
}

}  // namespace

QString configText(const EngineConfig& config, const ModelInfo* model) {
  QStringList parts;
  parts << QStringLiteral("weights %1").arg(QLatin1String(nameOf(config.precision.weights)));
  parts
      << QStringLiteral("activations %1").arg(QLatin1String(nameOf(config.precision.activations)));
  if (const std::string details = engine::precisionDetails(config.precision); !details.empty()) {
    parts << toQString(details);
  }
  parts << (config.cache.enabled
                ? QStringLiteral("KV %1").arg(QLatin1String(nameOf(config.cache.type)))
                : QStringLiteral("no KV cache"));
  const int heads = config.kvHeads > 0 ? config.kvHeads : model ? model->config.nKvHeads : 0;
  if (heads > 0) parts << QStringLiteral("%1 KV heads").arg(heads);
  return parts.join(QStringLiteral(", "));
}

QString samplingText(const SamplingParams& s) {
  if (s.temperature <= 0) return QStringLiteral("best token (temperature 0)");
  QStringList parts{QStringLiteral("temperature %1").arg(s.temperature)};
  if (s.topK > 0) parts << QStringLiteral("top-k %1").arg(s.topK);
  if (s.topP < 1) parts << QStringLiteral("top-p %1").arg(s.topP);
  if (s.minP > 0) parts << QStringLiteral("min-p %1").arg(s.minP);
  if (s.repeatPenalty != 1) parts << QStringLiteral("repeat penalty %1").arg(s.repeatPenalty);
  return parts.join(QStringLiteral(", "));
}

QString compareMarkdown(const CompareSetup& setup, const std::array<CompareAnswer, 2>& answers,
                        CompareOrder order, const FirstDifference& difference,
                        const ModelInfo* model) {
  QString out = QStringLiteral("# Comparison\n\n");
  if (model) {
    out += QStringLiteral("Model: %1 (%2), fingerprint %3\n\n")
               .arg(toQString(model->name), toQString(model->quantization),
                    toQString(model->fingerprint));
  }
  out += QStringLiteral("## Asked\n\n") + fenced(setup.question) + QLatin1Char('\n');
  if (setup.messages.size() > 1) {
    out += QStringLiteral("The last of %1 messages.\n\n").arg(setup.messages.size());
  }
  out += orderText(order) + QStringLiteral("\n\n| | A | B |\n|---|---|---|\n");
  const auto row = [&](const QString& name, auto value) {
    out += QStringLiteral("| %1 | %2 | %3 |\n").arg(name, value(0), value(1));
  };
  const auto report = [&](int side) -> const TurnReport& {
    return answers[static_cast<std::size_t>(side)].report;
  };
  row(QStringLiteral("engine"), [&](int side) {
    return configText(setup.sides[static_cast<std::size_t>(side)].config, model);
  });
  row(QStringLiteral("sampling"),
      [&](int side) { return samplingText(setup.sides[static_cast<std::size_t>(side)].sampling); });
  row(QStringLiteral("seed"), [&](int side) { return QString::number(report(side).seed); });
  row(QStringLiteral("prompt tokens (reused)"), [&](int side) {
    return QStringLiteral("%1 (%2)").arg(report(side).promptTokens).arg(report(side).reusedTokens);
  });
  row(QStringLiteral("TTFT, ms"), [&](int side) { return number(report(side).ttftMs, 1); });
  row(QStringLiteral("TPOT, ms"), [&](int side) { return number(report(side).tpotMs, 2); });
  row(QStringLiteral("tokens/s"), [&](int side) { return number(report(side).decodeTps, 1); });
  row(QStringLiteral("tokens"),
      [&](int side) { return QString::number(report(side).generatedTokens); });
  row(QStringLiteral("ended by"),
      [&](int side) { return QString::fromLatin1(nameOf(report(side).stopReason)); });
  row(QStringLiteral("weights, bytes"), [&](int side) {
    return QString::number(answers[static_cast<std::size_t>(side)].weightBytes);
  });
  row(QStringLiteral("KV, bytes a token"), [&](int side) {
    return QString::number(answers[static_cast<std::size_t>(side)].kvBytesPerToken);
  });
  out += QLatin1Char('\n');
  out +=
      difference.token >= 0
          ? QStringLiteral("The first different token is number %1.\n\n").arg(difference.token + 1)
          : QStringLiteral("Both answers are the same, token for token.\n\n");
  for (std::size_t side = 0; side < 2; ++side) {
    out += QStringLiteral("## %1\n\n").arg(side == 0 ? QLatin1Char('A') : QLatin1Char('B'));
    out += answers[side].error.isEmpty()
               ? fenced(answers[side].text)
               : QStringLiteral("No answer: %1\n").arg(answers[side].error);
    out += QLatin1Char('\n');
  }
  return out;
}

}  // namespace vitrine::app

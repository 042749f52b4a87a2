#include "app/compare/replay_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "app/text.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app {

using engine::ReplayReport;
using engine::ReplayToken;

namespace {

constexpr std::size_t kWorstTokens = 20;
constexpr int kBefore = 40;  // tokens of text before the first difference

QString number(double value, int digits = 3) {
  return QString::number(value, 'g', digits);
}

/// A token's text in quotation marks; line ends and the like as they are written in programs.
QString quoted(QString text) {
  text.replace(QLatin1Char('\n'), QStringLiteral("\\n"));
  text.replace(QLatin1Char('\t'), QStringLiteral("\\t"));
  return QStringLiteral("“%1”").arg(text);
}

QString tokenText(const engine::Tokenizer& tokenizer, engine::TokenId id) {
  return quoted(toQString(tokenizer.isControl(id) ? tokenizer.piece(id) : tokenizer.bytes(id)));
}

/// For a cell of a table.
QString cell(QString text) {
  text.replace(QLatin1Char('|'), QStringLiteral("\\|"));
  return text;
}

}  // namespace

QString replayTokenText(const studio::ReplayResult& result, int token,
                        const engine::Tokenizer& tokenizer) {
  const ReplayToken& at = result.report.tokens[static_cast<std::size_t>(token)];
  const QString best =
      at.best[0] == at.best[1]
          ? QStringLiteral("both choose %1").arg(tokenText(tokenizer, at.best[0]))
          : QStringLiteral("A chooses %1, B %2")
                .arg(tokenText(tokenizer, at.best[0]), tokenText(tokenizer, at.best[1]));
  return QStringLiteral("token %1 %2 · %3 · KL %4 · probability %5 and %6")
      .arg(token)
      .arg(tokenText(tokenizer, at.id), best, number(static_cast<double>(at.divergence)),
           number(std::exp(static_cast<double>(at.logprob[0]))),
           number(std::exp(static_cast<double>(at.logprob[1]))));
}

QString replayMarkdown(const studio::ReplayResult& result, const ReplayTitle& title,
                       const engine::Tokenizer& tokenizer) {
  const ReplayReport& report = result.report;
  QString out = QStringLiteral("# Precision A/B: %1\n\n").arg(title.conversation);
  out += QStringLiteral("Model: %1\n\n").arg(title.model);
  out += QStringLiteral(
             "The conversation (%1 tokens, %2 of them in answers) was read by both "
             "configurations.\n\n")
             .arg(report.tokens.size())
             .arg(report.scoredTokens);
  out += QStringLiteral("| | A | B |\n|---|---|---|\n");
  const auto row = [&](const QString& name, auto value) {
    out += QStringLiteral("| %1 | %2 | %3 |\n").arg(name, value(0), value(1));
  };
  const auto side = [&](int i) -> const ReplayReport::Side& {
    return report.sides[static_cast<std::size_t>(i)];
  };
  row(QStringLiteral("precision"),
      [&](int i) { return cell(title.configs[static_cast<std::size_t>(i)]); });
  row(QStringLiteral("perplexity of the answers"),
      [&](int i) { return number(side(i).perplexity, 5); });
  row(QStringLiteral("prefill of all, ms"),
      [&](int i) { return QString::number(side(i).prefillMs, 'f', 1); });
  row(QStringLiteral("decode at its end, tokens/s"),
      [&](int i) { return QString::number(side(i).decodeTps, 'f', 1); });
  row(QStringLiteral("weights, bytes"),
      [&](int i) { return QString::number(side(i).weightBytes); });
  row(QStringLiteral("KV cache, bytes"), [&](int i) { return QString::number(side(i).kvBytes); });
  out += QStringLiteral("\nKL(A ‖ B), nats a token: mean %1, p99 %2. Same best token: %3 %.\n\n")
             .arg(number(report.klMean), number(report.klP99),
                  QString::number(100 * report.top1Agreement, 'f', 2));
  if (report.firstDivergence < 0) {
    out += QStringLiteral("Both would have written the same, token for token.\n");
  } else {
    const int first = report.firstDivergence;
    QString before;
    for (int i = std::max(0, first - kBefore); i < first; ++i) {
      before += result.pieces[static_cast<std::size_t>(i)];
    }
    out += QStringLiteral("## First difference\n\nAfter:\n\n");
    for (const QString& line : before.split(QLatin1Char('\n'))) {
      out += QStringLiteral("> %1\n").arg(line);
    }
    out += QLatin1Char('\n') + replayTokenText(result, first, tokenizer) + QLatin1Char('\n');
  }

  std::vector<int> order;
  for (std::size_t i = 0; i < report.tokens.size(); ++i) {
    if (report.tokens[i].scored) order.push_back(static_cast<int>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return report.tokens[static_cast<std::size_t>(a)].divergence >
           report.tokens[static_cast<std::size_t>(b)].divergence;
  });
  order.resize(std::min(order.size(), kWorstTokens));
  out += QStringLiteral("\n## Tokens that differ most\n\n");
  out += QStringLiteral("| token | text | A's best | B's best | KL |\n|---|---|---|---|---|\n");
  for (const int i : order) {
    const ReplayToken& token = report.tokens[static_cast<std::size_t>(i)];
    out += QStringLiteral("| %1 | %2 | %3 | %4 | %5 |\n")
               .arg(i)
               .arg(cell(tokenText(tokenizer, token.id)), cell(tokenText(tokenizer, token.best[0])),
                    cell(tokenText(tokenizer, token.best[1])),
                    number(static_cast<double>(token.divergence)));
  }
  return out;
}

}  // namespace vitrine::app

#include "ui/common/cache_words.h"

#include <QCoreApplication>
#include <algorithm>

#include "ui/common/format.h"

namespace vitrine::ui {
namespace {

QString tr(const char* text) {
  return QCoreApplication::translate("CacheWords", text);
}

}  // namespace

QString reuseText(const engine::TurnReport& report) {
  const QString counts =
      tr("%1 reused, %2 computed")
          .arg(countText(report.reusedTokens), countText(report.prefilledTokens));
  const QString reason = oneLine(QString::fromStdString(report.reuse.reason), 120);
  return reason.isEmpty() ? counts : counts + QStringLiteral(": ") + reason;
}

QString restoreText(const engine::RestoreReport& restore) {
  if (restore.tokens <= 0) return {};
  const QString tokens = pluralText(restore.tokens, tr("%1 token"), tr("%1 tokens"));
  const QString read = millisecondsText(restore.milliseconds);
  const QString compute = millisecondsText(restore.recomputeMs);
  if (restore.restored) {
    return restore.recomputeMs > 0
               ? tr("restored %1 in %2 instead of ≈ %3").arg(tokens, read, compute)
               : tr("restored %1 in %2").arg(tokens, read);
  }
  return tr("%1 were on disk; computing them again is faster (≈ %2 against ≈ %3)")
      .arg(tokens, compute, read);
}

bool isNews(const engine::TurnReport& report) {
  const engine::ReuseCause cause = report.reuse.cause;
  return report.restore.tokens > 0 || cause == engine::ReuseCause::kChanged ||
         cause == engine::ReuseCause::kEvicted || cause == engine::ReuseCause::kPrecision;
}

bool holds(const engine::CacheProof& proof) {
  return proof.differentBlocks == 0 ||
         (proof.firstDifferentToken < 0 && proof.largestLogitDifference < 0.5);
}

QString proofText(const engine::CacheProof& proof) {
  QStringList words;
  if (proof.blocks == 0) {
    words << tr("nothing of this chat is cached");
  } else if (proof.differentBlocks == 0) {
    words << tr("%1 equal bit for bit")
                 .arg(pluralText(proof.blocks, tr("%1 block"), tr("%1 blocks")));
  } else {
    words << tr("%1 of %2 differ in some bits")
                 .arg(countText(proof.differentBlocks),
                      pluralText(proof.blocks, tr("%1 block"), tr("%1 blocks")));
    words << tr("logits by at most %1, KL %2 nats")
                 .arg(QString::number(proof.largestLogitDifference, 'g', 2),
                      QString::number(proof.klMean, 'g', 2));
  }
  if (proof.continuedTokens > 0) {
    words << (proof.firstDifferentToken < 0
                  ? tr("%1 continued alike")
                        .arg(pluralText(proof.continuedTokens, tr("%1 token"), tr("%1 tokens")))
                  : tr("the continuations differ from token %1 on")
                        .arg(proof.firstDifferentToken + 1));
  }
  words << tr("cold %1, cached %2")
               .arg(millisecondsText(proof.coldMs), millisecondsText(proof.cachedMs));
  return words.join(QStringLiteral("; "));
}

Difference differenceOf(const QString& before, const QString& after) {
  const qsizetype most = std::min(before.size(), after.size());
  qsizetype same = 0;
  while (same < most && before[before.size() - 1 - same] == after[after.size() - 1 - same]) ++same;
  // Not inside a character of two halves.
  if (same > 0 && before[before.size() - same].isLowSurrogate()) --same;
  return {before.chopped(same), after.chopped(same), before.right(same)};
}

}  // namespace vitrine::ui

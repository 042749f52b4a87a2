#include "ui/inspector/latency/cache_proof_view.h"

#include <QHBoxLayout>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/common/cache_words.h"
#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"

namespace vitrine::ui {

CacheProofView::CacheProofView(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  auto* row = new QHBoxLayout;
  m_button = new QPushButton(tr("Verify this chat's cache"), this);
  m_button->setObjectName("proofButton");
  row->addWidget(m_button);
  m_progress = new PlainLabel(LabelStyle::kFigureMuted, this);
  row->addWidget(m_progress, 1);
  column->addLayout(row);
  m_result = new PlainLabel(LabelStyle::kMuted, this);
  m_result->setObjectName("proofResult");
  m_result->setWordWrap(true);
  column->addWidget(m_result);
  m_figures = new FigureGrid(this);
  column->addWidget(m_figures);
  connect(m_button, &QPushButton::clicked, this, [this] {
    if (m_running) {
      emit cancelWanted();
    } else {
      emit proofWanted();
    }
  });
}

void CacheProofView::setState(const app::CacheProofState& state, bool possible, double seconds,
                              double expectedMs) {
  m_running = state.running;
  m_button->setText(state.running ? tr("Cancel") : tr("Verify this chat's cache"));
  m_button->setEnabled(state.running || possible);
  QString progress;
  if (state.running) {
    progress = tr("%1 s").arg(seconds, 0, 'f', 1);
    if (state.total > 0) {
      progress += tr(" · %1 of %2").arg(countText(state.done), countText(state.total));
    } else if (expectedMs > 0) {
      progress += tr(" of ≈ %1").arg(millisecondsText(expectedMs));
    }
  }
  m_progress->setText(progress);

  QString words;
  QVector<FigureGrid::Row> rows;
  if (state.running) {
    words =
        tr("The prompt is computed again from nothing, beside what you do; then each block "
           "and the next tokens are compared.");
  } else if (!state.error.isEmpty()) {
    words = tr("Not compared: %1").arg(state.error);
  } else if (state.cancelled) {
    words = tr("Cancelled; nothing was compared.");
  } else if (state.result) {
    const engine::CacheProof& proof = *state.result;
    words = proofText(proof);
    if (!words.isEmpty()) words[0] = words[0].toUpper();
    words += u'.';
    rows = {{tr("Positions compared"), countText(proof.tokens)},
            {tr("Blocks equal"),
             tr("%1 of %2")
                 .arg(countText(proof.blocks - proof.differentBlocks), countText(proof.blocks))},
            {tr("Largest logit difference"), QString::number(proof.largestLogitDifference, 'g', 3)},
            {tr("KL(cold ‖ cached)"), tr("%1 nats").arg(proof.klMean, 0, 'g', 3)},
            {tr("Tokens continued alike"),
             tr("%1 of %2")
                 .arg(countText(proof.firstDifferentToken < 0 ? proof.continuedTokens
                                                              : proof.firstDifferentToken),
                      countText(proof.continuedTokens))},
            {tr("Cold · cached"),
             tr("%1 · %2").arg(millisecondsText(proof.coldMs), millisecondsText(proof.cachedMs))}};
  } else {
    words =
        tr("Computes the whole prompt of this chat again without the cache and compares: every "
           "block bit by bit, and the tokens that would follow.");
  }
  m_result->setText(words);
  const bool differs = !state.running && state.result && !holds(*state.result);
  m_result->setStyle(differs || !state.error.isEmpty() ? LabelStyle::kFault : LabelStyle::kMuted);
  m_figures->setRows(rows);
  m_figures->setVisible(!rows.isEmpty());
}

QString CacheProofView::text() const {
  return m_result->text();
}

}  // namespace vitrine::ui

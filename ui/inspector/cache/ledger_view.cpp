#include "ui/inspector/cache/ledger_view.h"

#include <QVBoxLayout>
#include <cmath>

#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

LedgerView::LedgerView(QWidget* parent)
    : QWidget(parent),
      m_bar(new StackedBar(11, this)),
      m_legend(new Legend(this)),
      m_sums(new FigureGrid(this)),
      m_note(new PlainLabel(LabelStyle::kMuted, this)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  m_bar->setAccessibleName(tr("Where the memory is"));
  m_sums->setObjectName("ledgerSums");
  m_note->setWordWrap(true);
  column->addWidget(m_bar);
  column->addWidget(m_legend);
  column->addWidget(m_sums);
  column->addWidget(m_note);
}

void LedgerView::showLedger(const engine::MemoryLedger& ledger) {
  const Tokens& t = Theme::instance().tokens();
  QVector<StackedBar::Part> parts;
  QVector<Legend::Entry> legend;
  const auto add = [&](const QString& name, std::uint64_t bytes, const QColor& colour,
                       MarkPattern pattern, const QString& meaning) {
    if (bytes == 0) return;
    const QString words = meaning + u'\n' + exactBytesText(bytes);
    parts.append({name, double(bytes), colour, pattern, words});
    legend.append({name, bytesText(bytes), colour, pattern, words});
  };
  add(tr("weights"), ledger.weights, t.information, MarkPattern::kSolid,
      tr("Weights in the form that is computed with"));
  add(tr("model file"), ledger.modelFile, t.information, MarkPattern::kHatched,
      tr("Pages of the mapped file that are in memory; the system may drop them at any time"));
  add(tr("KV used"), ledger.kvUsed, t.reused, MarkPattern::kSolid,
      tr("Keys and values of the tokens that are kept"));
  add(tr("scales"), ledger.kvScales, t.reused, MarkPattern::kDotted,
      tr("Scales of the INT8 keys and values"));
  add(tr("KV waste"), ledger.kvWaste, t.reused, MarkPattern::kHatched,
      tr("Places of held blocks that no token fills yet"));
  add(tr("KV free"), ledger.kvFree, t.reused, MarkPattern::kHollow,
      tr("Free blocks that are in memory because they were written once. The pool may take %1 in "
         "all; the system gives the rest when it is first written.")
          .arg(bytesText(ledger.kvReserved)));
  add(tr("workspace"), ledger.workspace, t.generated, MarkPattern::kDotted,
      tr("Intermediate results of a step"));
  add(tr("program"), ledger.code, t.faint, MarkPattern::kSolid,
      tr("Code, libraries, fonts and other files in memory; the system may drop them"));
  add(tr("its data"), ledger.data, t.faint, MarkPattern::kDotted,
      tr("Variables of the program and its libraries"));
  add(tr("heap used"), ledger.heapUsed, t.muted, MarkPattern::kSolid,
      tr("Handed out by the allocator: the tokenizer, the chats' text, the window, its pictures"));
  add(tr("heap free"), ledger.heapFree, t.muted, MarkPattern::kHollow,
      tr("Freed, and kept by the allocator for what comes next"));
  add(tr("stacks"), ledger.stacks, t.generated, MarkPattern::kHollow,
      tr("Stacks of %1 threads").arg(ledger.threads));
  const std::int64_t residual = ledger.residual();
  if (residual > 0) {
    add(tr("unexplained"), std::uint64_t(residual), t.fault, MarkPattern::kHatched,
        tr("What the system counts and nobody here can name"));
  }
  m_bar->setParts(parts);
  m_bar->setWhole(double(ledger.rss));
  m_legend->setEntries(legend);
  const double share = ledger.rss > 0 ? std::abs(double(residual)) / double(ledger.rss) : 0;
  const QString sign = residual < 0 ? QStringLiteral("−") : QString();
  m_sums->setRows(
      ledger.known
          ? QVector<FigureGrid::
                        Row>{{tr("parts together"), bytesText(ledger.sum()),
                              exactBytesText(ledger.sum())},
                             {tr("the system says"), bytesText(ledger.rss),
                              exactBytesText(ledger.rss)},
                             {tr("residual"),
                              QStringLiteral("%1%2 · %3")
                                  .arg(sign, bytesText(quint64(std::abs(residual))),
                                       percentText(share)),
                              tr("Parts may count a little more than is in memory: the allocator "
                                 "hands out "
                                 "pages that are not written yet.")},
                             {tr("on a GPU"),
                              ledger.gpu > 0 ? bytesText(ledger.gpu) : tr("nothing"),
                              tr("Device memory is beside what the system says of the process.")}}
          : QVector<FigureGrid::Row>{});
  m_note->setText(tr("The system does not tell what this program holds."));
  m_note->setVisible(!ledger.known);
}

}  // namespace vitrine::ui

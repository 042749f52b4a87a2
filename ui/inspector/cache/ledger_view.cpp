#include "ui/inspector/cache/ledger_view.h"

#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "ui/common/figure_grid.h"
#include "ui/common/format.h"
#include "ui/common/legend.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

/// Parts of a bar and the entries of its legend, side by side.
struct Parts {
  QVector<StackedBar::Part> bar;
  QVector<Legend::Entry> legend;

  void add(const QString& name, std::uint64_t bytes, const QColor& colour, MarkPattern pattern,
           const QString& meaning) {
    if (bytes == 0) return;
    const QString words = meaning + u'\n' + exactBytesText(bytes);
    bar.append({name, double(bytes), colour, pattern, words});
    legend.append({name, bytesText(bytes), colour, pattern, words});
  }
};

QString residualText(std::int64_t residual, std::uint64_t whole) {
  const double share = whole > 0 ? std::abs(double(residual)) / double(whole) : 0;
  return QStringLiteral("%1%2 · %3")
      .arg(residual < 0 ? QStringLiteral("−") : QString(), bytesText(quint64(std::abs(residual))),
           percentText(share));
}

}  // namespace

LedgerView::LedgerView(QWidget* parent)
    : QWidget(parent), m_note(new PlainLabel(LabelStyle::kMuted, this)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(8);
  m_host = makeAccount(tr("Where the memory is"));
  m_host.sums->setObjectName("ledgerSums");
  m_note->setWordWrap(true);
  column->addWidget(m_note);
  m_deviceBox = new QWidget(this);
  m_deviceBox->setObjectName("deviceLedger");
  auto* box = new QVBoxLayout(m_deviceBox);
  box->setContentsMargins(0, 4, 0, 0);
  box->setSpacing(8);
  box->addWidget(new PlainLabel(tr("On the GPU"), LabelStyle::kMuted, m_deviceBox));
  column->addWidget(m_deviceBox);
  m_device = makeAccount(tr("Where the memory of the GPU is"));
  m_device.sums->setObjectName("deviceSums");
  for (QWidget* part : {static_cast<QWidget*>(m_device.bar), static_cast<QWidget*>(m_device.legend),
                        static_cast<QWidget*>(m_device.sums)}) {
    box->addWidget(part);
  }
  m_deviceBox->hide();
}

LedgerView::Account LedgerView::makeAccount(const QString& name) {
  const Account account{new StackedBar(11, this), new Legend(this), new FigureGrid(this)};
  account.bar->setAccessibleName(name);
  layout()->addWidget(account.bar);
  layout()->addWidget(account.legend);
  layout()->addWidget(account.sums);
  return account;
}

void LedgerView::showLedger(const engine::MemoryLedger& ledger) {
  showHost(ledger);
  m_deviceBox->setVisible(ledger.device.has_value());
  if (ledger.device) showDevice(*ledger.device);
}

void LedgerView::showHost(const engine::MemoryLedger& ledger) {
  const Tokens& t = Theme::instance().tokens();
  Parts parts;
  const auto add = [&](auto&&... part) { parts.add(part...); };
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
  add(tr("KV moved out"), ledger.kvMoved, t.reused, MarkPattern::kDotted,
      tr("Blocks of idle conversations that left the GPU, and copies of others that will leave it "
         "at once"));
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
  m_host.bar->setParts(parts.bar);
  m_host.bar->setWhole(double(ledger.rss));
  m_host.legend->setEntries(parts.legend);
  QVector<FigureGrid::Row> rows;
  if (ledger.known) {
    rows = {{tr("parts together"), bytesText(ledger.sum()), exactBytesText(ledger.sum())},
            {tr("the system says"), bytesText(ledger.rss), exactBytesText(ledger.rss)},
            {tr("residual"), residualText(residual, ledger.rss),
             tr("Parts may count a little more than is in memory: the allocator hands out pages "
                "that are not written yet.")},
            {tr("on a GPU"), ledger.gpu > 0 ? bytesText(ledger.gpu) : tr("nothing"),
             tr("Device memory is beside what the system says of the process.")}};
  }
  m_host.sums->setRows(rows);
  m_note->setText(tr("The system does not tell what this program holds."));
  m_note->setVisible(!ledger.known);
}

void LedgerView::showDevice(const engine::DeviceMemory& device) {
  const Tokens& t = Theme::instance().tokens();
  Parts parts;
  parts.add(tr("weights"), device.weights, t.information, MarkPattern::kSolid,
            tr("Weights in the form that is computed with"));
  parts.add(tr("KV used"), device.kvBlocks - std::min(device.kvBlocks, device.kvScales), t.reused,
            MarkPattern::kSolid, tr("Blocks that hold keys and values"));
  parts.add(tr("scales"), device.kvScales, t.reused, MarkPattern::kDotted,
            tr("Scales of the INT8 keys and values"));
  parts.add(tr("KV free"), device.kvFree, t.reused, MarkPattern::kHollow,
            tr("Blocks of the pool that hold nothing"));
  parts.add(tr("workspace"), device.workspace, t.generated, MarkPattern::kDotted,
            tr("Intermediate results of a step"));
  parts.add(tr("context"), device.context, t.faint, MarkPattern::kSolid,
            tr("The driver's own, for this program: its code, its queues, the kernels"));
  parts.add(tr("others"), device.others, t.muted, MarkPattern::kHatched, tr("Other programs"));
  const std::int64_t residual = device.residual();
  if (residual > 0) {
    parts.add(tr("unexplained"), std::uint64_t(residual), t.fault, MarkPattern::kHatched,
              tr("What the driver counts and nobody here can name"));
  }
  m_device.bar->setParts(parts.bar);
  m_device.bar->setWhole(double(device.total));
  m_device.legend->setEntries(parts.legend);
  const std::uint64_t used = device.total - device.free;
  const std::uint64_t sum = used - std::uint64_t(residual);
  m_device.sums->setRows(
      {{tr("parts together"), bytesText(sum), exactBytesText(sum)},
       {tr("the driver says"), tr("%1 of %2").arg(bytesText(used), bytesText(device.total)),
        exactBytesText(used)},
       {tr("residual"), residualText(residual, used),
        tr("Allocations are rounded up by the driver, and it keeps some memory for itself.")}});
}

}  // namespace vitrine::ui

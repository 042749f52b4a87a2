#include "ui/lab/load_form.h"

#include <QDoubleSpinBox>
#include <QEvent>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/lab/lab_chart.h"

namespace vitrine::ui {

using app::lab::LoadCurve;
using app::lab::LoadSpec;

QSpinBox* LoadForm::addNumber(const QString& name, int least, int most, int value) {
  auto* box = new QSpinBox(m_fields);
  box->setRange(least, most);
  box->setValue(value);
  box->setAccessibleName(name);
  box->setFocusPolicy(Qt::StrongFocus);
  box->installEventFilter(this);
  return box;
}

LoadForm::LoadForm(QWidget* parent) : QFrame(parent) {
  setProperty("kind", "card");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(16, 13, 16, 14);
  column->setSpacing(10);
  column->addWidget(new PlainLabel(tr("Load generator"), LabelStyle::kHeading, this));
  auto* words = new PlainLabel(
      tr("Synthetic chats of these lengths, drawn from a seed. Each of a number of chats asks "
         "again "
         "as soon as it has its answer; or they arrive by chance, so many a second."),
      LabelStyle::kMuted, this);
  words->setWordWrap(true);
  column->addWidget(words);

  m_fields = new QWidget(this);
  auto* grid = new QGridLayout(m_fields);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(12);
  grid->setVerticalSpacing(8);
  m_promptLeast = addNumber(tr("Shortest prompt, tokens"), 1, 100'000, 16);
  m_promptMost = addNumber(tr("Longest prompt, tokens"), 1, 100'000, 48);
  m_answerLeast = addNumber(tr("Shortest answer, tokens"), 1, 100'000, 16);
  m_answerMost = addNumber(tr("Longest answer, tokens"), 1, 100'000, 64);
  m_chats = addNumber(tr("Most chats at once"), 1, 64, 8);
  m_requests = addNumber(tr("Requests of each load"), 1, 10'000, 16);
  m_seed = addNumber(tr("Seed"), 0, 1'000'000, 1);
  m_arrivals = new QDoubleSpinBox(m_fields);
  m_arrivals->setRange(0, 1000);
  m_arrivals->setSpecialValueText(tr("off"));
  m_arrivals->setFocusPolicy(Qt::StrongFocus);
  m_arrivals->installEventFilter(this);
  m_arrivals->setAccessibleName(tr("Chats that arrive a second"));
  m_batching = new SegmentedSwitch(tr("Batching"),
                                   {{tr("Continuous"), tr("Chats join at every step")},
                                    {tr("Static"), tr("A batch ends before the next begins")}},
                                   m_fields);
  m_batching->setCurrent(0);
  connect(m_batching, &SegmentedSwitch::chosen, m_batching, &SegmentedSwitch::setCurrent);

  const auto place = [&](int row, int pair, const QString& name,
                         std::initializer_list<QWidget*> boxes) {
    grid->addWidget(new PlainLabel(name, LabelStyle::kMuted, m_fields), row, 2 * pair);
    auto* line = new QHBoxLayout;
    line->setSpacing(6);
    bool first = true;
    for (QWidget* box : boxes) {
      if (!first) line->addWidget(new PlainLabel(tr("to"), LabelStyle::kMuted, m_fields));
      first = false;
      line->addWidget(box);
    }
    line->addStretch();
    grid->addLayout(line, row, 2 * pair + 1);
  };
  place(0, 0, tr("Prompt"), {m_promptLeast, m_promptMost});
  place(1, 0, tr("Answer"), {m_answerLeast, m_answerMost});
  place(2, 0, tr("Chats at once, up to"), {m_chats});
  place(0, 1, tr("Arrivals a second"), {m_arrivals});
  place(1, 1, tr("Requests"), {m_requests});
  place(2, 1, tr("Seed"), {m_seed});
  grid->setColumnStretch(1, 1);
  grid->setColumnStretch(3, 1);
  column->addWidget(m_fields);

  auto* row = new QHBoxLayout;
  row->addWidget(m_batching);
  row->addStretch();
  m_progress = new QProgressBar(this);
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress of the load"));
  m_progress->setMaximumWidth(200);
  m_progress->hide();
  m_start = new QPushButton(tr("Run load"), this);
  m_start->setObjectName("runLoad");
  connect(m_start, &QPushButton::clicked, this,
          [this] { m_running ? emit stopWanted() : emit startWanted(); });
  row->addWidget(m_progress);
  row->addWidget(m_start);
  column->addLayout(row);

  m_summary = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_summary->setWordWrap(true);
  m_summary->hide();
  column->addWidget(m_summary);
  m_throughput = new LabChart({}, 210, this);
  m_times = new LabChart({}, 210, this);
  auto* charts = new QHBoxLayout;
  charts->setSpacing(24);
  charts->addWidget(m_throughput);
  charts->addWidget(m_times);
  column->addLayout(charts);
  m_throughput->hide();
  m_times->hide();
}

/// Scrolling the page over a number must not change it.
bool LoadForm::eventFilter(QObject* watched, QEvent* event) {
  auto* widget = qobject_cast<QWidget*>(watched);
  if (event->type() == QEvent::Wheel && widget && !widget->hasFocus()) {
    event->ignore();
    return true;
  }
  return QFrame::eventFilter(watched, event);
}

LoadSpec LoadForm::spec() const {
  LoadSpec spec;
  spec.prompt = {m_promptLeast->value(), m_promptMost->value()};
  spec.answer = {m_answerLeast->value(), m_answerMost->value()};
  spec.concurrency = m_chats->value();
  spec.arrivalsPerSecond = m_arrivals->value();
  spec.requests = m_requests->value();
  spec.seed = static_cast<std::uint64_t>(m_seed->value());
  spec.batching =
      m_batching->current() == 1 ? engine::Batching::kStatic : engine::Batching::kContinuous;
  return spec;
}

std::vector<int> LoadForm::levels() const {
  std::vector<int> levels;
  for (int level = 1; level < m_chats->value(); level *= 2) levels.push_back(level);
  levels.push_back(m_chats->value());
  return levels;
}

void LoadForm::setRunning(bool running, bool canStart) {
  m_running = running;
  m_start->setText(running ? tr("Stop") : tr("Run load"));
  m_start->setEnabled(running || canStart);
  m_fields->setEnabled(!running);
  m_batching->setEnabled(!running);
  m_progress->setVisible(running);
  if (running) m_progress->setValue(0);
}

void LoadForm::setProgress(double fraction) {
  m_progress->setValue(int(fraction * 1000));
}

void LoadForm::showFault(const QString& message) {
  m_summary->setStyle(LabelStyle::kFault);
  m_summary->setText(message);
  m_summary->show();
}

void LoadForm::showCurve(const LoadCurve& curve) {
  std::erase_if(m_curves, [&](const LoadCurve& each) { return each.batching == curve.batching; });
  m_curves.push_back(curve);
  const auto& last = curve.levels.back();
  m_summary->setStyle(LabelStyle::kFigureMuted);
  m_summary->setText(
      tr("%1, %2 at once: %3 · TTFT p50 %4, p95 %5 · TPOT p50 %6, p95 %7 · %8 tokens "
         "in %9 s")
          .arg(QString::fromLatin1(engine::nameOf(curve.batching)))
          .arg(last.concurrency)
          .arg(rateText(last.tokensPerSecond), millisecondsText(last.ttftP50Ms),
               millisecondsText(last.ttftP95Ms), millisecondsText(last.tpotP50Ms),
               millisecondsText(last.tpotP95Ms), countText(last.generatedTokens),
               QString::number(last.seconds, 'f', 1)));
  m_summary->show();
  const auto charts = app::lab::loadCharts(m_curves);
  m_throughput->setChart(charts[0]);
  m_times->setChart(charts[1]);
  m_throughput->setVisible(curve.levels.size() > 1);
  m_times->setVisible(curve.levels.size() > 1);
}

}  // namespace vitrine::ui

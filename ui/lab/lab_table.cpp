#include "ui/lab/lab_table.h"

#include <QGridLayout>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/lab/experiment.h"
#include "app/lab/report_writer.h"
#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

using app::toQString;

GainBar::GainBar(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void GainBar::setShare(double share, int colour) {
  m_share = share;
  m_colour = colour;
  update();
}

QSize GainBar::sizeHint() const {
  return {Theme::instance().px(120), Theme::instance().px(5)};
}

void GainBar::paintEvent(QPaintEvent*) {
  const Tokens& tokens = Theme::instance().tokens();
  const QColor colours[] = {tokens.reused, tokens.information, tokens.generated, tokens.prefilled};
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  const double radius = height() / 2.0;
  painter.setBrush(tokens.line);
  painter.drawRoundedRect(QRectF(rect()), radius, radius);
  if (m_share <= 0) return;
  painter.setBrush(colours[m_colour % 4]);
  painter.drawRoundedRect(QRectF(0, 0, width() * m_share, height()), radius, radius);
}

LabTable::LabTable(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("What each method gains and costs"));
  auto* grid = new QGridLayout(this);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(20);
  grid->setVerticalSpacing(9);
  const QString heads[] = {tr("Method"), tr("Gain"), tr("Cost"), tr("How it was measured")};
  const int stretch[] = {5, 6, 5, 6};
  for (int column = 0; column < 4; ++column) {
    grid->addWidget(new PlainLabel(heads[column], LabelStyle::kHeading, this), 0, column);
    grid->setColumnStretch(column, stretch[column]);
    grid->setColumnMinimumWidth(column, 80);
  }
  int at = 1;
  const auto addLine = [&] {
    auto* line = new QFrame(this);
    line->setProperty("kind", "line");
    line->setFixedHeight(1);
    grid->addWidget(line, at++, 0, 1, 5);
  };
  for (const auto& experiment : app::lab::experiments()) {
    addLine();
    Line line;
    line.id = experiment.id;
    line.method = new PlainLabel(LabelStyle::kBody, this);
    line.cost = new PlainLabel(LabelStyle::kBody, this);
    line.measured = new PlainLabel(LabelStyle::kFigureMuted, this);
    auto* gainPlace = new QWidget(this);
    auto* gainColumn = new QVBoxLayout(gainPlace);
    gainColumn->setContentsMargins(0, 0, 0, 0);
    gainColumn->setSpacing(6);
    line.gain = new PlainLabel(LabelStyle::kBody, gainPlace);
    line.bar = new GainBar(gainPlace);
    gainColumn->addWidget(line.gain);
    gainColumn->addWidget(line.bar);
    gainColumn->addStretch();
    for (PlainLabel* label : {line.method, line.gain, line.cost, line.measured}) {
      label->setWordWrap(true);
      label->setAlignment(Qt::AlignLeft | Qt::AlignTop);
      label->setTextInteractionFlags(Qt::TextSelectableByMouse);
      label->setMinimumWidth(60);
    }
    line.again = new QPushButton(this);
    line.again->setProperty("kind", "quiet");
    line.again->setObjectName("run " + toQString(line.id));
    const QString id = toQString(line.id);
    connect(line.again, &QPushButton::clicked, this, [this, id] { emit rowWanted(id); });
    grid->addWidget(line.method, at, 0);
    grid->addWidget(gainPlace, at, 1);
    grid->addWidget(line.cost, at, 2);
    grid->addWidget(line.measured, at, 3);
    grid->addWidget(line.again, at, 4, Qt::AlignTop);
    ++at;
    m_lines.push_back(line);
    clear(m_lines.back());
  }
  addLine();
  setModel(nullptr);
  const auto applyTheme = [this] {
    for (const Line& line : m_lines) {
      line.method->setFont(Theme::instance().textFont(13, QFont::DemiBold));
    }
  };
  connect(&Theme::instance(), &Theme::changed, this, applyTheme);
  applyTheme();
}

void LabTable::setModel(const engine::ModelConfig* model) {
  for (Line& line : m_lines) {
    if (line.known) continue;
    const auto* experiment = app::lab::findExperiment(line.id);
    engine::ModelConfig any;
    any.nHeads = 2;
    any.nKvHeads = 1;
    line.method->setText(model == nullptr && line.id == "attention"
                             ? tr("GQA, MQA (against MHA)")
                             : toQString(experiment->method(model != nullptr ? *model : any)));
  }
}

LabTable::Line* LabTable::find(const std::string& id) {
  for (Line& line : m_lines) {
    if (line.id == id) return &line;
  }
  return nullptr;
}

void LabTable::clear(Line& line) {
  line.known = false;
  line.gain->setStyle(LabelStyle::kMuted);
  line.gain->setText(tr("not measured yet"));
  line.bar->setShare(0, 0);
  line.cost->setText({});
  line.measured->setText({});
  line.again->setText(tr("Run"));
  line.again->setAccessibleName(tr("Measure %1").arg(line.method->text()));
}

void LabTable::setRows(const std::vector<app::lab::LabRow>& rows) {
  for (Line& line : m_lines) clear(line);
  for (const auto& row : rows) setRow(row);
}

void LabTable::setRow(const app::lab::LabRow& row) {
  Line* line = find(row.id);
  if (line == nullptr) return;
  line->known = true;
  line->method->setText(toQString(row.method));
  line->gain->setStyle(LabelStyle::kBody);
  line->gain->setText(toQString(row.gain));
  line->bar->setShare(app::lab::gainShare(row.gainFactor), int(line - m_lines.data()));
  line->cost->setStyle(LabelStyle::kBody);
  line->cost->setText(toQString(row.cost));
  line->measured->setText(toQString(row.measured));
  const QString how = literalToolTip(toQString(row.how));
  for (PlainLabel* label : {line->method, line->gain, line->cost, line->measured}) {
    label->setToolTip(how);
  }
  line->again->setText(tr("Again"));
  line->again->setToolTip(tr("Measured %1 in %2 s (%3). Measure this row again.")
                              .arg(toQString(row.date))
                              .arg(row.seconds, 0, 'f', 0)
                              .arg(toQString(nameOf(row.effort))));
}

void LabTable::setRunning(const std::string& id, double share) {
  for (Line& line : m_lines) {
    if (line.id == id) {
      line.gain->setStyle(LabelStyle::kMuted);
      line.gain->setText(tr("measuring…"));
      line.bar->setShare(share, int(&line - m_lines.data()));
    } else if (line.gain->text() == tr("measuring…")) {
      clear(line);
    }
  }
}

void LabTable::setFault(const std::string& id, const QString& message) {
  Line* line = find(id);
  if (line == nullptr) return;
  clear(*line);
  line->cost->setStyle(LabelStyle::kFault);
  line->cost->setText(message);
}

void LabTable::setBusy(bool busy) {
  for (Line& line : m_lines) line.again->setEnabled(!busy);
}

QString LabTable::gain(const std::string& id) const {
  for (const Line& line : m_lines) {
    if (line.id == id) return line.gain->text();
  }
  return {};
}

QString LabTable::cost(const std::string& id) const {
  for (const Line& line : m_lines) {
    if (line.id == id) return line.cost->text();
  }
  return {};
}

}  // namespace vitrine::ui

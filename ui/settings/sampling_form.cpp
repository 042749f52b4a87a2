#include "ui/settings/sampling_form.h"

#include <QCheckBox>
#include <QDoubleSpinBox>
#include <QGridLayout>
#include <QLineEdit>
#include <QRegularExpressionValidator>
#include <QSpinBox>
#include <cmath>

#include "app/settings.h"
#include "ui/common/plain_label.h"

namespace vitrine::ui {
namespace {

struct Field {
  const char* key;
  const char* name;
  const char* meaning;
  double least, most, step;
  int decimals;         ///< 0: a whole number
  const char* atLeast;  ///< a word for the lowest value; may be empty
};

// Bounds are those of SamplingParams::validate(), narrowed to what is of use.
constexpr Field kFields[] = {
    {"temperature", QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Temperature"),
     QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm",
                       "Higher is more varied; 0 always takes the likeliest token"),
     0, 5, 0.05, 2, ""},
    {"top_k", QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Top k"),
     QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Only the k likeliest tokens; 0 is no limit"),
     0, 10000, 1, 0, ""},
    {"top_p", QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Top p"),
     QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm",
                       "Only the likeliest tokens that make up this share; 1 is no limit"),
     0, 1, 0.01, 2, ""},
    {"min_p", QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Min p"),
     QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm",
                       "Only tokens at least this likely beside the likeliest; 0 is no limit"),
     0, 1, 0.01, 2, ""},
    {"repeat_penalty", QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Repeat penalty"),
     QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Above 1 avoids repetition; 1 is off"), 0.05, 5,
     0.05, 2, ""},
    {"presence_penalty", QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Presence penalty"),
     QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Taken from tokens that occurred; 0 is off"),
     -2, 2, 0.1, 2, ""},
    {"frequency_penalty", QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Frequency penalty"),
     QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm",
                       "Taken from tokens for each time they occurred; 0 is off"),
     -2, 2, 0.1, 2, ""},
    {"penalty_window", QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "Penalty window"),
     QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "How many of the last tokens penalties see"),
     -1, 100000, 16, 0, QT_TRANSLATE_NOOP("vitrine::ui::SamplingForm", "all")},
};

}  // namespace

SamplingForm::SamplingForm(QWidget* parent) : QWidget(parent) {
  auto* grid = new QGridLayout(this);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(12);
  grid->setVerticalSpacing(8);
  grid->setColumnStretch(2, 1);
  int line = 0;
  for (const Field& field : kFields) {
    Row row;
    row.key = QString::fromLatin1(field.key);
    const QString name = tr(field.name);
    row.own = new QCheckBox(name, this);
    row.own->setToolTip(tr("Checked: my own value. Else the model's, or the program's."));
    QAbstractSpinBox* box = nullptr;
    if (field.decimals > 0) {
      row.number = new QDoubleSpinBox(this);
      row.number->setDecimals(field.decimals);
      row.number->setRange(field.least, field.most);
      row.number->setSingleStep(field.step);
      box = row.number;
      connect(row.number, &QDoubleSpinBox::valueChanged, this, &SamplingForm::changed);
    } else {
      row.whole = new QSpinBox(this);
      row.whole->setRange(int(field.least), int(field.most));
      row.whole->setSingleStep(int(field.step));
      if (*field.atLeast) row.whole->setSpecialValueText(tr(field.atLeast));
      box = row.whole;
      connect(row.whole, &QSpinBox::valueChanged, this, &SamplingForm::changed);
    }
    box->setObjectName(row.key);
    box->setAccessibleName(name);
    box->setAccessibleDescription(tr(field.meaning));
    box->setFixedWidth(110);
    connect(row.own, &QCheckBox::toggled, this, [this, box](bool on) {
      box->setEnabled(on);
      changed();
    });
    grid->addWidget(row.own, line, 0);
    grid->addWidget(box, line, 1);
    auto* meaning = new PlainLabel(tr(field.meaning), LabelStyle::kMuted, this);
    meaning->setWordWrap(true);
    grid->addWidget(meaning, line, 2);
    m_rows.append(row);
    ++line;
  }
  m_seed = new QLineEdit(this);
  m_seed->setObjectName("seed");
  m_seed->setAccessibleName(tr("Seed"));
  m_seed->setPlaceholderText(tr("random"));
  m_seed->setFixedWidth(110);
  // 19 digits always fit into 64 bits.
  m_seed->setValidator(
      new QRegularExpressionValidator(QRegularExpression(QStringLiteral("[0-9]{0,19}")), m_seed));
  connect(m_seed, &QLineEdit::textEdited, this, &SamplingForm::changed);
  grid->addWidget(new PlainLabel(tr("Seed"), LabelStyle::kBody, this), line, 0);
  grid->addWidget(m_seed, line, 1);
  auto* meaning = new PlainLabel(tr("The same seed gives the same answer to the same chat"),
                                 LabelStyle::kMuted, this);
  meaning->setWordWrap(true);
  grid->addWidget(meaning, line, 2);
}

void SamplingForm::setValues(const engine::SamplingParams& inForce, const QJsonObject& own) {
  m_filling = true;
  const QJsonObject base = app::toJson(inForce);
  const QJsonObject valid = app::toJson(app::overlaySampling(inForce, own));
  for (Row& row : m_rows) {
    row.inForce = base.value(row.key).toDouble();
    const bool set = own.contains(row.key);
    const double value = set ? valid.value(row.key).toDouble() : row.inForce;
    row.own->setChecked(set);
    if (row.number) {
      row.number->setValue(value);
      row.number->setEnabled(set);
    } else {
      row.whole->setValue(int(std::lround(value)));
      row.whole->setEnabled(set);
    }
  }
  m_seed->setText(valid.value(QStringLiteral("seed")).toString());
  m_filling = false;
}

QJsonObject SamplingForm::ownValues() const {
  QJsonObject own;
  for (const Row& row : m_rows) {
    if (!row.own->isChecked()) continue;
    if (row.number) {
      own.insert(row.key, std::round(row.number->value() * 1000) / 1000);
    } else {
      own.insert(row.key, row.whole->value());
    }
  }
  if (!m_seed->text().isEmpty()) own.insert(QStringLiteral("seed"), m_seed->text());
  return own;
}

void SamplingForm::changed() {
  if (m_filling) return;
  m_filling = true;
  for (const Row& row : m_rows) {
    if (row.own->isChecked()) continue;
    if (row.number) row.number->setValue(row.inForce);
    if (row.whole) row.whole->setValue(int(std::lround(row.inForce)));
  }
  m_filling = false;
  emit edited(ownValues());
}

}  // namespace vitrine::ui

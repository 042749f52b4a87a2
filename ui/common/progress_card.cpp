#include "ui/common/progress_card.h"

#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/common/plain_label.h"

namespace vitrine::ui {
namespace {

constexpr int kSteps = 1000;

}  // namespace

ProgressCard::ProgressCard(const QString& name, const QString& stopName, QWidget* parent)
    : QFrame(parent) {
  setProperty("kind", "card");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(16, 10, 16, 12);
  auto* row = new QHBoxLayout;
  m_text = new PlainLabel(LabelStyle::kBody, this);
  m_text->setElided(Qt::ElideRight);
  m_stop = new QPushButton(tr("Stop"), this);
  m_stop->setObjectName(stopName);
  row->addWidget(m_text, 1);
  row->addWidget(m_stop);
  m_bar = new QProgressBar(this);
  m_bar->setRange(0, kSteps);
  m_bar->setTextVisible(false);
  m_bar->setAccessibleName(name);
  column->addLayout(row);
  column->addWidget(m_bar);
  connect(m_stop, &QPushButton::clicked, this, [this] {
    m_stop->setEnabled(false);
    m_text->setText(tr("Stopping…"));
    emit stopWanted();
  });
  hide();
}

void ProgressCard::begin() {
  m_bar->setValue(0);
  m_text->setText(tr("Starting…"));
  m_stop->setEnabled(true);
  show();
  m_stop->setFocus();
}

void ProgressCard::setStage(const QString& text) {
  if (m_stop->isEnabled()) m_text->setText(text);
}

void ProgressCard::setFraction(double fraction) {
  m_bar->setValue(int(fraction * kSteps));
}

bool ProgressCard::end() {
  const bool hadFocus = m_stop->hasFocus();
  hide();
  return hadFocus;
}

}  // namespace vitrine::ui

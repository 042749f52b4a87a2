#include "ui/chat/empty_state.h"

#include <QGridLayout>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

EmptyState::EmptyState(QWidget* parent) : QWidget(parent) {
  m_layout = new QVBoxLayout(this);
  m_layout->addStretch(3);
  m_title = new PlainLabel(LabelStyle::kTitle, this);
  m_title->setAlignment(Qt::AlignHCenter);
  m_layout->addWidget(m_title);
  m_text = new PlainLabel(LabelStyle::kMuted, this);
  m_text->setAlignment(Qt::AlignHCenter);
  m_text->setWordWrap(true);
  m_layout->addWidget(m_text);
  m_choose = new QPushButton(tr("Choose a model…"), this);
  m_choose->setProperty("kind", "primary");
  connect(m_choose, &QPushButton::clicked, this, &EmptyState::modelWanted);
  m_layout->addWidget(m_choose, 0, Qt::AlignHCenter);
  m_starters = new QWidget(this);
  auto* grid = new QGridLayout(m_starters);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setSpacing(8);
  const QString starters[] = {
      tr("Explain what a KV cache is, in three sentences."),
      tr("Write a Python function that averages a list."),
      tr("Write a haiku about the sea."),
      tr("Give me three questions to ask about a new city."),
  };
  int place = 0;
  for (const QString& text : starters) {
    auto* button = new QPushButton(text, m_starters);
    button->setProperty("kind", "starter");
    button->setCursor(Qt::PointingHandCursor);
    connect(button, &QPushButton::clicked, this, [this, text] { emit starterChosen(text); });
    grid->addWidget(button, place / 2, place % 2);
    ++place;
  }
  m_layout->addWidget(m_starters, 0, Qt::AlignHCenter);
  m_layout->addStretch(4);
  connect(&Theme::instance(), &Theme::changed, this, &EmptyState::applyTheme);
  applyTheme();
  setModel({}, false, {}, 0);
}

void EmptyState::applyTheme() {
  m_layout->setSpacing(Theme::instance().px(14));
}

void EmptyState::setModel(const QString& model, bool loading, const QString& stage,
                          double fraction) {
  m_choose->setVisible(model.isEmpty() && !loading);
  m_starters->setVisible(!model.isEmpty());
  if (!model.isEmpty()) {
    m_title->setText(tr("What would you like to know?"));
    m_text->setText(tr("%1 answers on this machine. Under each answer you see what was reused from "
                       "the cache, what was computed, and what was written.")
                        .arg(oneLine(model, 60)));
  } else if (loading) {
    m_title->setText(tr("Loading the model …"));
    m_text->setText(tr("%1 · %2 %").arg(stage).arg(int(100 * fraction)));
  } else {
    m_title->setText(tr("Vitrine needs a model"));
    m_text->setText(
        tr("Choose a GGUF file, or drop one onto this window. It stays where it is and "
           "runs on this machine."));
  }
}

}  // namespace vitrine::ui

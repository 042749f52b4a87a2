#include "ui/chat/find_bar.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLineEdit>
#include <QPushButton>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

FindBar::FindBar(QWidget* parent) : QFrame(parent) {
  setProperty("kind", "card");
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(8, 6, 8, 6);
  m_field = new QLineEdit(this);
  m_field->setPlaceholderText(tr("Find in this chat"));
  m_field->setAccessibleName(tr("Find in this chat"));
  m_field->installEventFilter(this);
  layout->addWidget(m_field, 1);
  m_count = new PlainLabel(LabelStyle::kFigure, this);
  layout->addWidget(m_count);
  const auto button = [&](const QString& text, const QString& name) {
    auto* made = new QPushButton(text, this);
    made->setProperty("kind", "quiet");
    made->setAccessibleName(name);
    made->setToolTip(name);
    layout->addWidget(made);
    return made;
  };
  connect(button(QStringLiteral("↑"), tr("Previous place")), &QPushButton::clicked, this,
          [this] { emit stepRequested(-1); });
  connect(button(QStringLiteral("↓"), tr("Next place")), &QPushButton::clicked, this,
          [this] { emit stepRequested(1); });
  connect(button(QStringLiteral("✕"), tr("Close")), &QPushButton::clicked, this, &FindBar::close);
  connect(m_field, &QLineEdit::textChanged, this, &FindBar::textChanged);
  hide();
}

void FindBar::open() {
  show();
  raise();
  m_field->setFocus();
  m_field->selectAll();
  emit textChanged(m_field->text());
}

QString FindBar::text() const {
  return m_field->text();
}

void FindBar::setResult(int current, int count) {
  m_count->setText(m_field->text().isEmpty() ? QString()
                   : count == 0              ? tr("nothing")
                                : tr("%1 of %2").arg(countText(current + 1), countText(count)));
}

void FindBar::close() {
  hide();
  emit closed();
}

bool FindBar::eventFilter(QObject* watched, QEvent* event) {
  if (watched == m_field && event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Escape) {
      close();
      return true;
    }
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      emit stepRequested(key->modifiers() & Qt::ShiftModifier ? -1 : 1);
      return true;
    }
  }
  return QFrame::eventFilter(watched, event);
}

}  // namespace vitrine::ui

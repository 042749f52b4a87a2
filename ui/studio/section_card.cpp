#include "ui/studio/section_card.h"

#include <QFrame>
#include <QVBoxLayout>

namespace vitrine::ui {

QVBoxLayout* makeCard(QWidget* parent) {
  auto* card = new QFrame(parent);
  card->setProperty("kind", "card");
  auto* column = new QVBoxLayout(card);
  column->setContentsMargins(16, 12, 16, 14);
  column->setSpacing(8);
  return column;
}

}  // namespace vitrine::ui

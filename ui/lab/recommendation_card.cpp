#include "ui/lab/recommendation_card.h"

#include <QPushButton>
#include <QVBoxLayout>

#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

RecommendationCard::RecommendationCard(QWidget* parent) : QFrame(parent) {
  setProperty("kind", "card");
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(16, 13, 16, 14);
  column->setSpacing(4);
  m_title = new PlainLabel(LabelStyle::kMuted, this);
  m_choice = new PlainLabel(LabelStyle::kBody, this);
  m_figures = new PlainLabel(LabelStyle::kFigureMuted, this);
  m_apply = new QPushButton(tr("Apply"), this);
  for (PlainLabel* label : {m_title, m_choice, m_figures}) {
    label->setWordWrap(true);
    column->addWidget(label);
  }
  column->addStretch();
  column->addSpacing(6);
  auto* row = new QHBoxLayout;
  row->addWidget(m_apply);
  row->addStretch();
  column->addLayout(row);
  connect(m_apply, &QPushButton::clicked, this,
          [this] { emit applyWanted(m_recommendation.config); });
  const auto applyTheme = [this] {
    m_choice->setFont(Theme::instance().textFont(14, QFont::DemiBold));
  };
  connect(&Theme::instance(), &Theme::changed, this, applyTheme);
  applyTheme();
}

void RecommendationCard::setRecommendation(const app::lab::Recommendation& recommendation) {
  m_recommendation = recommendation;
  const bool known = !recommendation.choice.empty();
  m_title->setText(app::toQString(recommendation.title));
  m_choice->setText(app::toQString(recommendation.choice));
  m_choice->setVisible(known);
  m_figures->setText(
      known ? app::toQString(recommendation.figures)
            : tr("Comes from the rows %1.").arg(app::toQString(recommendation.missing)));
  m_figures->setStyle(known ? LabelStyle::kFigureMuted : LabelStyle::kMuted);
  m_apply->setVisible(known);
  setToolTip(literalToolTip(app::toQString(recommendation.rule)));
  m_apply->setAccessibleName(tr("Apply %1").arg(m_title->text()));
}

void RecommendationCard::setState(const engine::EngineConfig& running, bool canApply) {
  const bool inForce = running == m_recommendation.config;
  m_apply->setEnabled(canApply && !inForce);
  m_apply->setText(inForce ? tr("In force") : tr("Apply"));
}

}  // namespace vitrine::ui

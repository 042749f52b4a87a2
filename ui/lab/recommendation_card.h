#pragma once

#include <QFrame>

#include "app/lab/lab_types.h"

class QPushButton;

namespace vitrine::ui {

class PlainLabel;

/// A configuration that the lab recommends for one way of using the model, and the button that
/// puts it in force.
class RecommendationCard final : public QFrame {
  Q_OBJECT
 public:
  explicit RecommendationCard(QWidget* parent = nullptr);

  void setRecommendation(const app::lab::Recommendation& recommendation);
  const app::lab::Recommendation& recommendation() const { return m_recommendation; }
  /// `running`: the configuration in force; the card says so when it is its own.
  void setState(const engine::EngineConfig& running, bool canApply);
  QPushButton* applyButton() const { return m_apply; }

 signals:
  void applyWanted(const vitrine::engine::EngineConfig& config);

 private:
  app::lab::Recommendation m_recommendation;
  PlainLabel *m_title, *m_choice, *m_figures;
  QPushButton* m_apply;
};

}  // namespace vitrine::ui

#pragma once

#include <QString>
#include <QTextEdit>
#include <vector>

#include "app/studio/studio_session.h"

namespace vitrine::ui {

/// The answers of a replayed conversation, what is between them muted. Tokens that the two ways
/// would not both have chosen are underlined; the first of them is marked.
class ReplayText final : public QTextEdit {
  Q_OBJECT
 public:
  explicit ReplayText(QWidget* parent = nullptr);

  void showResult(const app::studio::ReplayResult& result);
  /// Scrolls to a token of the conversation and selects it.
  void showToken(int token);
  /// Text of a token as it stands here; empty: not shown.
  QString textOf(int token) const;

 private:
  void mark();

  app::studio::ReplayResult m_result;
  struct Place {
    int begin = 0, end = 0;
  };
  std::vector<Place> m_places;  // by token; empty where it is not shown
};

}  // namespace vitrine::ui

#pragma once

#include <QDialog>
#include <QPointer>
#include <QTimer>
#include <optional>
#include <vector>

#include "app/chat/context_preview.h"

class QFrame;
class QListWidget;
class QPushButton;

namespace vitrine::app {
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

class FigureGrid;
class PlainLabel;

/// What leaves a chat's prompt when the context is full: the policies side by side, with the
/// messages that each would leave out, the tokens that frees and what it costs. A click chooses one
/// for this chat; nothing is left out without it being told here and in the chat.
class ContextDialog final : public QDialog {
  Q_OBJECT
 public:
  /// `session` may be null: then it says what will be here. Requires: engine and settings outlive
  /// it.
  ContextDialog(app::ChatSession* session, QString draft, app::EngineClient& engine,
                app::Settings& settings, QWidget* parent);

  const app::ContextOutlook& outlook() const { return m_preview.outlook(); }

 signals:
  /// A message of the lists was chosen: show it in the chat.
  void rowChosen(int row);

 private:
  struct Column {
    engine::ContextPolicy policy;
    QFrame* card;
    PlainLabel* state;
    FigureGrid* figures;
    PlainLabel* leaves;
    QListWidget* list;
    QPushButton* use;
  };

  Column makeColumn(engine::ContextPolicy policy, const QString& explanation);
  void look();
  void showOutlook();
  void showColumn(const Column& column, const app::ContextOption* option);
  QString headline() const;
  void choose(std::optional<engine::ContextPolicy> policy);

  QPointer<app::ChatSession> m_session;
  QString m_draft;
  app::Settings& m_settings;
  app::ContextPreview m_preview;
  QTimer m_lookSoon;  ///< single shot: several changes are looked at once
  PlainLabel* m_headline;
  std::vector<Column> m_columns;
  QPushButton* m_asSettings;
};

/// The policy's name in a word or two, as switches and this dialog call it.
QString contextPolicyText(engine::ContextPolicy policy);

}  // namespace vitrine::ui

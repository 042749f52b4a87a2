#pragma once

#include <QPointer>
#include <QTimer>
#include <QWidget>
#include <array>

#include "app/compare/compare_run.h"

class QPlainTextEdit;
class QPushButton;
class QSpinBox;
class QLineEdit;

namespace vitrine::app {
class ChatSession;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

class CompareColumn;
class PlainLabel;
class SegmentedSwitch;
class ToggleSwitch;

/// The Compare page: one prompt, or the question of a chat, to two configurations or samplings,
/// side by side. Two samplings of the loaded engine share its batch; another configuration gets an
/// engine of its own, which is freed when the page is left.
class ComparePage final : public QWidget {
  Q_OBJECT
 public:
  /// Requires: both outlive it.
  ComparePage(app::EngineClient& engine, app::Settings& settings, QWidget* parent = nullptr);

  /// The chat whose question can be asked; null: none.
  void setSession(app::ChatSession* session);
  CompareColumn* column(int side) const { return m_columns[std::size_t(side)]; }
  app::CompareRun& run() { return m_run; }
  QString markdown() const;
  /// Narrow windows cut what does not fit; the page never makes the window wider.
  QSize minimumSizeHint() const override { return {360, 300}; }

 public slots:
  void start();
  void stop();

 signals:
  void closeWanted();
  void replayWanted();  ///< a conversation read by two configurations instead

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  QWidget* makeHead();
  QWidget* makePrompt();
  void takeModel();
  void showRun();
  void showPlan();
  void exportMarkdown();
  bool asksChat() const;

  app::EngineClient& m_engine;
  app::Settings& m_settings;
  QPointer<app::ChatSession> m_session;
  app::CompareRun m_run;
  QTimer m_showSoon;  ///< single shot: figures change at most ten times a second
  std::string m_shownModel;  ///< its fingerprint, and how it ran: what the sides began with
  engine::EngineConfig m_shownConfig;
  SegmentedSwitch* m_source;
  QPlainTextEdit* m_prompt;
  QSpinBox* m_longest;
  QLineEdit* m_seed;
  ToggleSwitch *m_sameSeed, *m_atOnce;
  PlainLabel *m_plan, *m_fault;
  QPushButton *m_start, *m_stop, *m_copy, *m_export;
  std::array<CompareColumn*, 2> m_columns{};
};

}  // namespace vitrine::ui

#pragma once

#include "ui/chat/message_item.h"
#include "ui/chat/turn_bar.h"

class QFrame;
class QPushButton;

namespace vitrine::ui {

class MarkdownView;
class PlainLabel;

/// An answer: its text, the turn bar, the actions; before its first token what is being read; if
/// it failed, why and the ways out.
class AnswerItem final : public MessageItem {
  Q_OBJECT
 public:
  explicit AnswerItem(QWidget* parent);

  void setRow(const app::MessageRow& row, bool running) override;
  int layoutFor(int width) override;
  TextView* textView() const override;

  /// The turn that writes this answer, as far as it has come.
  void setLive(app::TurnPhase phase, const TurnBar::Figures& figures);
  /// What stands in place of the text while there is none: "Reading 1,310 tokens · 41 % · …".
  QString statusText() const;
  /// Why the turn failed and what can be done; empty ways: only trying again.
  void setFailure(const QString& message, const std::vector<app::WayOut>& ways);

 signals:
  /// Text of the answer that runs (or ran) is on screen for the first time.
  void firstTextPainted();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void fillMenu(QMenu* menu) override;

 private:
  void clearFailure();
  void showWhy();

  MarkdownView* m_view;
  TurnBar* m_bar;
  ActionButton *m_previous, *m_next, *m_copy, *m_edit, *m_regenerate, *m_why;
  QFrame* m_failure = nullptr;
  PlainLabel* m_reason;
  app::TurnPhase m_phase = app::TurnPhase::kIdle;
  bool m_running = false;
  engine::TurnReport m_report;  ///< of the turn, without its per-token figures
  bool m_paintDue = false;      ///< the text of the turn that runs was not on screen yet
  bool m_showsBar = false;
  bool m_inContext = true;
  int m_branchIndex = 0, m_branchCount = 1;
  QRect m_status;
};

QString wayOutText(app::WayOut way);

}  // namespace vitrine::ui

#pragma once

#include <QWidget>

#include "app/chat/chat_session.h"

class QPushButton;

namespace vitrine::ui {

class FigureGrid;
class PlainLabel;

/// Cache proof: a button that has the chat's cache compared with a cold prefill, how far it is,
/// and what came of it in words and figures.
class CacheProofView final : public QWidget {
  Q_OBJECT
 public:
  explicit CacheProofView(QWidget* parent = nullptr);
  /// `possible`: there is a model, a chat with something in it, and no answer runs.
  /// `expectedMs`: what the cold prefill will take by this chat's own rate; 0: not known.
  void setState(const app::CacheProofState& state, bool possible, double seconds,
                double expectedMs);
  QString text() const;

 signals:
  void proofWanted();
  void cancelWanted();

 private:
  QPushButton* m_button;
  PlainLabel* m_progress;
  PlainLabel* m_result;
  FigureGrid* m_figures;
  bool m_running = false;
};

}  // namespace vitrine::ui

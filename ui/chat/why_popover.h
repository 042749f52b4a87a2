#pragma once

#include <QFrame>

#include "engine/engine_types.h"

class QVBoxLayout;

namespace vitrine::ui {

/// "Why was this prefilled?" of one turn: the reason in one line and in a sentence, what was cached
/// beside what the prompt said where they differ, and what came from the disk. Opens below a
/// widget; Esc or a click elsewhere closes it.
class WhyPopover final : public QFrame {
  Q_OBJECT
 public:
  explicit WhyPopover(const engine::TurnReport& report, QWidget* parent);
  /// Shows it under `anchor`, inside the screen; it deletes itself when closed.
  void openBelow(const QWidget* anchor);
  /// All that it says, for tests and screen readers.
  QString text() const { return m_words.join(u'\n'); }

 private:
  void addLine(const QString& text, bool strong);
  void addDifference(const QString& before, const QString& after);

  QVBoxLayout* m_column;
  QStringList m_words;
};

}  // namespace vitrine::ui

#pragma once

#include <QWidget>

#include "app/chat/turn_metrics.h"

namespace vitrine::ui {

/// The line under an answer: a bar in three colours with the counts behind it (reused, prefilled,
/// generated tokens), and at the right TTFT and TPOT. Figures have tabular digits.
class TurnBar final : public QWidget {
  Q_OBJECT
 public:
  struct Figures {
    int reused = 0;
    int prefilled = 0;     ///< computed so far, while the turn runs
    int prefillTotal = 0;  ///< 0: all of it is done
    int generated = 0;
    double remainingMs = -1;  ///< until the first token, by estimate; −1: not known
    double ttftMs = 0;        ///< 0: no token yet
    double forecastMs = -1;   ///< TTFT as told before the turn; −1: it was not
    double tpotMs = 0;        ///< 0: fewer than two tokens
    QString note;             ///< "stopped", "context full" …; plain text

    bool operator==(const Figures&) const = default;
  };
  static Figures figuresOf(const app::TurnMetrics& metrics);

  explicit TurnBar(QWidget* parent = nullptr);
  void setFigures(const Figures& figures);
  const Figures& figures() const { return m_figures; }
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  Figures m_figures;
};

}  // namespace vitrine::ui

#pragma once

#include <QVector>
#include <QWidget>

#include "app/chat/turn_metrics.h"

namespace vitrine::ui {

/// A row for each turn: reused, prefilled and generated tokens (as a bar and in figures), TTFT,
/// TPOT. A click or the arrow keys select a turn.
class TurnTable final : public QWidget {
  Q_OBJECT
 public:
  explicit TurnTable(QWidget* parent = nullptr);
  void setTurns(const std::vector<app::TurnMetrics>& turns);
  void setSelectedTurn(int turn);  ///< from 1; 0: none
  int rowCount() const { return int(m_rows.size()); }
  QString rowText(int row) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  void turnSelected(int turn);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Row {
    int reused = 0, prefilled = 0, generated = 0;
    double ttftMs = 0, tpotMs = 0;
    QString reason;
    bool operator==(const Row&) const = default;
  };
  double rowHeight() const;
  int rowAt(QPoint position) const;
  void describe();

  QVector<Row> m_rows;
  int m_selectedTurn = 0;
};

}  // namespace vitrine::ui

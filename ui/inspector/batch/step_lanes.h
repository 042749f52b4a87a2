#pragma once

#include <QColor>
#include <QString>
#include <QVector>
#include <QWidget>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine_types.h"

namespace vitrine::ui {

/// The engine's steps from left to right, a lane for each conversation: in a cell what the step
/// computed for it, prompt tokens (amber, as high as there are many) or a token of the answer
/// (violet, at the lane's foot). Below, how long each step took. A step under the pointer, or
/// chosen with the arrow keys, is told in words.
class StepLanes final : public QWidget {
  Q_OBJECT
 public:
  struct Look {
    QString title;  ///< any characters
    QColor colour;
  };

  explicit StepLanes(QWidget* parent = nullptr);
  /// The last `mostColumns` of them are drawn. `look` names a conversation by the engine's key.
  void setSteps(std::span<const engine::StepRecord> steps, int mostColumns,
                const std::function<Look(const QString& key)>& look);

  int columnCount() const { return int(m_steps.size()); }
  int laneCount() const { return int(m_lanes.size()); }
  QString laneTitle(int lane) const { return m_lanes[lane].title; }
  /// The cell of a lane in a column.
  QRectF cellRect(int column, int lane) const;
  /// Number, time, and for each conversation its tokens; a line each.
  QString describe(int column) const;
  /// −1: none.
  int selectedColumn() const { return m_selected; }

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {40, sizeHint().height()}; }

 signals:
  /// In words; empty: none is under the pointer or chosen.
  void stepPointedAt(const QString& text);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  struct Lane {
    QString key, title;
    QColor colour;
  };

  double pitch() const;
  double laneTop(int lane) const;
  double timeTop() const;
  int columnAt(double x) const;
  int laneOf(const std::string& conversation) const;
  void select(int column);

  std::vector<engine::StepRecord> m_steps;
  std::vector<Lane> m_lanes;
  int m_columns = 64;  ///< that have room; the latest step is at the right
  int m_mostPrefill = 1;
  float m_longestMs = 1;
  int m_selected = -1;
};

}  // namespace vitrine::ui

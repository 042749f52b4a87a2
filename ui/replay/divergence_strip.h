#pragma once

#include <QWidget>
#include <functional>
#include <vector>

#include "engine/measure/replay.h"

namespace vitrine::ui {

/// How two ways of running a model differ, a cell a token of the answers: the larger the KL, the
/// taller and the redder; a dot above where the best tokens differ; the first of those is framed.
/// Cells wrap into lines; where there are too many, neighbours share one (the worst is shown). The
/// pointer, or the arrow keys, tell of one.
class DivergenceStrip final : public QWidget {
  Q_OBJECT
 public:
  struct Cell {
    int token = 0;  ///< index into the conversation
    float divergence = 0;
    bool differs = false;  ///< the best tokens
    bool first = false;    ///< the first that differs
  };

  explicit DivergenceStrip(QWidget* parent = nullptr);
  void setReport(const engine::ReplayReport& report);
  /// What is told of a token by its index in the conversation.
  void setWords(std::function<QString(int token)> words) { m_words = std::move(words); }

  const std::vector<Cell>& cells() const { return m_cells; }
  QRectF cellRect(int cell) const;
  int cellAt(const QPointF& position) const;  ///< −1: none

  QSize sizeHint() const override;
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override;

 signals:
  void pointed(const QString& words);  ///< empty: none
  void chosen(int token);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  int perLine(int width) const;
  void merge(int width);
  void point(int cell);

  std::vector<Cell> m_tokens;  // one each
  std::vector<Cell> m_cells;   // as shown
  std::function<QString(int)> m_words;
  int m_pointed = -1;
};

/// The strip's colour of a divergence, and how much of a cell's height it fills (0 to 1).
QColor divergenceColour(double divergence);
double divergenceLevel(double divergence);

}  // namespace vitrine::ui

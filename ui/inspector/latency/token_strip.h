#pragma once

#include <QVector>
#include <QWidget>
#include <functional>

#include "engine/engine_types.h"
#include "ui/common/legend.h"

namespace vitrine::ui {

/// How a stall is shown: a colour, a pattern and a word for each cause.
struct StallLook {
  QString word;     ///< for the legend: "others' prefill"
  QString meaning;  ///< a sentence
  QColor colour;
  MarkPattern pattern = MarkPattern::kSolid;
};
StallLook lookOf(engine::StallCause cause);

/// The latency of each token of an answer, a bar each (several a bar where there are more than
/// pixels: their largest, with its cause), with lines at the median and the 95th percentile.
/// Stalls are marked by cause. The pointer, or the arrow keys, tell of one token.
class TokenStrip final : public QWidget {
  Q_OBJECT
 public:
  struct Token {
    float milliseconds = 0;
    engine::StallCause cause = engine::StallCause::kNone;
    bool operator==(const Token&) const = default;
  };

  explicit TokenStrip(QWidget* parent = nullptr);
  /// Without the first token, whose latency is the TTFT: tokens[0] is the answer's second.
  void setTokens(std::vector<Token> tokens);
  /// The text of a token by its index in the answer; asked when it is pointed at. May be empty.
  void setTextOf(std::function<QString(int token)> textOf) { m_textOf = std::move(textOf); }

  double p50() const { return m_p50; }
  double p95() const { return m_p95; }
  int stalls(engine::StallCause cause) const;
  /// What the strip tells of the column at a place: "token 57 · 31.2 ms · others' prefill".
  QString describeAt(int x) const;
  int columnCount() const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  /// The token that is pointed at, in words; empty: none.
  void pointed(const QString& words);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;
  bool event(QEvent* event) override;

 private:
  struct Column {
    int token = 0;  ///< index into m_tokens of the largest
    int count = 1;
  };
  QRectF plotArea() const;
  double slotWidth() const;
  Column columnAt(int column) const;
  QString describe(int column) const;
  void point(int column);
  double top() const;

  std::vector<Token> m_tokens;
  std::function<QString(int)> m_textOf;
  double m_p50 = 0, m_p95 = 0, m_largest = 0;
  int m_pointed = -1;  ///< column
};

}  // namespace vitrine::ui

#pragma once

#include <QVector>
#include <QWidget>

namespace vitrine::ui {

/// One choice among a few, side by side: a caption and its segments. Shows what is in force; a
/// click only asks (chosen), and setCurrent() says what came of it. Arrow keys move, Space asks.
class SegmentedSwitch final : public QWidget {
  Q_OBJECT
 public:
  struct Choice {
    QString text;
    QString toolTip;  ///< plain text
    bool enabled = true;
  };

  SegmentedSwitch(QString caption, QVector<Choice> choices, QWidget* parent = nullptr);

  void setChoices(QVector<Choice> choices);
  /// -1: none (no model).
  void setCurrent(int index);
  int current() const { return m_current; }
  /// Marks a choice that is on its way; -1: none.
  void setPending(int index);
  int pending() const { return m_pending; }
  /// Shorter: without the caption.
  void setCompact(bool compact);
  int choiceCount() const { return static_cast<int>(m_choices.size()); }
  QRect choiceRect(int index) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 signals:
  void chosen(int index);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;
  bool event(QEvent* event) override;

 private:
  int captionWidth() const;
  int choiceAt(QPoint position) const;
  void choose(int index);
  void move(int step);
  void describe();

  QString m_caption;
  QVector<Choice> m_choices;
  int m_current = -1;
  int m_pending = -1;
  int m_hovered = -1;
  int m_focused = 0;  ///< the segment that the keyboard is on
  bool m_compact = false;
};

}  // namespace vitrine::ui

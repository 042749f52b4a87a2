#pragma once

#include <QWidget>

namespace vitrine::ui {

/// Which KV head each query head of a layer reads: query heads above, the KV heads in force below,
/// a line for each query head, a colour for each group. Where the KV heads are not the model's own,
/// those stand in a third row, with lines to the copies (dotted) or averages (hatched) that were
/// made of them. Any number of heads fits the width. Hover tells about a head.
class HeadDrawing final : public QWidget {
  Q_OBJECT
 public:
  explicit HeadDrawing(QWidget* parent = nullptr);
  /// All 0: no model.
  void setHeads(int nHeads, int nKvHeads, int ownKvHeads);
  int kvHeads() const { return m_kv; }
  /// What a tooltip says there; empty beside the marks.
  QString describeAt(QPointF position) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  enum Row { kQuery, kInForce, kOwn };
  int rowCount() const { return m_kv == m_own ? 2 : 3; }
  int headCount(Row row) const;
  QRectF mark(Row row, int head) const;
  QColor colourOf(Row row, int head) const;
  void paintLines(QPainter& painter, Row above, Row below) const;
  void paintMarks(QPainter& painter, Row row) const;

  int m_heads = 0;
  int m_kv = 0;
  int m_own = 0;
};

}  // namespace vitrine::ui

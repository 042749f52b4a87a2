#pragma once

#include <QImage>
#include <QVector>
#include <QWidget>
#include <vector>

#include "ui/studio/log_axis.h"

namespace vitrine::ui {

/// Magnitudes as colours on a logarithmic scale: a row for each site, columns for channels, which
/// are grouped (each cell the largest of its group) so that they fit the width. The pointer or the
/// arrow keys read a cell; a click or Enter chooses its row.
class HeatMap final : public QWidget {
  Q_OBJECT
 public:
  struct Row {
    int id = 0;
    QString name;               ///< at the left: "3"
    QString longName;           ///< for reading: "Layer 3, into down"
    std::vector<float> values;  ///< [channels]
  };

  explicit HeatMap(QWidget* parent = nullptr);
  void setRows(std::vector<Row> rows);
  void setEmptyText(const QString& text);
  void setChosen(int id);
  int chosen() const { return m_chosen; }

  int rowCount() const { return int(m_rows.size()); }
  int columnCount() const;  ///< cells of a row at the present width
  int channelsOfCell() const;
  float cellValue(int row, int column) const;
  /// "Layer 3, into down · channels 12 to 14 · largest 4.21 in 13".
  QString cellText(int row, int column) const;
  QRectF cellRect(int row, int column) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 signals:
  void chosenByPerson(int id);
  void pointed(const QString& text);  ///< empty: at nothing

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;

 private:
  QRectF mapArea() const;
  void point(int row, int column);
  void draw();
  void paintLegend(QPainter& painter) const;
  void describe();
  int rowOf(int id) const;
  int channels() const;

  std::vector<Row> m_rows;
  LogAxis m_axis;
  QImage m_image;  ///< a pixel a cell; null: to be drawn
  QString m_emptyText;
  int m_chosen = -1;
  int m_row = -1, m_column = -1;  ///< pointed at
};

}  // namespace vitrine::ui

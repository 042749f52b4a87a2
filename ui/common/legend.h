#pragma once

#include <QColor>
#include <QVector>
#include <QWidget>

namespace vitrine::ui {

/// How a mark is filled: the second sign beside its colour.
enum class MarkPattern { kSolid, kHollow, kHatched, kDotted };

/// Paints a mark of a chart, bar or map the way its legend shows it.
void paintMark(QPainter& painter, const QRectF& area, const QColor& colour, MarkPattern pattern,
               double corner);

/// Squares with words, wrapped to the width at hand.
class Legend final : public QWidget {
  Q_OBJECT
 public:
  struct Entry {
    QString text;        ///< any characters, shown as they are
    QString value = {};  ///< figures after the text; may be empty
    QColor colour;
    MarkPattern pattern = MarkPattern::kSolid;
    QString toolTip = {};
    bool operator==(const Entry&) const = default;
  };

  explicit Legend(QWidget* parent = nullptr);
  void setEntries(QVector<Entry> entries);
  const QVector<Entry>& entries() const { return m_entries; }

  QSize sizeHint() const override;
  bool hasHeightForWidth() const override { return true; }
  int heightForWidth(int width) const override;

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QVector<QRect> place(int width) const;

  QVector<Entry> m_entries;
};

/// Parts of a whole side by side in one bar of a given height, drawn as their legend shows them.
class StackedBar final : public QWidget {
  Q_OBJECT
 public:
  struct Part {
    QString text;
    double amount = 0;
    QColor colour;
    MarkPattern pattern = MarkPattern::kSolid;
    QString toolTip = {};
  };

  explicit StackedBar(int designHeight, QWidget* parent = nullptr);
  void setParts(QVector<Part> parts);
  /// The whole; 0: the sum of the parts.
  void setWhole(double whole);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  QRectF partRect(int index) const;

  QVector<Part> m_parts;
  double m_whole = 0;
  int m_designHeight;
};

}  // namespace vitrine::ui

#pragma once

#include <QWidget>

namespace vitrine::ui {

/// The program's sign: a case with four panes, two of them lit.
class AppMark final : public QWidget {
  Q_OBJECT
 public:
  explicit AppMark(int designSide, QWidget* parent = nullptr);
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  int m_designSide;
};

}  // namespace vitrine::ui

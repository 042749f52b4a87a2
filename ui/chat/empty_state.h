#pragma once

#include <QWidget>

class QPushButton;
class QVBoxLayout;

namespace vitrine::ui {

class PlainLabel;

/// What stands where no message is yet: what will be there, and how to get it. Starters put a
/// question into the input box.
class EmptyState final : public QWidget {
  Q_OBJECT
 public:
  explicit EmptyState(QWidget* parent = nullptr);

  /// `model`: the name of the loaded model; empty: none is loaded.
  void setModel(const QString& model, bool loading, const QString& stage, double fraction);

 signals:
  void starterChosen(const QString& text);
  void modelWanted();

 private:
  void applyTheme();

  PlainLabel *m_title, *m_text;
  QWidget* m_starters;
  QPushButton* m_choose;
  QVBoxLayout* m_layout;
};

}  // namespace vitrine::ui

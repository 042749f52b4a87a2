#pragma once

#include <QFrame>

class QLineEdit;
class QPushButton;

namespace vitrine::ui {

class PlainLabel;

/// A field to find text in the open chat, with a count and steps.
class FindBar final : public QFrame {
  Q_OBJECT
 public:
  explicit FindBar(QWidget* parent = nullptr);

  void open();
  QString text() const;
  /// `current` from 0; -1: none.
  void setResult(int current, int count);

 signals:
  void textChanged(const QString& text);
  void stepRequested(int step);
  void closed();

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void close();

  QLineEdit* m_field;
  PlainLabel* m_count;
};

}  // namespace vitrine::ui

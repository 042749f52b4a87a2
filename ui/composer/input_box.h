#pragma once

#include <QPlainTextEdit>

namespace vitrine::ui {

/// Plain text to write in. Enter sends, Shift+Enter (and Ctrl+Enter) starts a line; while an input
/// method composes, Enter belongs to it. Grows with its text. A paste too long to lay out without
/// freezing is handed on instead of inserted (largePaste()).
class InputBox final : public QPlainTextEdit {
  Q_OBJECT
 public:
  /// The most characters that the box takes as text; more becomes an attachment.
  static constexpr qsizetype kMostCharacters = 20000;

  explicit InputBox(QWidget* parent = nullptr);

  /// Height for all of its text, at most `kMostLines` lines.
  int heightAt(int width) const;

 signals:
  void sendRequested();
  void cancelRequested();  ///< Escape
  void heightChanged();
  void largePaste(const QString& text);

 protected:
  void keyPressEvent(QKeyEvent* event) override;
  void inputMethodEvent(QInputMethodEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dragMoveEvent(QDragMoveEvent* event) override;
  void insertFromMimeData(const QMimeData* source) override;
  bool canInsertFromMimeData(const QMimeData* source) const override;

 private:
  void applyTheme();
  bool m_composing = false;
};

}  // namespace vitrine::ui

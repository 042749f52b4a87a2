#pragma once

#include <QTextEdit>

namespace vitrine::ui {

/// Text to read, select and copy, as tall as it needs to be: the view around it scrolls. Nothing
/// in it is ever taken for markup. A link asks first, showing where it leads.
class TextView : public QTextEdit {
  Q_OBJECT
 public:
  explicit TextView(QWidget* parent = nullptr);

  /// Shows exactly these characters.
  void setLiteralText(const QString& text);
  /// What "copy everything" puts on the clipboard, character by character.
  virtual QString sourceText() const { return m_literal; }

  /// Height that the text needs at this width.
  int heightAt(int width);
  /// Marks all occurrences (letter case ignored), the `current`th more strongly; -1: none of them.
  int highlight(const QString& needle, int current);
  /// Where the last highlighted current occurrence is, in this widget's coordinates.
  QRect currentHighlight() const { return m_currentHighlight; }

 signals:
  /// The person clicked a link and should be asked.
  void linkChosen(const QString& target);
  void menuRequested(const QPoint& globalPosition, const QString& linkUnderPointer);

 protected:
  QMimeData* createMimeDataFromSelection() const override;
  bool canInsertFromMimeData(const QMimeData*) const override { return false; }
  void wheelEvent(QWheelEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  virtual void applyTheme();
  QVariant loadResource(int type, const QUrl& name) override;

 private:
  QString m_literal;
  QString m_pressedLink;
  QRect m_currentHighlight;
};

/// Inserts these characters so that each shows as itself: fonts join some ("->" to an arrow, "!="
/// to one sign, "2x3" to a product), which a reader of code or of exact text cannot tell apart.
void insertLiterally(QTextCursor& cursor, const QString& text, const QTextCharFormat& format);

/// Asks before a link is opened, with the whole target shown; opens it on yes. Targets that are
/// not http, https or mailto are never opened.
void askAndOpenLink(QWidget* parent, const QString& target);

}  // namespace vitrine::ui

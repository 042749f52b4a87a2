#include "ui/markdown/text_view.h"

#include <QAbstractTextDocumentLayout>
#include <QContextMenuEvent>
#include <QDesktopServices>
#include <QMessageBox>
#include <QMimeData>
#include <QPushButton>
#include <QTextBlock>
#include <QUrl>
#include <QWheelEvent>
#include <cmath>

#include "ui/markdown/inline_parser.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

TextView::TextView(QWidget* parent) : QTextEdit(parent) {
  setProperty("kind", "reading");
  setReadOnly(true);
  setAcceptDrops(false);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setWordWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  setLineWrapMode(QTextEdit::FixedPixelWidth);
  setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  setTabChangesFocus(true);
  setUndoRedoEnabled(false);
  document()->setDocumentMargin(0);
  viewport()->setAutoFillBackground(false);
  viewport()->setMouseTracking(true);
  connect(&Theme::instance(), &Theme::changed, this, [this] { applyTheme(); });
}

void TextView::setLiteralText(const QString& text) {
  m_literal = text;
  applyTheme();
}

void TextView::applyTheme() {
  const Theme& theme = Theme::instance();
  document()->setDefaultFont(theme.textFont());
  QTextCursor cursor(document());
  cursor.select(QTextCursor::Document);
  cursor.removeSelectedText();
  QTextCharFormat format;
  format.setFont(theme.textFont());
  format.setForeground(theme.tokens().text);
  QTextBlockFormat block;
  block.setLineHeight(theme.px(21), QTextBlockFormat::MinimumHeight);
  cursor.setBlockFormat(block);
  insertLiterally(cursor, m_literal, format);
}

int TextView::heightAt(int width) {
  // As a fixed width of the editor: it would set the document back to the width of its viewport,
  // which a widget that was not shown yet does not have.
  if (lineWrapColumnOrWidth() != width) setLineWrapColumnOrWidth(width);
  // Qt leaves out what the last text block wants below it.
  const double below = document()->lastBlock().blockFormat().bottomMargin();
  return int(std::ceil(document()->size().height() + below));
}

QVariant TextView::loadResource(int, const QUrl&) {
  return {};  // nothing is fetched, from nowhere
}

QMimeData* TextView::createMimeDataFromSelection() const {
  const QTextCursor selection = textCursor();
  QString text;
  const QTextCursor all = [this] {
    QTextCursor cursor(document());
    cursor.select(QTextCursor::Document);
    return cursor;
  }();
  if (selection.selectionStart() <= all.selectionStart() &&
      selection.selectionEnd() >= all.selectionEnd()) {
    text = sourceText();
  } else {
    text = selection.selectedText();
    text.replace(QChar::ParagraphSeparator, '\n');
    text.replace(QChar::LineSeparator, '\n');
    text.replace(QChar(0xfdd0), '\t');  // Qt's marks around table cells
    text.replace(QChar(0xfdd1), '\n');
  }
  auto* mime = new QMimeData;
  mime->setText(text);
  return mime;
}

int TextView::highlight(const QString& needle, int current) {
  QList<QTextEdit::ExtraSelection> selections;
  m_currentHighlight = {};
  if (!needle.isEmpty()) {
    QTextCursor found(document());
    while (selections.size() < 2000) {
      found = document()->find(needle, found);
      if (found.isNull()) break;
      QTextEdit::ExtraSelection selection;
      selection.cursor = found;
      selections << selection;
    }
    // The source may hold the text more often than the screen: then the last one is meant.
    const qsizetype chosen = current < 0 ? -1 : std::min<qsizetype>(current, selections.size() - 1);
    const Tokens& t = Theme::instance().tokens();
    for (qsizetype i = 0; i < selections.size(); ++i) {
      selections[i].format.setBackground(
          mix(t.background, t.information, i == chosen ? 0.55 : 0.25));
      if (i == chosen) m_currentHighlight = cursorRect(selections[i].cursor);
    }
  }
  setExtraSelections(selections);
  return int(selections.size());
}

void TextView::wheelEvent(QWheelEvent* event) {
  event->ignore();  // the view around scrolls
}

void TextView::mouseMoveEvent(QMouseEvent* event) {
  QTextEdit::mouseMoveEvent(event);
  const QString link = anchorAt(event->pos());
  viewport()->setCursor(link.isEmpty() ? Qt::IBeamCursor : Qt::PointingHandCursor);
  // Plain text as a tooltip: an escaped one, since QToolTip guesses.
  viewport()->setToolTip(link.isEmpty()
                             ? QString()
                             : link.toHtmlEscaped().prepend("<span>") + QStringLiteral("</span>"));
}

void TextView::mousePressEvent(QMouseEvent* event) {
  m_pressedLink = event->button() == Qt::LeftButton ? anchorAt(event->pos()) : QString();
  QTextEdit::mousePressEvent(event);
}

void TextView::mouseReleaseEvent(QMouseEvent* event) {
  QTextEdit::mouseReleaseEvent(event);
  const QString pressed = std::exchange(m_pressedLink, {});
  if (!pressed.isEmpty() && pressed == anchorAt(event->pos()) && !textCursor().hasSelection()) {
    emit linkChosen(pressed);
  }
}

void TextView::keyPressEvent(QKeyEvent* event) {
  if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) &&
      textCursor().charFormat().isAnchor()) {
    emit linkChosen(textCursor().charFormat().anchorHref());
    return;
  }
  // Up, Down and the page keys belong to the view around, unless the person selects.
  const bool scrolls = event->key() == Qt::Key_PageUp || event->key() == Qt::Key_PageDown;
  if (scrolls) {
    event->ignore();
    return;
  }
  QTextEdit::keyPressEvent(event);
}

void TextView::contextMenuEvent(QContextMenuEvent* event) {
  emit menuRequested(event->globalPos(), anchorAt(event->pos()));
}

void insertLiterally(QTextCursor& cursor, const QString& text, const QTextCharFormat& format) {
  // Text in different formats is shaped apart, so a property that means nothing keeps two
  // characters from being joined. (Qt can switch features of a font off only from 6.7 on.)
  constexpr int kApart = QTextFormat::UserProperty + 100;
  const auto isSign = [](QChar c) { return c.unicode() < 128 && (c.isPunct() || c.isSymbol()); };
  const auto joins = [&](qsizetype i) {  // text[i - 1] and text[i]
    if (isSign(text[i - 1]) && isSign(text[i])) return true;
    return text[i] == 'x' && text[i - 1].isDigit() && i + 1 < text.size() && text[i + 1].isDigit();
  };
  QTextCharFormat other = format;
  other.setProperty(kApart, true);
  bool isOther = false;
  qsizetype from = 0;
  // Rulers of many equal signs, and texts of nothing but signs, need no care and would cost much.
  constexpr int kLongestRun = 4;
  constexpr int kMostPieces = 1000;
  int run = 1;
  int pieces = 0;
  for (qsizetype i = 1; i < text.size() && pieces < kMostPieces; ++i) {
    run = text[i] == text[i - 1] ? run + 1 : 1;
    if (run > kLongestRun || !joins(i)) continue;
    ++pieces;
    cursor.insertText(text.mid(from, i - from), isOther ? other : format);
    isOther = !isOther;
    from = i;
  }
  cursor.insertText(text.mid(from), isOther ? other : format);
}

void askAndOpenLink(QWidget* parent, const QString& target) {
  if (!isOpenableLink(target)) return;
  const QUrl url(target, QUrl::StrictMode);
  auto* box = new QMessageBox(parent);
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setTextFormat(Qt::PlainText);
  box->setIcon(QMessageBox::Question);
  box->setWindowTitle(QObject::tr("Open link"));
  box->setText(QObject::tr("Open this address outside Vitrine?"));
  // Encoded: letters that look like others, and characters that turn text around, show.
  box->setInformativeText(QString::fromUtf8(url.toEncoded()));
  QPushButton* open = box->addButton(QObject::tr("Open"), QMessageBox::AcceptRole);
  QPushButton* cancel = box->addButton(QMessageBox::Cancel);
  box->setDefaultButton(cancel);
  QObject::connect(box, &QMessageBox::buttonClicked, box, [box, open, url](QAbstractButton* b) {
    if (b == open) QDesktopServices::openUrl(url);
    box->close();
  });
  box->open();
}

}  // namespace vitrine::ui

#include "ui/composer/input_box.h"

#include <QAbstractTextDocumentLayout>
#include <QDragEnterEvent>
#include <QKeyEvent>
#include <QMimeData>
#include <QTextBlock>
#include <QTextLayout>
#include <algorithm>
#include <cmath>

#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {
constexpr int kMostLines = 9;
}

InputBox::InputBox(QWidget* parent) : QPlainTextEdit(parent) {
  setProperty("kind", "input");
  setFrameShape(QFrame::NoFrame);
  setTabChangesFocus(true);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setWordWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  setCenterOnScroll(false);
  document()->setDocumentMargin(0);
  connect(this, &QPlainTextEdit::textChanged, this, &InputBox::heightChanged);
  connect(&Theme::instance(), &Theme::changed, this, &InputBox::applyTheme);
  applyTheme();
}

void InputBox::applyTheme() {
  setFont(Theme::instance().textFont());
  emit heightChanged();
}

int InputBox::heightAt(int width) const {
  // QPlainTextEdit lays out what it shows; the lines that the box may have are counted here.
  const QFontMetrics metrics(Theme::instance().textFont());
  const int lineHeight = metrics.lineSpacing();
  int lines = 0;
  QTextOption option;
  option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  for (QTextBlock block = document()->begin(); block.isValid() && lines < kMostLines;
       block = block.next()) {
    const QString text = block.text().left(2000);
    if (metrics.horizontalAdvance(text) <= width) {
      ++lines;
      continue;
    }
    QTextLayout layout(text, Theme::instance().textFont());
    layout.setTextOption(option);
    layout.beginLayout();
    while (lines < kMostLines) {
      QTextLine line = layout.createLine();
      if (!line.isValid()) break;
      line.setLineWidth(width);
      ++lines;
    }
    layout.endLayout();
  }
  return std::max(1, lines) * lineHeight + 2;
}

void InputBox::inputMethodEvent(QInputMethodEvent* event) {
  m_composing = !event->preeditString().isEmpty();
  QPlainTextEdit::inputMethodEvent(event);
}

void InputBox::keyPressEvent(QKeyEvent* event) {
  const bool enter = event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter;
  if (enter && !m_composing) {
    if (event->modifiers() & (Qt::ShiftModifier | Qt::ControlModifier)) {
      insertPlainText(QStringLiteral("\n"));
      ensureCursorVisible();
    } else {
      emit sendRequested();
    }
    return;
  }
  if (event->key() == Qt::Key_Escape && !m_composing) {
    emit cancelRequested();
    return;
  }
  if (event->key() == Qt::Key_PageUp || event->key() == Qt::Key_PageDown) {
    if (blockCount() < kMostLines) {
      event->ignore();  // the transcript scrolls
      return;
    }
  }
  QPlainTextEdit::keyPressEvent(event);
}

// Files are the window's to take.
void InputBox::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) {
    event->ignore();
  } else {
    QPlainTextEdit::dragEnterEvent(event);
  }
}

void InputBox::dragMoveEvent(QDragMoveEvent* event) {
  if (event->mimeData()->hasUrls()) {
    event->ignore();
  } else {
    QPlainTextEdit::dragMoveEvent(event);
  }
}

bool InputBox::canInsertFromMimeData(const QMimeData* source) const {
  return source->hasText() && !source->hasUrls();
}

void InputBox::insertFromMimeData(const QMimeData* source) {
  if (!source->hasText()) return;
  const QString text = source->text();
  if (text.size() + document()->characterCount() > kMostCharacters) {
    emit largePaste(text);
    return;
  }
  insertPlainText(text);
  ensureCursorVisible();
}

}  // namespace vitrine::ui

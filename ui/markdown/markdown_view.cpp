#include "ui/markdown/markdown_view.h"

#include <QAbstractTextDocumentLayout>
#include <QClipboard>
#include <QGuiApplication>
#include <QPainter>
#include <QPushButton>
#include <QTextBlock>
#include <utility>

#include "ui/markdown/markdown_metrics.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

MarkdownView::MarkdownView(QWidget* parent) : TextView(parent), m_writer(document()) {
  setAccessibleName(tr("Answer"));
  document()->setDefaultFont(Theme::instance().textFont());
}

void MarkdownView::setSource(const QString& source) {
  m_writer.setSource(source);
  placeButtons();
}

void MarkdownView::setStreaming(bool streaming) {
  if (streaming == m_streaming) return;
  m_streaming = streaming;
  viewport()->update();
}

void MarkdownView::applyTheme() {
  document()->setDefaultFont(Theme::instance().textFont());
  m_writer.rewrite();
  for (QPushButton* button : m_copyButtons) button->setFont(Theme::instance().figureFont(11));
  placeButtons();
}

QString MarkdownView::code(int index) const {
  const auto& code = m_writer.codeBlocks();
  if (index < 0 || index >= int(code.size())) return {};
  return m_writer.blocks()[code[index].block].text;
}

QRect MarkdownView::codeFrame(const DocumentWriter::CodeBlock& code) const {
  const QAbstractTextDocumentLayout* layout = document()->documentLayout();
  const QTextBlock first = document()->findBlock(code.first);
  const QTextBlock last = document()->findBlock(code.last);
  const QRectF top = layout->blockBoundingRect(first);
  const QRectF bottom = layout->blockBoundingRect(last);
  const MarkdownBlock& block = m_writer.blocks()[code.block];
  const double left = MarkdownMetrics::quoteIndent() * block.quoteDepth +
                      MarkdownMetrics::listIndent() * block.listDepth;
  const double y = top.top() - MarkdownMetrics::codePadding() - MarkdownMetrics::codeHeader();
  return QRectF(left, y, viewport()->width() - left,
                bottom.bottom() + MarkdownMetrics::codePadding() - y)
      .toAlignedRect();
}

void MarkdownView::placeButtons() {
  const auto& code = m_writer.codeBlocks();
  while (m_copyButtons.size() > code.size()) {
    delete m_copyButtons.back();
    m_copyButtons.pop_back();
  }
  while (m_copyButtons.size() < code.size()) {
    auto* button = new QPushButton(tr("Copy"), viewport());
    button->setProperty("kind", "codeCopy");
    button->setCursor(Qt::PointingHandCursor);
    button->setAccessibleName(tr("Copy code"));
    button->setFont(Theme::instance().figureFont(11));
    const int index = int(m_copyButtons.size());
    connect(button, &QPushButton::clicked, this, [this, index] {
      QGuiApplication::clipboard()->setText(this->code(index));
      emit codeCopied();
    });
    m_copyButtons.push_back(button);
    button->show();
  }
  for (std::size_t i = 0; i < code.size(); ++i) {
    const QRect frame = codeFrame(code[i]);
    const QSize size = m_copyButtons[i]->sizeHint();
    const int header = int(MarkdownMetrics::codeHeader());
    m_copyButtons[i]->setGeometry(frame.right() - size.width() - 3, frame.top() + 2, size.width(),
                                  header - 3);
  }
}

void MarkdownView::resizeEvent(QResizeEvent* event) {
  TextView::resizeEvent(event);
  placeButtons();
}

void MarkdownView::paintFrames(QPainter& painter, const QRect& clip) const {
  const Theme& theme = Theme::instance();
  const Tokens& t = theme.tokens();
  const int header = int(MarkdownMetrics::codeHeader());
  for (const DocumentWriter::CodeBlock& code : m_writer.codeBlocks()) {
    const QRect frame = codeFrame(code);
    if (!frame.intersects(clip)) continue;
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(t.line);
    painter.setBrush(t.code);
    painter.drawRoundedRect(QRectF(frame).adjusted(0.5, 0.5, -0.5, -0.5), theme.px(7), theme.px(7));
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.drawLine(frame.left() + 1, frame.top() + header, frame.right() - 1,
                     frame.top() + header);
    const MarkdownBlock& block = m_writer.blocks()[code.block];
    painter.setFont(theme.figureFont(11));
    painter.setPen(readableOn(t.muted, t.code));
    const QRect label(frame.left() + int(MarkdownMetrics::codePadding()), frame.top(),
                      frame.width() - theme.px(90), header);
    const QString language = block.language.isEmpty() ? tr("code") : block.language;
    painter.drawText(label, Qt::AlignVCenter | Qt::AlignLeft | Qt::TextSingleLine,
                     painter.fontMetrics().elidedText(language, Qt::ElideRight, label.width()));
  }
  const QAbstractTextDocumentLayout* layout = document()->documentLayout();
  const int bar = theme.px(3);
  for (QTextBlock block = document()->begin(); block.isValid(); block = block.next()) {
    const QTextBlockFormat format = block.blockFormat();
    const int quotes = format.intProperty(DocumentWriter::kQuoteDepth);
    const bool rule = format.boolProperty(DocumentWriter::kRuleProperty);
    if (quotes == 0 && !rule) continue;
    const QRectF rect = layout->blockBoundingRect(block);
    if (rule) {
      painter.fillRect(QRectF(format.leftMargin(), std::round(rect.center().y()),
                              viewport()->width() - format.leftMargin(), 1),
                       t.line);
    }
    const int depthAbove =
        block.previous().isValid()
            ? block.previous().blockFormat().intProperty(DocumentWriter::kQuoteDepth)
            : 0;
    for (int depth = 0; depth < quotes; ++depth) {
      // Bars of neighbouring blocks join across the gap between them.
      const double gap = depth < depthAbove ? format.topMargin() : 0;
      painter.fillRect(QRectF(depth * MarkdownMetrics::quoteIndent(), rect.top() - gap, bar,
                              rect.height() + gap),
                       mix(t.line, t.faint, 0.5));
    }
  }
}

void MarkdownView::paintEvent(QPaintEvent* event) {
  {
    QPainter painter(viewport());
    paintFrames(painter, event->rect());
  }
  TextView::paintEvent(event);
  if (std::exchange(m_firstPaintDue, false)) emit firstTextPainted();
  if (m_streaming) {
    QTextCursor end(document());
    end.movePosition(QTextCursor::End);
    const QRect at = cursorRect(end);
    const Theme& theme = Theme::instance();
    QPainter painter(viewport());
    const int height = theme.px(15);
    painter.fillRect(
        QRect(at.right() + theme.px(2), at.bottom() - height - theme.px(1), theme.px(7), height),
        theme.tokens().generated);
  }
}

}  // namespace vitrine::ui

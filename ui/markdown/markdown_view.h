#pragma once

#include <QPointer>
#include <vector>

#include "ui/markdown/document_writer.h"
#include "ui/markdown/text_view.h"

class QPushButton;

namespace vitrine::ui {

/// An answer: Markdown laid out as text, with frames around code, a button to copy it, and a caret
/// at the end while it is being written.
class MarkdownView final : public TextView {
  Q_OBJECT
 public:
  explicit MarkdownView(QWidget* parent = nullptr);

  /// The whole source so far; cheap when it only grew.
  void setSource(const QString& source);
  QString sourceText() const override { return m_writer.source(); }
  void setStreaming(bool streaming);
  /// The next painting is told by firstTextPainted().
  void announceNextPaint() { m_firstPaintDue = true; }
  const DocumentWriter& writer() const { return m_writer; }
  /// The code of a block, exactly as it stands in the source.
  QString code(int index) const;

 signals:
  void codeCopied();
  /// See announceNextPaint().
  void firstTextPainted();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void applyTheme() override;

 private:
  QRect codeFrame(const DocumentWriter::CodeBlock& code) const;
  void placeButtons();
  void paintFrames(QPainter& painter, const QRect& clip) const;

  DocumentWriter m_writer;
  std::vector<QPushButton*> m_copyButtons;  // one a code block
  bool m_streaming = false;
  bool m_firstPaintDue = false;
};

}  // namespace vitrine::ui

#include "ui/chat/turn_bar.h"

#include <QPainter>
#include <QPainterPath>
#include <algorithm>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

TurnBar::Figures TurnBar::figuresOf(const app::TurnMetrics& metrics) {
  Figures figures;
  figures.reused = metrics.report.reusedTokens;
  figures.prefilled = metrics.report.prefilledTokens;
  figures.generated = metrics.report.generatedTokens;
  figures.ttftMs = metrics.report.ttftMs;
  figures.forecastMs = metrics.report.forecastTtftMs;
  figures.tpotMs = metrics.report.tpotMs;
  switch (metrics.report.stopReason) {
    case engine::StopReason::kCancelled:
      figures.note = tr("stopped");
      break;
    case engine::StopReason::kContext:
      figures.note = tr("context full");
      break;
    case engine::StopReason::kLength:
      figures.note = tr("length limit");
      break;
    case engine::StopReason::kEnd:
    case engine::StopReason::kStopText:
      break;
  }
  return figures;
}

TurnBar::TurnBar(QWidget* parent) : QWidget(parent) {
  connect(&Theme::instance(), &Theme::changed, this, [this] {
    updateGeometry();
    update();
  });
}

void TurnBar::setFigures(const Figures& figures) {
  if (figures == m_figures) return;
  m_figures = figures;
  QStringList words{tr("%1 tokens reused").arg(countText(figures.reused)),
                    tr("%1 prefilled").arg(countText(figures.prefilled)),
                    tr("%1 generated").arg(countText(figures.generated))};
  if (figures.ttftMs > 0) {
    words << (figures.forecastMs >= 0
                  ? tr("first token after %1 (forecast %2)")
                        .arg(millisecondsText(figures.ttftMs), millisecondsText(figures.forecastMs))
                  : tr("first token after %1").arg(millisecondsText(figures.ttftMs)));
  }
  if (figures.tpotMs > 0) {
    words << tr("%1 for each further token").arg(millisecondsText(figures.tpotMs));
  }
  if (!figures.note.isEmpty()) words << figures.note;
  setAccessibleName(tr("Turn"));
  setAccessibleDescription(words.join(QStringLiteral(", ")));
  setToolTip(words.join(QStringLiteral(" · ")));
  update();
}

QSize TurnBar::sizeHint() const {
  return {Theme::instance().px(400), Theme::instance().px(18)};
}

void TurnBar::paintEvent(QPaintEvent*) {
  const Theme& theme = Theme::instance();
  const Tokens& t = theme.tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);

  const int counts[] = {m_figures.reused, m_figures.prefilled, m_figures.generated};
  const int pending = std::max(0, m_figures.prefillTotal - m_figures.prefilled);
  const QColor colours[] = {t.reused, t.prefilled, t.generated};
  const double total = counts[0] + counts[1] + counts[2] + pending;

  const double barHeight = theme.px(5);
  const QRectF bar(0, (height() - barHeight) / 2.0, theme.px(150), barHeight);
  QPainterPath outline;
  outline.addRoundedRect(bar, barHeight / 2, barHeight / 2);
  painter.fillPath(outline, t.line);
  if (total > 0) {
    painter.setClipPath(outline);
    double x = bar.left();
    for (int i = 0; i < 3; ++i) {
      if (counts[i] == 0) continue;
      // What is there is seen, however small its share.
      const double width = std::max<double>(bar.width() * counts[i] / total, theme.px(2));
      painter.fillRect(QRectF(x, bar.top(), width, bar.height()), colours[i]);
      x += width;
    }
    painter.setClipping(false);
  }

  const QFont font = theme.figureFont(12);
  painter.setFont(font);
  const QFontMetrics metrics(font);
  const int baseline = (height() + metrics.ascent() - metrics.descent()) / 2;

  // The right side first: it is what the left side has to leave room for.
  QStringList right;
  if (m_figures.ttftMs > 0) right << tr("TTFT %1").arg(millisecondsText(m_figures.ttftMs));
  if (m_figures.tpotMs > 0) right << tr("TPOT %1").arg(millisecondsText(m_figures.tpotMs));
  const QString rightText = right.join(QStringLiteral("  "));
  const int rightWidth = metrics.horizontalAdvance(rightText);
  painter.setPen(t.muted);
  painter.drawText(width() - rightWidth, baseline, rightText);

  const QString words[] = {tr("reused"), tr("prefilled"), tr("generated")};
  int x = int(bar.right()) + theme.px(10);
  const int limit = width() - rightWidth - theme.px(12);
  for (int i = 0; i < 3; ++i) {
    const QString number = countText(counts[i]);
    const QString word = QStringLiteral(" ") + words[i];
    const int width = metrics.horizontalAdvance(number + word);
    if (x + width > limit) return;
    painter.setPen(theme.ink(colours[i]));
    painter.drawText(x, baseline, number);
    painter.setPen(t.muted);
    painter.drawText(x + metrics.horizontalAdvance(number), baseline, word);
    x += width + theme.px(10);
  }
  if (!m_figures.note.isEmpty()) {
    painter.setPen(theme.ink(t.fault));
    painter.drawText(QRect(x, 0, std::max(0, limit - x), height()), Qt::AlignVCenter,
                     metrics.elidedText(QStringLiteral("· ") + m_figures.note, Qt::ElideRight,
                                        std::max(0, limit - x)));
  }
}

}  // namespace vitrine::ui

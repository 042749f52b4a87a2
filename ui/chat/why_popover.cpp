#include "ui/chat/why_popover.h"

#include <QGridLayout>
#include <QScreen>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/cache_words.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kWidth = 440;

// Line ends and blanks are seen: they are what often differs.
QString visible(const QString& text) {
  QString shown;
  for (const QChar c : text) {
    if (c == u'\n') {
      shown += QStringLiteral("↵\n");
    } else if (c == u' ') {
      shown += QChar(0x00b7);
      shown += QChar(0x200b);  // a line may end here
    } else {
      shown += c.isPrint() ? c : QChar(0xfffd);
    }
  }
  if (shown.endsWith(u'\n')) shown.chop(1);
  return shown;
}

// Text of a difference in the ink of its meaning.
class DifferenceText final : public QLabel {
 public:
  DifferenceText(const QString& text, const QColor& colour, QWidget* parent) : QLabel(parent) {
    setTextFormat(Qt::PlainText);
    setWordWrap(true);
    setText(text);
    setFont(Theme::instance().figureFont(12));
    setTextInteractionFlags(Qt::TextSelectableByMouse);
    // The program's style sheet would have the last word over a palette.
    setStyleSheet(QStringLiteral("color: %1").arg(Theme::instance().ink(colour).name()));
  }
};

QString sentenceOf(const engine::TurnReport& report) {
  using engine::ReuseCause;
  switch (report.reuse.cause) {
    case ReuseCause::kNew:
      return WhyPopover::tr("Nothing was cached of this chat yet.");
    case ReuseCause::kChanged:
      return WhyPopover::tr(
                 "The prompt is the same as what is cached up to token %1. From there on it "
                 "differs, and keys and values of all that follows depend on it.")
          .arg(countText(report.reuse.firstNewPosition));
    case ReuseCause::kEvicted:
      if (report.reuse.reason != "evicted") {
        return WhyPopover::tr("What was cached of this chat is gone.");
      }
      return WhyPopover::tr(
          "The blocks of this chat had to make room for others. A larger KV budget (Settings) "
          "keeps more.");
    case ReuseCause::kPrecision:
      return WhyPopover::tr(
          "The model, its precision or the form of the cache changed: what was cached does not "
          "fit any more.");
    case ReuseCause::kOff:
      return WhyPopover::tr("The cache, or its reuse, is switched off.");
    case ReuseCause::kNone:
      break;
  }
  return WhyPopover::tr(
      "All that could be reused was: the new text is computed, and what does not fill a whole "
      "block.");
}

}  // namespace

WhyPopover::WhyPopover(const engine::TurnReport& report, QWidget* parent)
    : QFrame(parent, Qt::Popup) {
  setProperty("kind", "card");
  setAttribute(Qt::WA_DeleteOnClose);
  setAccessibleName(tr("Why tokens had to be computed"));
  const Theme& theme = Theme::instance();
  setFixedWidth(theme.px(kWidth));
  m_column = new QVBoxLayout(this);
  m_column->setContentsMargins(theme.px(14), theme.px(12), theme.px(14), theme.px(12));
  m_column->setSpacing(theme.px(8));
  addLine(reuseText(report), true);
  addLine(sentenceOf(report), false);
  if (report.reuse.cause == engine::ReuseCause::kChanged) {
    addDifference(QString::fromStdString(report.reuse.cachedText),
                  QString::fromStdString(report.reuse.promptText));
  }
  if (QString restore = restoreText(report.restore); !restore.isEmpty()) {
    restore[0] = restore[0].toUpper();
    addLine(restore + u'.', false);
  }
}

void WhyPopover::addLine(const QString& text, bool strong) {
  auto* label = new PlainLabel(text, strong ? LabelStyle::kBody : LabelStyle::kMuted, this);
  label->setWordWrap(true);
  m_column->addWidget(label);
  m_words << text;
}

void WhyPopover::addDifference(const QString& before, const QString& after) {
  const Difference difference = differenceOf(before, after);
  const Tokens& t = Theme::instance().tokens();
  auto* grid = new QGridLayout;
  grid->setHorizontalSpacing(Theme::instance().px(12));
  grid->setVerticalSpacing(Theme::instance().px(6));
  grid->setColumnStretch(1, 1);
  int row = 0;
  const auto add = [&](const QString& name, const QString& text, const QColor& colour) {
    auto* label = new PlainLabel(name, LabelStyle::kMuted, this);
    grid->addWidget(label, row, 0, Qt::AlignTop);
    grid->addWidget(
        new DifferenceText(text.isEmpty() ? tr("(nothing)") : visible(text), colour, this), row++,
        1);
    m_words << name + QStringLiteral(": ") + text;
  };
  add(tr("cached"), difference.before, t.fault);
  add(tr("now"), difference.after, t.prefilled);
  if (!difference.common.isEmpty()) add(tr("then both"), difference.common, t.muted);
  m_column->addLayout(grid);
}

void WhyPopover::openBelow(const QWidget* anchor) {
  ensurePolished();
  const int height =
      layout()->hasHeightForWidth() ? layout()->totalHeightForWidth(width()) : sizeHint().height();
  resize(width(), height);
  QPoint at = anchor->mapToGlobal(QPoint(0, anchor->height() + 2));
  if (const QScreen* screen = anchor->screen()) {
    const QRect room = screen->availableGeometry();
    at.setX(std::clamp(at.x(), room.left(), std::max(room.left(), room.right() - width())));
    if (at.y() + height > room.bottom()) {
      at.setY(std::max(room.top(), anchor->mapToGlobal(QPoint(0, 0)).y() - height - 2));
    }
  }
  move(at);
  show();
  setFocus();
}

}  // namespace vitrine::ui

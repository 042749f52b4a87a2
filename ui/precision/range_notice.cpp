#include "ui/precision/range_notice.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QPainter>
#include <QProgressBar>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>

#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

constexpr int kWidest = 620, kBelowEdge = 10, kBesideButtons = 52;
constexpr int kStripe = 4;

}  // namespace

RangeNotice::RangeNotice(QWidget* place) : QFrame(place) {
  setObjectName("rangeNotice");
  setAccessibleName(tr("Warning"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(18, 12, 14, 12);
  column->setSpacing(6);
  m_title = new PlainLabel(LabelStyle::kBody, this);
  m_title->setObjectName("rangeNoticeTitle");
  m_title->setWordWrap(true);
  QFont bold = m_title->font();
  bold.setWeight(QFont::DemiBold);
  m_title->setFont(bold);
  column->addWidget(m_title);
  m_words = new PlainLabel(LabelStyle::kMuted, this);
  m_words->setObjectName("rangeNoticeWords");
  m_words->setWordWrap(true);
  column->addWidget(m_words);

  m_progressBox = new QWidget(this);
  auto* progress = new QHBoxLayout(m_progressBox);
  progress->setContentsMargins(0, 0, 0, 0);
  m_progressText = new PlainLabel(LabelStyle::kMuted, m_progressBox);
  m_progress = new QProgressBar(m_progressBox);
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setAccessibleName(tr("Progress of the calibration"));
  m_stop = new QPushButton(tr("Stop"), m_progressBox);
  m_stop->setProperty("kind", "link");
  m_stop->setAccessibleName(tr("Stop the calibration"));
  progress->addWidget(m_progressText);
  progress->addWidget(m_progress, 1);
  progress->addWidget(m_stop);
  m_progressBox->hide();
  column->addWidget(m_progressBox);

  auto* row = new QHBoxLayout;
  m_dynamic = new QPushButton(tr("Use dynamic scales"), this);
  m_dynamic->setObjectName("rangeDynamic");
  m_dynamic->setToolTip(tr("Each row gets scales of its own again: nothing is clipped"));
  m_calibrate = new QPushButton(tr("Calibrate on this chat"), this);
  m_calibrate->setObjectName("rangeCalibrate");
  m_dismiss = new QPushButton(tr("Dismiss"), this);
  m_dismiss->setObjectName("rangeDismiss");
  m_dismiss->setProperty("kind", "quiet");
  m_dismiss->setToolTip(tr("Not told again for this profile and these layers"));
  row->addWidget(m_dynamic);
  row->addWidget(m_calibrate);
  row->addStretch(1);
  row->addWidget(m_dismiss);
  column->addLayout(row);
  for (QPushButton* button : {m_dynamic, m_calibrate, m_dismiss, m_stop}) {
    button->setFocusPolicy(Qt::TabFocus);  // a click leaves the focus where the person writes
  }
  connect(m_dynamic, &QPushButton::clicked, this, &RangeNotice::dynamicWanted);
  connect(m_calibrate, &QPushButton::clicked, this, &RangeNotice::calibrationWanted);
  connect(m_dismiss, &QPushButton::clicked, this, &RangeNotice::acknowledged);
  connect(m_stop, &QPushButton::clicked, this, &RangeNotice::stopWanted);
  place->installEventFilter(this);
  connect(&Theme::instance(), &Theme::changed, this, &RangeNotice::arrange, Qt::QueuedConnection);
  hide();
}

QString RangeNotice::title() const {
  return m_title->text();
}

QString RangeNotice::words() const {
  return m_words->text();
}

void RangeNotice::showFinding(const QString& title, const QString& words) {
  m_title->setText(title);
  m_words->setStyle(LabelStyle::kMuted);
  m_words->setText(words);
  setAccessibleDescription(title + QLatin1Char(' ') + words);
  show();
  arrange();
  raise();
}

void RangeNotice::setCanCalibrate(bool can, const QString& whyNot) {
  m_calibrate->setEnabled(can);
  m_calibrate->setToolTip(
      can ? tr("Reads this chat beside it, saves its ranges as a profile, and switches to them")
          : whyNot);
}

void RangeNotice::showProgress(const QString& stage, double fraction) {
  const bool running = fraction >= 0;
  m_progressBox->setVisible(running);
  m_dynamic->setEnabled(!running);
  m_progressText->setText(stage);
  m_progress->setValue(int(std::max(0.0, fraction) * 1000));
  arrange();
}

void RangeNotice::showFault(const QString& words) {
  m_words->setStyle(LabelStyle::kFault);
  m_words->setText(words);
  arrange();
}

void RangeNotice::arrange() {
  if (isHidden()) return;
  const Theme& theme = Theme::instance();
  const QWidget* place = parentWidget();
  const int width =
      std::min(theme.px(kWidest), std::max(240, place->width() - 2 * theme.px(kBesideButtons)));
  const int height =
      layout()->hasHeightForWidth() ? layout()->totalHeightForWidth(width) : sizeHint().height();
  setGeometry((place->width() - width) / 2, theme.px(kBelowEdge), width, height);
}

bool RangeNotice::eventFilter(QObject* watched, QEvent* event) {
  if (watched == parentWidget() && event->type() == QEvent::Resize) arrange();
  return QFrame::eventFilter(watched, event);
}

void RangeNotice::paintEvent(QPaintEvent*) {
  const Tokens& tokens = Theme::instance().tokens();
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF area = QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5);
  painter.setBrush(tokens.raised);
  painter.setPen(QPen(tokens.line, 1));
  painter.drawRoundedRect(area, 7, 7);
  painter.setPen(Qt::NoPen);
  painter.setBrush(tokens.prefilled);  // caution
  painter.drawRoundedRect(QRectF(6, 10, kStripe, height() - 20.0), 2, 2);
}

}  // namespace vitrine::ui

#include "ui/studio/studio_page.h"

#include <QFrame>
#include <QPushButton>
#include <QScrollArea>
#include <QStackedWidget>
#include <QTabBar>
#include <QVBoxLayout>

#include "app/chat/engine_client.h"
#include "app/text.h"
#include "ui/common/engine_switching.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/progress_card.h"
#include "ui/common/toast.h"
#include "ui/studio/calibrate_dialog.h"
#include "ui/studio/demo_section.h"
#include "ui/studio/loss_section.h"
#include "ui/studio/outlier_section.h"
#include "ui/studio/profile_section.h"
#include "ui/studio/range_section.h"
#include "ui/studio/sensitivity_section.h"
#include "ui/studio/studio_state.h"
#include "ui/studio/studio_words.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

using app::toQString;
using app::studio::StudioSession;
using Job = StudioState::Job;

StudioPage::StudioPage(app::EngineClient& engine, app::Settings& settings,
                       app::ConversationStore& chats, const QString& folder, QWidget* parent)
    : QWidget(parent), m_state(new StudioState(engine, settings, chats, folder, this)) {
  setAccessibleName(tr("Studio"));
  setProperty("wide", true);  // it needs the inspector's room
  setProperty("kind", "chat");
  setAttribute(Qt::WA_StyledBackground);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(34, 22, 34, 0);
  column->setSpacing(10);
  column->addWidget(makeHead());
  m_progress = new ProgressCard(tr("Progress of the studio"), QStringLiteral("stopStudio"), this);
  connect(m_progress, &ProgressCard::stopWanted, &m_state->session(), &StudioSession::stop);
  column->addWidget(m_progress);
  m_fault = new PlainLabel(LabelStyle::kFault, this);
  m_fault->setObjectName("studioFault");
  m_fault->setWordWrap(true);
  m_fault->hide();
  column->addWidget(m_fault);
  m_tabs = new QTabBar(this);
  m_tabs->setObjectName("studioTabs");
  m_tabs->setAccessibleName(tr("Sections of the studio"));
  m_tabs->setDrawBase(false);
  m_tabs->setExpanding(false);
  column->addWidget(m_tabs);
  setFocusProxy(m_tabs);
  m_stack = new QStackedWidget(this);
  column->addWidget(m_stack, 1);

  m_profiles = new ProfileSection(*m_state);
  m_ranges = new RangeSection(*m_state);
  m_outliers = new OutlierSection(*m_state);
  m_sensitivity = new SensitivitySection(*m_state);
  m_loss = new LossSection(*m_state);
  m_demo = new DemoSection;
  addSection(tr("Profiles"), m_profiles);
  addSection(tr("Ranges"), m_ranges);
  addSection(tr("Outliers"), m_outliers);
  addSection(tr("Sensitivity"), m_sensitivity);
  addSection(tr("Loss"), m_loss);
  addSection(tr("Why outliers hurt"), m_demo);
  connect(m_tabs, &QTabBar::currentChanged, m_stack, &QStackedWidget::setCurrentIndex);
  connect(m_profiles, &ProfileSection::calibrateWanted, this, &StudioPage::openWizard);
  connect(m_profiles, &ProfileSection::faultHappened, this, &StudioPage::showFault);
  connect(m_sensitivity, &SensitivitySection::faultHappened, this, &StudioPage::showFault);
  connect(m_loss, &LossSection::faultHappened, this, &StudioPage::showFault);
  connect(m_state, &StudioState::readinessChanged, this, &StudioPage::update);
  connect(m_state, &StudioState::modelChanged, this, [this] {
    showFault({});
    update();
  });
  connectSession();
  update();
}

StudioPage::~StudioPage() {
  m_state->session().disconnect(this);  // its last words come to nobody
}

void StudioPage::addSection(const QString& name, QWidget* section) {
  auto* scroll = new QScrollArea(m_stack);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* place = new QWidget(scroll);
  place->setProperty("kind", "chat");
  auto* layout = new QVBoxLayout(place);
  layout->setContentsMargins(0, 14, 2, 22);
  layout->addWidget(section);
  scroll->setWidget(place);
  m_stack->addWidget(scroll);
  m_tabs->addTab(name);
}

QWidget* StudioPage::makeHead() {
  auto* head = new QWidget(this);
  auto* row = new QHBoxLayout(head);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(8);
  auto* titles = new QVBoxLayout;
  titles->setSpacing(2);
  titles->addWidget(
      new PlainLabel(tr("What INT8 costs here, and how to get it back"), LabelStyle::kTitle, head));
  m_subtitle = new PlainLabel(LabelStyle::kMuted, head);
  m_subtitle->setElided(Qt::ElideRight);
  titles->addWidget(m_subtitle);
  row->addLayout(titles, 1);
  auto* back = new QPushButton(tr("Back to the chat"), head);
  back->setProperty("kind", "quiet");
  back->setObjectName("studioBack");
  connect(back, &QPushButton::clicked, this, &StudioPage::closeWanted);
  m_calibrate = new QPushButton(tr("Calibrate…"), head);
  m_calibrate->setProperty("kind", "primary");
  m_calibrate->setObjectName("calibrate");
  connect(m_calibrate, &QPushButton::clicked, this, &StudioPage::openWizard);
  row->addWidget(back, 0, Qt::AlignTop);
  row->addWidget(m_calibrate, 0, Qt::AlignTop);
  return head;
}

void StudioPage::connectSession() {
  StudioSession* session = &m_state->session();
  connect(session, &StudioSession::runningChanged, this, [this](bool running) {
    if (running) {
      showFault({});
      m_progress->begin();
    } else {
      const bool hadFocus = m_progress->end();
      m_loss->finish();
      if (hadFocus) m_tabs->setFocus();
    }
    update();
  });
  connect(session, &StudioSession::progressed, this, [this](const QString& stage, double fraction) {
    m_progress->setFraction(fraction);
    m_progress->setStage(oneLine(stage, 100));
  });
  connect(session, &StudioSession::failed, this, [this](const engine::Error& error) {
    if (error.code != engine::ErrorCode::kCancelled) showFault(sentenceText(error.message));
  });
  connect(session, &StudioSession::calibrated, this, &StudioPage::takeCalibration);
  connect(session, &StudioSession::sensitivityMeasured, m_sensitivity,
          &SensitivitySection::takeReport);
  connect(session, &StudioSession::lossRowMeasured, this, [this](const app::studio::LossRow& row) {
    if (m_state->job() == Job::kLoss) m_loss->takeRow(row);
  });
  connect(session, &StudioSession::lossMeasured, this,
          [this](const std::vector<app::studio::LossRow>& rows) {
            if (m_state->job() == Job::kGain) m_sensitivity->takeGain(rows);
          });
}

void StudioPage::takeCalibration(const engine::CalibrationPtr& profile) {
  if (m_state->job() == Job::kCompareText) {
    return m_profiles->showAgainst(profile, toQString(profile->name));
  }
  if (const auto saved = m_state->saveProfile(*profile); !saved) {
    showFault(sentenceText(saved.error().message));
    return;
  }
  m_profiles->compareWithAnother();
  Toast::of(this)->showMessage(tr("Calibrated on %1 tokens: “%2” is saved and chosen.")
                                   .arg(countText(profile->tokens))
                                   .arg(oneLine(toQString(profile->name), 40)));
}

void StudioPage::update() {
  const auto info = m_state->engine().info();
  if (info) {
    QStringList words{oneLine(toQString(info->name), 60), toQString(info->backend.name).toUpper()};
    if (const auto& profile = m_state->profile()) {
      words << tr("profile “%1”").arg(oneLine(toQString(profile->name), 40));
    }
    m_subtitle->setText(words.join(QStringLiteral(" · ")));
  } else {
    m_subtitle->setText(
        tr("Open a model to calibrate and measure it. The last section needs none."));
  }
  m_calibrate->setEnabled(m_state->canStart());
}

void StudioPage::openWizard() {
  if (!m_state->canStart()) return;
  auto* dialog = new CalibrateDialog(*m_state, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  connect(dialog, &QDialog::accepted, this, [this, dialog] {
    if (m_state->canStart()) calibrate(dialog->job());
  });
  dialog->open();
}

void StudioPage::calibrate(app::studio::CalibrationJob job) {
  m_state->begin(Job::kCalibrate);
  m_state->session().calibrate(std::move(job));
}

void StudioPage::showFault(const QString& message) {
  m_fault->setText(message);
  m_fault->setVisible(!message.isEmpty());
}

void StudioPage::showSection(Section section) {
  m_tabs->setCurrentIndex(int(section));
}

StudioPage::Section StudioPage::section() const {
  return Section(m_tabs->currentIndex());
}

bool StudioPage::isRunning() const {
  return m_state->session().isRunning();
}

}  // namespace vitrine::ui

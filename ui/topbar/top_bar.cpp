#include "ui/topbar/top_bar.h"

#include <QHBoxLayout>
#include <QMenu>
#include <QPainter>
#include <QProgressBar>
#include <QPushButton>
#include <QResizeEvent>

#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/text.h"
#include "ui/common/attention_choices.h"
#include "ui/common/engine_switching.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/common/segmented_switch.h"
#include "ui/common/toggle_switch.h"
#include "ui/theme/theme.h"
#include "ui/topbar/app_mark.h"
#include "ui/topbar/chips.h"
#include "ui/topbar/device_menu.h"

namespace vitrine::ui {
namespace {

constexpr int kMostCollapsed = 7;

QFrame* makeChip(QWidget* parent) {
  auto* chip = new QFrame(parent);
  chip->setProperty("kind", "chip");
  chip->setFixedHeight(Theme::instance().px(30));
  auto* row = new QHBoxLayout(chip);
  row->setContentsMargins(10, 0, 10, 0);
  row->setSpacing(6);
  QObject::connect(&Theme::instance(), &Theme::changed, chip,
                   [chip] { chip->setFixedHeight(Theme::instance().px(30)); });
  return chip;
}

// "CPU · AVX-512": the kind of device and the first words of its instruction set.
QString deviceText(const engine::BackendInfo& backend) {
  QString kind = app::toQString(backend.name).toUpper();
  if (kind == QLatin1String("REFERENCE")) kind = TopBar::tr("Reference");
  const QString set = app::toQString(backend.instructionSet).section(u' ', 0, 0);
  return set.isEmpty() ? kind : kind + QStringLiteral(" · ") + set;
}

QString deviceToolTip(const engine::BackendInfo& backend) {
  QStringList lines = {app::toQString(backend.device), app::toQString(backend.instructionSet)};
  if (backend.kind != engine::BackendKind::kCuda) {
    lines << pluralText(backend.threads, TopBar::tr("%1 thread"), TopBar::tr("%1 threads"));
  }
  if (!backend.note.empty()) lines << TopBar::tr("No GPU: %1").arg(app::toQString(backend.note));
  return lines.join(u'\n');
}

}  // namespace

TopBar::TopBar(app::EngineClient& engine, app::Settings& settings, QWidget* parent)
    : QWidget(parent), m_engine(engine), m_settings(settings) {
  setAccessibleName(tr("Top bar"));
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(16, 0, 16, 0);
  row->setSizeConstraint(QLayout::SetNoConstraint);  // collapse() makes it fit
  row->setSpacing(10);

  row->addWidget(new AppMark(22, this));
  m_model = new ModelButton(this);
  m_model->setObjectName("modelButton");
  m_modelMenu = new QMenu(this);
  connect(m_model, &ModelButton::clicked, this, &TopBar::openModelMenu);
  row->addWidget(m_model);

  m_weights = new SegmentedSwitch(tr("Weights"), {}, this);
  m_weights->setObjectName("topWeights");
  connect(m_weights, &SegmentedSwitch::chosen, this, [this](int index) {
    const engine::WeightMode mode = m_weightModes[index];
    want([mode](engine::EngineConfig& config) { config.precision.weights = mode; });
  });
  row->addWidget(m_weights);
  m_kv = new SegmentedSwitch(tr("KV"),
                             {{QStringLiteral("FP16"), tr("Keys and values in 16 bits")},
                              {QStringLiteral("INT8"), tr("Keys and values in 8 bits: the cache "
                                                          "takes about half")}},
                             this);
  m_kv->setObjectName("topKv");
  connect(m_kv, &SegmentedSwitch::chosen, this, [this](int index) {
    want([index](engine::EngineConfig& config) {
      config.cache.type = index == 1 ? engine::KvType::kInt8 : engine::KvType::kFp16;
    });
  });
  row->addWidget(m_kv);

  m_attentionChip = new MenuChip(tr("Attention"), this);
  m_attentionChip->setObjectName("topAttention");
  m_attentionMenu = new QMenu(this);
  m_attentionMenu->setObjectName("attentionMenu");
  m_attentionMenu->setToolTipsVisible(true);
  connect(m_attentionMenu, &QMenu::aboutToShow, this, &TopBar::fillAttentionMenu);
  connect(m_attentionChip, &MenuChip::clicked, this, [this] {
    m_attentionMenu->popup(m_attentionChip->mapToGlobal(QPoint(0, m_attentionChip->height() + 4)));
  });
  row->addWidget(m_attentionChip);

  m_reuse = new ToggleSwitch(tr("Reuse cache"), this);
  m_reuse->setObjectName("topReuse");
  m_reuse->setChip(true);
  m_reuse->setToolTip(tr("On: a turn computes only what is new. Off: its whole prompt."));
  connect(m_reuse, &ToggleSwitch::toggled, this, [this](bool on) {
    if (!m_filling) want([on](engine::EngineConfig& config) { config.cache.reuse = on; });
  });
  row->addWidget(m_reuse);

  m_progressChip = makeChip(this);
  m_progressText = new PlainLabel(LabelStyle::kMuted, m_progressChip);
  m_progress = new QProgressBar(m_progressChip);
  m_progress->setRange(0, 1000);
  m_progress->setTextVisible(false);
  m_progress->setFixedWidth(90);
  m_progress->setAccessibleName(tr("Progress"));
  m_cancel = new QPushButton(tr("Stop"), m_progressChip);
  m_cancel->setObjectName("stopLoading");
  m_cancel->setProperty("kind", "link");
  m_cancel->setAccessibleName(tr("Stop loading or converting"));
  connect(m_cancel, &QPushButton::clicked, this, [this] { m_engine.cancelLoad(); });
  m_progressChip->layout()->addWidget(m_progressText);
  m_progressChip->layout()->addWidget(m_progress);
  m_progressChip->layout()->addWidget(m_cancel);
  m_progressChip->hide();
  row->addWidget(m_progressChip);

  row->addStretch(1);
  m_context = new ContextBar(this);
  m_context->setObjectName("contextChip");
  connect(m_context, &ContextBar::clicked, this, &TopBar::contextWanted);
  row->addWidget(m_context);
  m_device = new DeviceChip(this);
  m_device->setObjectName("deviceChip");
  m_deviceMenu = new QMenu(this);
  m_deviceMenu->setObjectName("deviceMenu");
  m_deviceMenu->setToolTipsVisible(true);
  connect(m_device, &DeviceChip::clicked, this, &TopBar::openDeviceMenu);
  row->addWidget(m_device);

  connect(&engine, &app::EngineClient::loadStarted, this, [this] {
    showProgress(tr("Preparing"), 0);
    showConfig();
  });
  connect(
      &engine, &app::EngineClient::loadProgressed, this,
      [this](quint64, const QString& stage, double fraction) { showProgress(stage, fraction); });
  const auto settled = [this] {
    showModel();
    showConfig();
  };
  connect(&engine, &app::EngineClient::modelLoaded, this, settled);
  connect(&engine, &app::EngineClient::modelUnloaded, this, settled);
  connect(&engine, &app::EngineClient::loadFailed, this, settled);
  connect(&engine, &app::EngineClient::busyChanged, m_device, &DeviceChip::setBusy);
  connect(&settings, &app::Settings::changed, this, &TopBar::showConfig);
  connect(&Theme::instance(), &Theme::changed, this, &TopBar::collapse, Qt::QueuedConnection);
  showModel();
  showConfig();
}

template <typename Change>
void TopBar::want(Change change) {
  engine::EngineConfig config = wantedConfig(m_engine, m_settings);
  change(config);
  switchEngine(m_engine, m_settings, config);
  showConfig();
}

void TopBar::openDeviceMenu() {
  const app::ModelInfoPtr info = m_engine.info();
  fillDeviceMenu(*m_deviceMenu, wantedConfig(m_engine, m_settings), info ? &info->backend : nullptr,
                 [this](engine::BackendKind kind, int device) {
                   want([&](engine::EngineConfig& config) {
                     config.backend = kind;
                     config.device = device;
                   });
                 });
  m_deviceMenu->popup(m_device->mapToGlobal(QPoint(0, m_device->height() + 4)));
}

void TopBar::showModel() {
  const app::ModelInfoPtr info = m_engine.info();
  if (!info) {
    m_model->setModel(tr("Choose a model"), {}, tr("Opens the list of models"));
    m_attentionChip->setProperty("wanted", false);
    m_device->setDevice(tr("No model"), tr("The device appears once a model is loaded."));
  } else {
    const QString quantization = app::toQString(info->quantization);
    m_model->setModel(
        modelFileName(info->path, quantization),
        QStringLiteral("%1 · %2").arg(quantization, bytesText(info->fileBytes)),
        tr("%1\ncalls itself: %2").arg(app::displayPath(info->path), app::toQString(info->name)));
    m_attentionChip->setProperty("wanted", true);
    m_device->setDevice(deviceText(info->backend), deviceToolTip(info->backend));
  }
  const QString native = info ? nativeWeightsText(*info) : QStringLiteral("Native");
  // A file that is FP16 already needs no second FP16.
  m_weightModes = native == QLatin1String("FP16")
                      ? QVector{engine::WeightMode::kNative, engine::WeightMode::kInt8}
                      : QVector{engine::WeightMode::kFp16, engine::WeightMode::kInt8,
                                engine::WeightMode::kNative};
  const engine::WeightMode wanted = wantedConfig(m_engine, m_settings).precision.weights;
  if (!m_weightModes.contains(wanted)) m_weightModes.prepend(wanted);
  QVector<SegmentedSwitch::Choice> choices;
  for (const engine::WeightMode mode : std::as_const(m_weightModes)) {
    const bool isNative = mode == engine::WeightMode::kNative;
    const bool isAsInFile =
        isNative && info && native == nativeFormatText(app::toQString(info->quantization));
    choices.append({isNative ? native : weightModeText(mode),
                    isAsInFile ? tr("As in the file, computed in that format")
                               : tr("Converted when the model is loaded or switched")});
  }
  m_weights->setChoices(choices);
}

void TopBar::showConfig() {
  m_filling = true;
  const app::ModelInfoPtr info = m_engine.info();
  const engine::EngineConfig wanted = wantedConfig(m_engine, m_settings);
  const engine::EngineConfig& running = info ? info->running : wanted;
  const bool switching = m_engine.isLoading();
  if (!m_weightModes.contains(wanted.precision.weights) ||
      !m_weightModes.contains(running.precision.weights)) {
    showModel();
    if (!m_weightModes.contains(running.precision.weights)) {
      m_weightModes.prepend(running.precision.weights);
    }
  }
  const auto weightIndex = [this](engine::WeightMode mode) { return m_weightModes.indexOf(mode); };
  m_weights->setCurrent(int(weightIndex(running.precision.weights)));
  m_weights->setPending(switching && wanted.precision.weights != running.precision.weights
                            ? int(weightIndex(wanted.precision.weights))
                            : -1);
  const auto kvIndex = [](engine::KvType type) { return type == engine::KvType::kInt8 ? 1 : 0; };
  m_kv->setCurrent(kvIndex(running.cache.type));
  m_kv->setPending(switching && wanted.cache.type != running.cache.type ? kvIndex(wanted.cache.type)
                                                                        : -1);
  showAttention();
  m_reuse->setChecked(wanted.cache.reuse);
  m_reuse->setEnabled(wanted.cache.enabled);
  m_progressChip->setVisible(switching);
  m_filling = false;
  collapse();
}

void TopBar::showAttention() {
  const app::ModelInfoPtr info = m_engine.info();
  if (!info) return;
  const int running = info->config.nKvHeads;
  const int wanted = kvHeadsOf(wantedConfig(m_engine, m_settings), *info);
  const bool approximate =
      engine::kvGrouping(info->ownKvHeads, running) == engine::KvGrouping::kPooled;
  QString text = attentionText(info->config.nHeads, running);
  if (approximate) text += QStringLiteral(" ≈");
  if (m_engine.isLoading() && wanted != running) {
    text += QStringLiteral(" → ") + attentionText(info->config.nHeads, wanted);
  }
  m_attentionChip->setChosen(text);
  QString toolTip =
      tr("%1 query heads share %2 key and value heads").arg(info->config.nHeads).arg(running);
  if (running != info->ownKvHeads) toolTip += tr(" (the model's own: %1)").arg(info->ownKvHeads);
  if (approximate) toolTip += tr("\nAveraged without further training: approximate answers");
  m_attentionChip->setToolTip(literalToolTip(toolTip));
}

void TopBar::fillAttentionMenu() {
  m_attentionMenu->clear();
  const app::ModelInfoPtr info = m_engine.info();
  if (!info) return;
  const int wanted = kvHeadsOf(wantedConfig(m_engine, m_settings), *info);
  for (const AttentionChoice& choice : attentionChoices(*info)) {
    QAction* action =
        m_attentionMenu->addAction(QStringLiteral("%1   %2").arg(choice.name, choice.effect));
    action->setCheckable(true);
    action->setChecked(choice.kvHeads == wanted);
    action->setToolTip(choice.isExact()
                           ? tr("The same answers, bit for bit")
                           : tr("Heads are averaged without further training: other answers"));
    connect(action, &QAction::triggered, this, [this, heads = choice.kvHeads] {
      const app::ModelInfoPtr now = m_engine.info();
      if (!now) return;
      want([&](engine::EngineConfig& config) { config = withKvHeads(config, heads, *now); });
    });
  }
}

void TopBar::showProgress(const QString& stage, double fraction) {
  const bool appears = m_progressChip->isHidden();
  m_progressText->setText(oneLine(stage, 40));
  m_progress->setValue(int(fraction * 1000));
  if (appears) {
    showConfig();
  } else {
    collapse();
  }
}

void TopBar::setContext(int usedTokens, int limitTokens) {
  const QSize before = m_context->sizeHint();
  m_context->setUse(usedTokens, limitTokens);
  if (m_context->sizeHint() != before) collapse();
}

void TopBar::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  collapse();
}

// Takes away step by step what is shown elsewhere too, until the rest fits.
void TopBar::collapse() {
  const bool switching = !m_progressChip->isHidden();
  const bool hasModel = m_attentionChip->property("wanted").toBool();
  for (int level = 0; level <= kMostCollapsed; ++level) {
    m_model->setMostWidth(level < 1 ? 300 : level < 4 ? 240 : 150);
    m_context->setLevel(level < 2 ? 0 : level < 5 ? 1 : 2);
    m_attentionChip->setVisible(hasModel && level < 3 && !switching);
    m_device->setVisible(level < 4);
    m_progress->setVisible(level < 5);
    m_progressText->setVisible(level < 4);
    m_reuse->setVisible(level < 6 && (!switching || level < 1));
    m_weights->setCompact(level >= 7);
    m_kv->setCompact(level >= 7);
    int wanted = 2 * 16;
    for (int i = 0; i < layout()->count(); ++i) {
      const QLayoutItem* item = layout()->itemAt(i);
      if (item->widget() && !item->widget()->isHidden()) {
        wanted += item->sizeHint().width() + layout()->spacing();
      }
    }
    if (wanted <= width()) break;
  }
}

void TopBar::openModelMenu() {
  fillModelMenu();
  m_modelMenu->popup(m_model->mapToGlobal(QPoint(0, m_model->height() + 4)));
}

void TopBar::fillModelMenu() {
  m_modelMenu->clear();
  const app::ModelInfoPtr info = m_engine.info();
  int shown = 0;
  for (const std::filesystem::path& path : m_settings.recentModels()) {
    const QString text = oneLine(app::displayPath(path.filename()), 60);
    QAction* action = m_modelMenu->addAction(literalAction(text));
    action->setCheckable(true);
    action->setChecked(info && info->path == path.string());
    action->setToolTip(literalToolTip(app::displayPath(path)));
    connect(action, &QAction::triggered, this, [this, path] { emit modelWanted(path); });
    if (++shown == 8) break;
  }
  if (shown > 0) m_modelMenu->addSeparator();
  connect(m_modelMenu->addAction(tr("Open a GGUF file…")), &QAction::triggered, this,
          &TopBar::openFileWanted);
  connect(m_modelMenu->addAction(tr("All models…")), &QAction::triggered, this,
          &TopBar::modelsPageWanted);
  if (info) {
    m_modelMenu->addSeparator();
    connect(m_modelMenu->addAction(tr("Unload the model")), &QAction::triggered, this,
            [this] { m_engine.unload(); });
  }
}

}  // namespace vitrine::ui

#include <QCheckBox>
#include <QDir>
#include <QHBoxLayout>
#include <QPushButton>
#include <QSpinBox>

#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/text.h"
#include "engine/cache/archive_catalog.h"
#include "ui/common/engine_switching.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/settings/settings_pages.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

constexpr std::uint64_t kMegabyte = 1024 * 1024;

}  // namespace

ArchivePage::ArchivePage(app::EngineClient& engine, app::Settings& settings, QWidget* parent)
    : SettingsPage(tr("Warm resume"), parent) {
  auto* words = new PlainLabel(
      tr("Keys and values of a chat are written to disk when nothing else is to be done and at the "
         "end. A chat that is opened again, tomorrow or after others took its memory, then goes on "
         "without computing its history anew, if reading is faster. The files hold what the chats "
         "say; only you can read them."),
      LabelStyle::kMuted, this);
  words->setWordWrap(true);
  addWide(words);

  auto* on = new QCheckBox(tr("Keep the KV cache of chats on disk"), this);
  on->setObjectName("archiveOn");
  addField(tr("Warm resume"), on);

  auto* limit = new QSpinBox(this);
  limit->setObjectName("archiveLimit");
  limit->setRange(64, 1 << 20);
  limit->setSingleStep(256);
  limit->setSuffix(QStringLiteral(" MB"));
  limit->setFixedWidth(140);
  limit->setGroupSeparatorShown(true);
  limit->setKeyboardTracking(false);
  addField(tr("At most"), limit, tr("The chat that was used longest ago goes first."));

  auto* folder = new PlainLabel(LabelStyle::kFigure, this);
  folder->setObjectName("archiveFolder");
  folder->setElided(Qt::ElideMiddle);
  folder->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  folder->setText(QDir::toNativeSeparators(settings.archiveFolder()));
  folder->setToolTip(literalToolTip(folder->text()));
  addWide(new PlainLabel(tr("Folder"), LabelStyle::kBody, this));
  addWide(folder);

  auto* there = new QWidget(this);
  auto* row = new QHBoxLayout(there);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(16);
  auto* size = new PlainLabel(LabelStyle::kFigure, there);
  size->setObjectName("archiveSize");
  auto* removeAll = new QPushButton(tr("Delete all"), there);
  removeAll->setObjectName("archiveDelete");
  row->addWidget(size);
  row->addWidget(removeAll);
  row->addStretch();
  addField(tr("On disk now"), there);
  endFields();

  const auto fill = [&engine, &settings, on, limit, size, removeAll] {
    const QSignalBlocker noOn(on), noLimit(limit);
    const engine::ArchiveOptions wanted = wantedConfig(engine, settings).archive;
    on->setChecked(!wanted.folder.empty());
    limit->setEnabled(on->isChecked());
    limit->setValue(int(wanted.limitBytes / kMegabyte));
    const auto bytes = engine::ArchiveCatalog::bytesIn(app::toPath(settings.archiveFolder()));
    size->setText(bytes > 0 ? bytesText(bytes) : tr("nothing"));
    removeAll->setEnabled(bytes > 0);
  };
  const auto change = [&engine, &settings, on, limit, fill] {
    engine::EngineConfig config = wantedConfig(engine, settings);
    config.archive.folder =
        on->isChecked() ? app::toPath(settings.archiveFolder()) : std::filesystem::path();
    config.archive.limitBytes = std::uint64_t(limit->value()) * kMegabyte;
    switchEngine(engine, settings, config);
    fill();
  };
  fill();
  connect(on, &QCheckBox::toggled, this, change);
  connect(limit, &QSpinBox::valueChanged, this, change);
  connect(&engine, &app::EngineClient::modelLoaded, this, fill);
  connect(removeAll, &QPushButton::clicked, this, [&engine, &settings, fill] {
    engine::ArchiveCatalog::removeAll(app::toPath(settings.archiveFolder()));
    engine.clearArchive();  // it looks at its own list
    fill();
  });
}

}  // namespace vitrine::ui

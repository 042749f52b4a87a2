#include "ui/precision/kept_layers.h"

#include <QHBoxLayout>
#include <QLineEdit>
#include <QPushButton>
#include <QVBoxLayout>

#include "app/text.h"
#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

KeptLayers::KeptLayers(QWidget* parent) : QWidget(parent) {
  const Theme& theme = Theme::instance();
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(theme.px(6));
  m_fold = new QPushButton(this);
  m_fold->setObjectName("keptFold");
  m_fold->setProperty("kind", "link");
  column->addWidget(m_fold, 0, Qt::AlignLeft);
  m_body = new QWidget(this);
  auto* body = new QVBoxLayout(m_body);
  body->setContentsMargins(0, 0, 0, 0);
  body->setSpacing(theme.px(6));
  auto* row = new QHBoxLayout;
  row->setSpacing(theme.px(6));
  m_text = new QLineEdit(m_body);
  m_text->setObjectName("keptText");
  m_text->setAccessibleName(tr("Layers and matrices that stay in FP16"));
  m_text->setPlaceholderText(tr("0-2, *.down, 5.o, output"));
  m_text->setToolTip(
      tr("Layers (3, 0-5, * for all), with or without a part (q, k, v, o, gate, up, down), or "
         "output; commas between them"));
  row->addWidget(m_text, 1);
  m_apply = new QPushButton(tr("Apply"), m_body);
  m_apply->setObjectName("keptApply");
  row->addWidget(m_apply);
  m_none = new QPushButton(tr("None"), m_body);
  m_none->setObjectName("keptNone");
  m_none->setProperty("kind", "quiet");
  row->addWidget(m_none);
  body->addLayout(row);
  m_note = new PlainLabel(LabelStyle::kMuted, m_body);
  m_note->setObjectName("keptNote");
  m_note->setWordWrap(true);
  body->addWidget(m_note);
  m_fault = new PlainLabel(LabelStyle::kFault, m_body);
  m_fault->setObjectName("keptFault");
  m_fault->setWordWrap(true);
  body->addWidget(m_fault);
  column->addWidget(m_body);
  m_body->hide();

  connect(m_fold, &QPushButton::clicked, this, [this] { setOpen(m_body->isHidden()); });
  connect(m_text, &QLineEdit::textEdited, this, &KeptLayers::showTyped);
  connect(m_text, &QLineEdit::returnPressed, this, &KeptLayers::apply);
  connect(m_apply, &QPushButton::clicked, this, &KeptLayers::apply);
  connect(m_none, &QPushButton::clicked, this, [this] {
    m_text->clear();
    apply();
  });
  setKept({}, 0);
}

void KeptLayers::setBytesOf(std::function<std::uint64_t(const engine::MatrixSet&)> bytesOf) {
  m_bytesOf = std::move(bytesOf);
  showTyped();
}

void KeptLayers::setOpen(bool open) {
  m_body->setVisible(open);
  setKept(m_kept, m_nLayers);
}

void KeptLayers::setKept(const engine::MatrixSet& kept, int nLayers) {
  const bool isOther = !(kept == m_kept);
  m_kept = kept;
  m_nLayers = nLayers;
  const QString text = app::toQString(kept.text());
  if (isOther || !m_text->isModified()) m_text->setText(text);
  m_fold->setText(QStringLiteral("%1 %2").arg(
      m_body->isHidden() ? QStringLiteral("▸") : QStringLiteral("▾"),
      kept.empty() ? tr("Kept in FP16: none") : tr("Kept in FP16: %1").arg(oneLine(text, 30))));
  m_fold->setAccessibleName(tr("Layers kept in FP16"));
  m_fold->setAccessibleDescription(kept.empty() ? tr("none") : text);
  showTyped();
}

engine::Result<engine::MatrixSet> KeptLayers::typed() const {
  const QString text = m_text->text().simplified();
  if (text.isEmpty()) return engine::MatrixSet();
  return engine::MatrixSet::parse(app::toUtf8(text), m_nLayers);
}

void KeptLayers::showTyped() {
  const auto set = typed();
  m_fault->setVisible(!set);
  m_note->setVisible(bool(set));
  m_none->setEnabled(!m_kept.empty() || !m_text->text().isEmpty());
  if (!set) {
    m_apply->setEnabled(false);
    m_fault->setText(app::toQString(set.error().message));
    return;
  }
  m_apply->setEnabled(m_nLayers > 0 && !(*set == m_kept));
  QString note = set->empty()
                     ? tr("Everything is INT8. A layer that suffers most can stay in FP16; "
                          "the Studio ranks them.")
                     : pluralText(set->size(), tr("%1 matrix in FP16"), tr("%1 matrices in FP16"));
  if (!set->empty() && m_bytesOf) note += tr(", %1 more than INT8").arg(bytesText(m_bytesOf(*set)));
  m_note->setText(note);
}

void KeptLayers::apply() {
  const auto set = typed();
  if (!set || m_nLayers == 0) return;
  m_text->setModified(false);
  if (!(*set == m_kept)) emit wanted(*set);
}

}  // namespace vitrine::ui

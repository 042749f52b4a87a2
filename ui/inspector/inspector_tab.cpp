#include "ui/inspector/inspector_tab.h"

#include <QFrame>
#include <QHBoxLayout>
#include <QVBoxLayout>

#include "ui/common/plain_label.h"

namespace vitrine::ui {

ConversationUse useOf(const engine::EngineSnapshot& snapshot, const QString& conversation) {
  ConversationUse use;
  const std::string key = conversation.toStdString();
  if (key.empty()) return use;
  for (const engine::CacheOwner& owner : snapshot.owners) {
    if (owner.conversation != key) continue;
    use.tokens += owner.tokens;
    use.blocks += owner.blocks;
    use.bytes += owner.bytes;
  }
  return use;
}

InspectorTab::InspectorTab(QWidget* parent) : QWidget(parent), m_sections(new QVBoxLayout(this)) {
  m_sections->setContentsMargins(0, 0, 0, 0);
  m_sections->setSpacing(0);
}

QVBoxLayout* InspectorTab::addSection(const QString& heading, PlainLabel** asideLabel) {
  if (m_any) {
    auto* line = new QFrame(this);
    line->setProperty("kind", "line");
    line->setFixedHeight(1);
    m_sections->addWidget(line);
  }
  m_any = true;
  auto* section = new QVBoxLayout;
  section->setContentsMargins(16, 14, 16, 14);
  section->setSpacing(8);
  if (!heading.isEmpty()) {
    auto* row = new QHBoxLayout;
    row->addWidget(new PlainLabel(heading, LabelStyle::kHeading, this));
    row->addStretch();
    if (asideLabel) {
      *asideLabel = new PlainLabel(LabelStyle::kFigureMuted, this);
      row->addWidget(*asideLabel);
    }
    section->addLayout(row);
  }
  m_sections->addLayout(section);
  return section;
}

void InspectorTab::endSections() {
  m_sections->addStretch(1);
}

}  // namespace vitrine::ui

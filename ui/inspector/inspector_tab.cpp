#include "ui/inspector/inspector_tab.h"

#include <QFrame>
#include <QHBoxLayout>
#include <QVBoxLayout>
#include <algorithm>

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

ConversationUse branchUseOf(const InspectorState& state) {
  const engine::EngineSnapshot& snapshot = *state.snapshot;
  const ConversationUse own = useOf(snapshot, state.conversation);
  const int blockSize = std::max(1, snapshot.shape.blockSize);
  const std::uint64_t perToken = snapshot.bytesPerBlock / std::uint64_t(blockSize);
  if (state.live.running) {
    ConversationUse use;
    use.tokens = state.live.tokenMs.empty()
                     ? state.live.reusedTokens + state.live.prefillDone
                     : state.live.promptTokens + int(state.live.tokenMs.size()) - 1;
    use.blocks = std::max((use.tokens + blockSize - 1) / blockSize, 0);
    if (state.wanted.cache.layout == engine::KvLayout::kContiguous) {
      use.blocks = std::max(use.blocks, own.blocks);
    }
    use.bytes = std::uint64_t(use.blocks) * snapshot.bytesPerBlock;
    return use;
  }
  if (own.blocks == 0 || state.turns.empty() || perToken == 0) return own;
  const engine::TurnReport& last = state.turns.back().report;
  // A turn from before a switch or a restart tells nothing about the pool of now.
  const bool present = last.kv.blocksUsed > 0 && last.kv.blockSize == blockSize && state.info &&
                       last.kvType == engine::nameOf(snapshot.shape.type) &&
                       last.weights == engine::nameOf(state.info->running.precision.weights) &&
                       last.kv.blocksUsed <= snapshot.blocksUsed + snapshot.blocksCached;
  if (!present) return own;
  return {int(last.kv.bytesUsed / perToken), last.kv.blocksUsed, last.kv.bytesReserved};
}

InspectorTab::InspectorTab(QWidget* parent) : QWidget(parent), m_sections(new QVBoxLayout(this)) {
  m_sections->setContentsMargins(0, 0, 0, 0);
  m_sections->setSpacing(0);
}

void InspectorTab::showBlockText(int, const QString&) {}

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

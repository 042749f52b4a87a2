#include "ui/inspector/cache/block_owners.h"

#include <QCoreApplication>
#include <algorithm>
#include <map>

#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

// "main" (or no name) first, then by number: messages are numbered as they were written.
bool isEarlierBranch(const QString& a, const QString& b) {
  bool aIsNumber = false;
  bool bIsNumber = false;
  const qlonglong x = a.toLongLong(&aIsNumber);
  const qlonglong y = b.toLongLong(&bIsNumber);
  if (aIsNumber != bIsNumber) return bIsNumber;
  return aIsNumber ? x < y : a < b;
}

QString words(const char* text) {
  return QCoreApplication::translate("vitrine::ui::BlockMap", text);
}

QString chatName(const InspectorState& state, const QString& key) {
  const QString name = state.ownerLook ? state.ownerLook(key).title : key;
  return name.isEmpty() ? words("Untitled chat") : oneLine(name, 60);
}

}  // namespace

QColor branchShade(const QColor& colour, int branch) {
  const Tokens& t = Theme::instance().tokens();
  switch (branch % 4) {
    case 0:
      return colour;
    case 1:
      return mix(colour, t.text, 0.45);
    case 2:
      return mix(colour, t.panel, 0.45);
    default:
      return mix(colour, t.information, 0.50);
  }
}

QVector<BlockOwnerLook> blockOwnerLooks(const InspectorState& state) {
  const auto& owners = state.snapshot->owners;
  QVector<BlockOwnerLook> looks;
  std::map<QString, std::vector<int>> branches;
  for (const engine::CacheOwner& owner : owners) {
    BlockOwnerLook look;
    look.conversation = QString::fromStdString(owner.conversation);
    look.branchKey = QString::fromStdString(owner.branch);
    look.isThisChat = !look.conversation.isEmpty() && look.conversation == state.conversation;
    branches[look.conversation].push_back(int(looks.size()));
    looks.append(look);
  }
  for (auto& [conversation, all] : branches) {
    std::sort(all.begin(), all.end(), [&](int a, int b) {
      return isEarlierBranch(looks[a].branchKey, looks[b].branchKey);
    });
    const bool isThisChat = looks[all.front()].isThisChat;
    const Tokens& t = Theme::instance().tokens();
    QColor colour = isThisChat        ? t.reused
                    : state.ownerLook ? state.ownerLook(conversation).colour
                                      : QColor();
    if (!colour.isValid()) colour = t.muted;
    const QString name = isThisChat ? words("this chat") : chatName(state, conversation);
    for (std::size_t i = 0; i < all.size(); ++i) {
      BlockOwnerLook& look = looks[all[i]];
      look.branch = int(i);
      look.colour = branchShade(colour, int(i));
      look.name = i == 0 ? name : words("%1, branch %2").arg(name).arg(i + 1);
    }
  }
  return looks;
}

QVector<int> holdersOf(const engine::EngineSnapshot& snapshot, int block) {
  QVector<int> holders;
  if (block < 0 || block >= int(snapshot.blocks.size())) return holders;
  const engine::BlockCell& cell = snapshot.blocks[std::size_t(block)];
  if (cell.state == engine::BlockState::kFree) return holders;
  const int blockSize = std::max(1, snapshot.shape.blockSize);
  const auto place = std::size_t(std::max(0, cell.position) / blockSize);
  for (int i = 0; i < int(snapshot.owners.size()); ++i) {
    const auto& chain = snapshot.owners[std::size_t(i)].chain;
    if (place < chain.size() && chain[place] == block) holders.append(i);
  }
  if (holders.isEmpty() && cell.owner >= 0) holders.append(cell.owner);
  return holders;
}

}  // namespace vitrine::ui

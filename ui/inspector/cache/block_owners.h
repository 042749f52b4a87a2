#pragma once

#include <QColor>
#include <QString>
#include <QVector>

#include "ui/inspector/inspector_state.h"

namespace vitrine::ui {

/// How an owner of blocks is called and coloured wherever its blocks are drawn: a conversation by
/// its colour (the one on screen by the teal of reuse), its branches by shades of it.
struct BlockOwnerLook {
  QString conversation;  ///< the key that the engine knows it by
  QString branchKey;     ///< likewise
  QString name;          ///< "this chat", "this chat, branch 2", "Sea and mountains"
  QColor colour;
  bool isThisChat = false;
  int branch = 0;  ///< number among the conversation's branches in the pool, from 0
};

/// One for each of the snapshot's owners. Branches are numbered in the order in which they came to
/// be, so that a colour does not jump while blocks come and go.
QVector<BlockOwnerLook> blockOwnerLooks(const InspectorState& state);

/// A shade of a conversation's colour.
QColor branchShade(const QColor& colour, int branch);

/// Who holds a block: all owners whose history goes through it, else the one that it is labelled
/// with. Indices into the snapshot's owners.
QVector<int> holdersOf(const engine::EngineSnapshot& snapshot, int block);

}  // namespace vitrine::ui

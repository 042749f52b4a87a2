#include "ui/common/attention_choices.h"

#include <QCoreApplication>
#include <algorithm>

#include "ui/common/engine_switching.h"

namespace vitrine::ui {
namespace {

QString tr(const char* text) {
  return QCoreApplication::translate("vitrine::ui::AttentionChoice", text);
}

QString effectText(engine::KvGrouping grouping, int own, int kvHeads) {
  switch (grouping) {
    case engine::KvGrouping::kOwn:
      return tr("the model's own");
    case engine::KvGrouping::kRepeated:
      return tr("exact, cache × %1").arg(kvHeads / own);
    case engine::KvGrouping::kPooled:
      return tr("approximate, cache ÷ %1").arg(own / kvHeads);
  }
  return {};
}

}  // namespace

QVector<AttentionChoice> attentionChoices(const engine::ModelInfo& info) {
  QVector<AttentionChoice> choices;
  std::vector<int> numbers = engine::possibleKvHeads(info.config.nHeads, info.ownKvHeads);
  std::reverse(numbers.begin(), numbers.end());
  for (const int kvHeads : numbers) {
    const engine::KvGrouping grouping = engine::kvGrouping(info.ownKvHeads, kvHeads);
    choices.append({kvHeads, grouping, attentionText(info.config.nHeads, kvHeads),
                    effectText(grouping, info.ownKvHeads, kvHeads)});
  }
  return choices;
}

int kvHeadsOf(const engine::EngineConfig& config, const engine::ModelInfo& info) {
  return config.kvHeads == 0 ? info.ownKvHeads : config.kvHeads;
}

engine::EngineConfig withKvHeads(engine::EngineConfig config, int kvHeads,
                                 const engine::ModelInfo& info) {
  config.kvHeads = kvHeads == info.ownKvHeads ? 0 : kvHeads;
  return config;
}

}  // namespace vitrine::ui

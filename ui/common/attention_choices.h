#pragma once

#include <QString>
#include <QVector>

#include "engine/backend/kv_regroup.h"
#include "engine/engine_types.h"

namespace vitrine::ui {

/// One number of KV heads that a model can be run with.
struct AttentionChoice {
  int kvHeads = 0;
  engine::KvGrouping grouping = engine::KvGrouping::kOwn;
  QString name;    ///< "MHA 9:9", "GQA 9:3", "MQA 9:1"
  QString effect;  ///< "the model's own", "exact, cache × 3", "approximate, cache ÷ 3"

  bool isExact() const { return grouping != engine::KvGrouping::kPooled; }
};

/// All of a loaded model, most KV heads first.
QVector<AttentionChoice> attentionChoices(const engine::ModelInfo& info);

/// The number of KV heads that a configuration means for a model.
int kvHeadsOf(const engine::EngineConfig& config, const engine::ModelInfo& info);

/// A configuration with this number of KV heads (the model's own is written as 0).
engine::EngineConfig withKvHeads(engine::EngineConfig config, int kvHeads,
                                 const engine::ModelInfo& info);

}  // namespace vitrine::ui

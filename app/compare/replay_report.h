#pragma once

#include <QString>
#include <array>

#include "app/studio/studio_session.h"

namespace vitrine::app {

/// What a replay is about, for its report.
struct ReplayTitle {
  QString conversation;
  QString model;
  std::array<QString, 2> configs;  ///< in words
};

/// A replay as Markdown: both configurations with quality, speed and memory, where they first
/// differ, and the tokens that differ most.
QString replayMarkdown(const studio::ReplayResult& result, const ReplayTitle& title,
                       const engine::Tokenizer& tokenizer);

/// What the two ways thought of one token: "“sea” · A “sea”, B “ocean” · KL 0.012 · p 0.61, 0.40".
QString replayTokenText(const studio::ReplayResult& result, int token,
                        const engine::Tokenizer& tokenizer);

}  // namespace vitrine::app

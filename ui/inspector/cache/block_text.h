#pragma once

#include <QString>
#include <span>

#include "engine/tokenizer/tokenizer.h"

namespace vitrine::ui {

/// What the tokens of a block say, in quotes: control tokens as the vocabulary spells them, line
/// ends as ⏎. A block may begin and end inside a word or a character.
QString blockText(const engine::Tokenizer& tokenizer, std::span<const engine::TokenId> tokens);

}  // namespace vitrine::ui

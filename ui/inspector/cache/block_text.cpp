#include "ui/inspector/cache/block_text.h"

#include "engine/base/display_text.h"

namespace vitrine::ui {

QString blockText(const engine::Tokenizer& tokenizer, std::span<const engine::TokenId> tokens) {
  std::string bytes;
  for (const engine::TokenId token : tokens) {
    bytes += tokenizer.isControl(token) ? tokenizer.piece(token) : tokenizer.bytes(token);
  }
  QString text = QString::fromStdString(engine::validUtf8(bytes));
  text.replace(u'\n', QChar(0x23CE));
  return u'\u201C' + text + u'\u201D';
}

}  // namespace vitrine::ui

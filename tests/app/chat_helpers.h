#pragma once

#include <QStringList>

#include "tests/app/app_fixture.h"
#include "tests/tiny_models.h"

namespace vitrine::test {

/// A model in the fixture's folder that always says `text`.
inline std::filesystem::path parrot(const AppFixture& app, const char* text,
                                    ParrotOptions options = {}) {
  return parrotModel(text, options).save(app.path("parrot.gguf"));
}

/// A model whose answers go on until they are stopped.
inline std::filesystem::path endless(AppFixture& app) {
  TinyModelOptions options;
  options.contextLength = kLongContext;
  // Greedy: among random weights the end could be drawn, though it is never the best.
  app.settings->setSamplingDefaults({{"temperature", 0}});
  return randomModel(options).save(app.path("endless.gguf"));
}

/// The texts of a chat, from its first message on.
inline QStringList texts(const app::ChatSession& session) {
  QStringList list;
  for (const app::MessageRow& row : session.rows()) list << row.message.text;
  return list;
}

}  // namespace vitrine::test

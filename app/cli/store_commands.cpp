// `conversations`, `export`, `import`: the window's conversations from the shell.
#include <QFile>
#include <memory>

#include "app/cli/command.h"
#include "app/cli/json_output.h"
#include "app/export/exporter.h"
#include "app/paths.h"
#include "app/store/conversation_store.h"
#include "app/text.h"

namespace vitrine::app::cli {

using engine::ErrorCode;
using engine::fail;
using engine::Result;
using Json = nlohmann::ordered_json;

namespace {

struct StoreOptions {
  std::string database;
  bool json = false;

  void addTo(CLI::App& app) {
    app.add_option("--db", database, "the conversations' database (the window's)")
        ->type_name("FILE");
  }
  Result<std::unique_ptr<ConversationStore>> open() const {
    const QString file =
        database.empty() ? Paths::standard().database : QString::fromStdString(database);
    if (!QFile::exists(file)) {
      return fail(ErrorCode::kNotFound, "there is no database {}: name one with --db FILE",
                  toUtf8(file));
    }
    auto store = ConversationStore::open(file);
    if (store && !(*store)->notice().isEmpty()) {
      std::fprintf(stderr, "warning: %s\n", toUtf8((*store)->notice()).c_str());
    }
    return store;
  }
};

std::string isoTime(const QDateTime& time) {
  return toUtf8(time.toUTC().toString(Qt::ISODate));
}

int listConversations(const StoreOptions& options) {
  auto store = options.open();
  if (!store) return report(store.error());
  Json list = Json::array();
  for (const Conversation& c : (*store)->conversations()) {
    if (options.json) {
      list.push_back({{"id", c.id},
                      {"uuid", toUtf8(c.uuid)},
                      {"title", toUtf8(c.title)},
                      {"created", isoTime(c.created)},
                      {"updated", isoTime(c.updated)},
                      {"pinned", c.pinned}});
    } else {
      printOut(fmt::format("{:>6}  {}  {}\n", c.id,
                           toUtf8(c.updated.toLocalTime().toString("yyyy-MM-dd hh:mm")),
                           toUtf8(c.title)));
    }
  }
  if (options.json) printJson(list);
  return 0;
}

struct ExportOptions {
  StoreOptions store;
  std::string conversation, format, output;
};

Result<ConversationId> findConversation(const ConversationStore& store, const std::string& name) {
  const QString text = toQString(name);
  bool isNumber = false;
  const qint64 number = text.toLongLong(&isNumber);
  auto found = isNumber ? store.conversation(number) : store.conversationByUuid(text);
  if (!found) return tl::unexpected(found.error());
  return found->id;
}

int exportConversation(const ExportOptions& options) {
  const auto format = exportFormatFromString(toQString(options.format));
  auto store = options.store.open();
  if (!store) return report(store.error());
  auto id = findConversation(**store, options.conversation);
  if (!id) return report(id.error());
  auto document = loadForExport(**store, *id);
  if (!document) return report(document.error());
  if (options.output == "-") {
    auto bytes = exportBytes(*document, *format);
    if (!bytes) return report(bytes.error());
    printOut({bytes->constData(), static_cast<std::size_t>(bytes->size())});
    return 0;
  }
  auto done = exportToFile(*document, *format, QString::fromStdString(options.output));
  return done ? 0 : report(done.error());
}

struct ImportOptions {
  StoreOptions store;
  std::vector<std::string> files;
};

int importFiles(const ImportOptions& options) {
  const QString file = options.store.database.empty()
                           ? Paths::standard().database
                           : QString::fromStdString(options.store.database);
  auto store = ConversationStore::open(file);
  if (!store) return report(store.error());
  Json ids = Json::array();
  bool complete = true;
  for (const std::string& name : options.files) {
    auto result = importFile(**store, QString::fromStdString(name));
    if (!result) {
      report(result.error());
      complete = false;
      continue;
    }
    for (const ConversationId id : result->conversations) ids.push_back(id);
    for (const QString& sentence : result->skipped) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), toUtf8(sentence).c_str());
      complete = false;
    }
    if (!options.store.json) {
      printOut(fmt::format("{}: {} conversations\n", name, result->conversations.size()));
    }
  }
  if (options.store.json) printJson({{"conversations", ids}});
  return complete ? 0 : kExitFailure;
}

}  // namespace

Command addConversations(CLI::App& program) {
  auto options = std::make_shared<StoreOptions>();
  CLI::App* app = program.add_subcommand("conversations", "List the window's conversations");
  options->addTo(*app);
  app->add_flag("--json", options->json, "print a JSON list");
  return {app, [options] { return listConversations(*options); }};
}

Command addExport(CLI::App& program) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* app = program.add_subcommand("export", "Write a conversation to a file");
  options->store.addTo(*app);
  app->add_option("--conversation", options->conversation, "its number or uuid")
      ->type_name("ID")
      ->required();
  app->add_option("--format", options->format, "how it is written")
      ->check(CLI::IsMember({"md", "json", "jsonl", "html", "pdf", "sharegpt"}))
      ->required();
  app->add_option("-o,--output", options->output, "the file (- is standard output)")
      ->type_name("FILE")
      ->required();
  return {app, [options] { return exportConversation(*options); }, true};
}

Command addImport(CLI::App& program) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* app = program.add_subcommand("import", "Read conversations from files");
  options->store.addTo(*app);
  app->add_option("files", options->files, "JSON, JSONL or ShareGPT files")->required();
  app->add_flag("--json", options->store.json, "print the new conversations' numbers as JSON");
  return {app, [options] { return importFiles(*options); }};
}

}  // namespace vitrine::app::cli

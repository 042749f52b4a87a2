// `lab`: what each method gains and costs on this machine, as a table and a report.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "app/cli/command.h"
#include "app/cli/interrupt.h"
#include "app/cli/json_output.h"
#include "app/cli/options.h"
#include "app/lab/lab_json.h"
#include "app/lab/lab_runner.h"
#include "app/lab/report_writer.h"
#include "app/paths.h"
#include "app/text.h"

namespace vitrine::app::cli {

namespace {

struct LabOptions {
  ModelOptions model;
  bool quick = false, resume = false, json = false;
  std::vector<std::string> only;
  std::string folder;
};

/// One line that is written over on a terminal; a line for each row elsewhere.
class ProgressLine {
 public:
  void show(const lab::LabProgress& progress) {
    if (progress.done >= progress.total) return;
    if (m_terminal) {
      std::fprintf(stderr, "\r\033[K%3.0f %%  %s  about %.0f s left", progress.fraction * 100,
                   progress.method.c_str(), progress.remainingSeconds);
    } else if (progress.row != m_row) {
      std::fprintf(stderr, "[%d/%d] %s, about %.0f s left\n", progress.done + 1, progress.total,
                   progress.method.c_str(), progress.remainingSeconds);
      m_row = progress.row;
    }
  }
  void clear() const {
    if (m_terminal) std::fputs("\r\033[K", stderr);
  }

 private:
  bool m_terminal = isatty(STDERR_FILENO) != 0;
  std::string m_row;
};

/// Characters that a terminal shows, which are fewer than the bytes.
std::size_t widthOf(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void printTable(const lab::LabReport& report) {
  for (const auto& [name, value] : lab::aboutLines(report)) {
    printOut(fmt::format("{:<14}{}\n", name, value));
  }
  std::vector<std::array<std::string, 4>> lines{{"METHOD", "GAIN", "COST", "MEASURED"}};
  for (const lab::LabRow& row : report.rows) {
    lines.push_back({row.method, row.gain, row.cost, row.measured});
  }
  std::array<std::size_t, 4> widths{};
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < 4; ++i) widths[i] = std::max(widths[i], widthOf(line[i]));
  }
  printOut("\n");
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < 4; ++i) {
      text += line[i];
      if (i + 1 < 4) text.append(widths[i] - widthOf(line[i]) + 3, ' ');
    }
    printOut(text + "\n");
  }
  printOut("\n");
  for (const lab::Recommendation& each : report.recommendations) {
    printOut(each.choice.empty()
                 ? fmt::format("{}: needs the rows {}\n", each.title, each.missing)
                 : fmt::format("{}: {} ({})\n", each.title, each.choice, each.figures));
  }
}

int runLabCommand(const LabOptions& options) {
  lab::LabPlan plan;
  plan.effort = options.quick ? lab::Effort::kQuick : lab::Effort::kFull;
  plan.only = options.only;
  plan.resume = options.resume;
  plan.folder = toPath(Paths::standard().data) / "lab";
  if (auto checked = plan.check(); !checked) return report(checked.error());
  auto path = options.model.resolveModel();
  if (!path) return report(path.error());
  plan.model = *path;
  auto config = options.model.resolveConfig(*path);
  if (!config) return report(config.error());
  plan.config = *config;
  // Minutes of measuring must not end in a folder that cannot be made.
  std::error_code folderError;
  std::filesystem::create_directories(options.folder, folderError);
  if (!std::filesystem::is_directory(options.folder)) {
    return report({engine::ErrorCode::kIo,
                   fmt::format("cannot make the folder {}: {}", options.folder,
                               folderError ? folderError.message() : "a file is in its place")});
  }

  ProgressLine line;
  bool failed = false;
  lab::LabListener listener;
  listener.progress = [&](const lab::LabProgress& progress) { line.show(progress); };
  listener.rowFailed = [&](const std::string& id, const engine::Error& error) {
    line.clear();
    std::fprintf(stderr, "vitrine-cli: row %s: %s\n", id.c_str(), error.message.c_str());
    failed = true;
  };
  const StopOnInterrupt interrupt;
  auto result = lab::runLab(plan, listener, interrupt.token());
  line.clear();
  if (!result && result.error().code == engine::ErrorCode::kCancelled) {
    std::fputs("vitrine-cli: stopped; --resume goes on with the rows that are missing\n", stderr);
    return kExitFailure;
  }
  if (!result) return report(result.error());
  if (!plan.only.empty()) {  // the report holds what was asked for
    std::erase_if(result->rows, [&](const lab::LabRow& row) {
      return std::find(plan.only.begin(), plan.only.end(), row.id) == plan.only.end();
    });
  }
  using lab::ReportFormat;
  for (const ReportFormat format :
       {ReportFormat::kJson, ReportFormat::kMarkdown, ReportFormat::kHtml, ReportFormat::kPdf}) {
    const auto file = lab::saveReport(*result, format, options.folder);
    if (!file) return report(file.error());
    std::fprintf(stderr, "wrote %s\n", file->c_str());
  }
  if (options.json) {
    printJson(lab::toJson(*result));
  } else {
    printTable(*result);
  }
  return failed ? kExitFailure : 0;
}

}  // namespace

Command addLab(CLI::App& program) {
  auto options = std::make_shared<LabOptions>();
  CLI::App* app = program.add_subcommand(
      "lab", "Measure what each method gains and costs here, and write a report");
  options->model.addTo(*app);
  app->add_flag("--quick", options->quick, "about 2 minutes instead of about 10");
  app->add_option("--only", options->only,
                  "rows to run: kv-cache, attention, int8-weights, int8-kv, paged-kv, batching")
      ->delimiter(',')
      ->type_name("ROW,…");
  app->add_flag("--resume", options->resume,
                "keep the rows that an earlier run finished (measure all again)");
  app->add_option("-o,--output", options->folder,
                  "folder for report.json, report.md, report.html, report.pdf")
      ->type_name("DIR")
      ->required();
  app->add_flag("--json", options->json, "print the report as one JSON object");
  return {app, [options] { return runLabCommand(*options); }, true};
}

}  // namespace vitrine::app::cli

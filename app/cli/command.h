#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

// The pieces that every subcommand of vitrine-cli shares.

namespace vitrine::app::cli {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

/// One subcommand: its options in CLI11, and what runs when it was chosen. Returns the exit code.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
  bool needsFonts = false;  ///< writes PDF
};

/// Prints `vitrine-cli: <sentence>` on standard error and returns kExitFailure, or kExitUsage for
/// a value without meaning.
int report(const engine::Error& error);

/// Writes text to standard output as it is (no translation, no buffering left behind).
void printOut(std::string_view text);

Command addChat(CLI::App& program);
Command addRun(CLI::App& program);
Command addLogits(CLI::App& program);
Command addPerplexity(CLI::App& program);
Command addCalibrate(CLI::App& program);
Command addSensitivity(CLI::App& program);
Command addBench(CLI::App& program);
Command addTokenize(CLI::App& program);
Command addDetokenize(CLI::App& program);
Command addTemplate(CLI::App& program);
Command addInspect(CLI::App& program);
Command addConversations(CLI::App& program);
Command addExport(CLI::App& program);
Command addImport(CLI::App& program);
Command addServe(CLI::App& program);
Command addLab(CLI::App& program);
Command addDevices(CLI::App& program);

}  // namespace vitrine::app::cli

// `devices`: what there is to compute on.
#include <memory>

#include "app/cli/command.h"
#include "app/cli/json_output.h"
#include "engine/backend/gpu.h"
#include "engine/measure/machine.h"

namespace vitrine::app::cli {
namespace {

void printAsJson(const engine::GpuProbe& probe) {
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  for (const engine::GpuDevice& gpu : probe.devices) {
    gpus.push_back({{"device", gpu.index},
                    {"name", gpu.name},
                    {"architecture", gpu.architecture},
                    {"memory_bytes", gpu.totalBytes}});
  }
  printJson({{"cpu", engine::processorName()},
             {"memory_bytes", engine::totalMemoryBytes()},
             {"cuda", engine::describeGpuSupport()},
             {"driver", probe.driverVersion},
             {"gpus", gpus},
             {"problem", probe.problem}});
}

void printAsText(const engine::GpuProbe& probe) {
  printOut(fmt::format("cpu     {}, {:.1f} GB\n", engine::processorName(),
                       engine::totalMemoryBytes() / 1e9));
  for (const engine::GpuDevice& gpu : probe.devices) {
    printOut(fmt::format("cuda {}  {} ({}), {:.1f} GB\n", gpu.index, gpu.name, gpu.architecture,
                         gpu.totalBytes / 1e9));
  }
  if (probe.devices.empty()) printOut(fmt::format("cuda    none: {}\n", probe.problem));
}

}  // namespace

Command addDevices(CLI::App& program) {
  auto json = std::make_shared<bool>(false);
  CLI::App* app = program.add_subcommand("devices", "List the processor and the GPUs");
  app->add_flag("--json", *json, "print one JSON object");
  return {app, [json] {
            if (*json) {
              printAsJson(engine::probeGpus());
            } else {
              printAsText(engine::probeGpus());
            }
            return 0;
          }};
}

}  // namespace vitrine::app::cli

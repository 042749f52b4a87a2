#pragma once

#include <QString>

#include "engine/engine_types.h"

namespace vitrine::app {
class EngineClient;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

/// What the person wants now: of the engine while it has or gets a model, else of the next start.
engine::EngineConfig wantedConfig(const app::EngineClient& engine, const app::Settings& settings);

/// The one way in which switches of the window change how the engine runs: the wish is remembered
/// for the next start, and takes effect on the loaded model at once.
void switchEngine(app::EngineClient& engine, app::Settings& settings, engine::EngineConfig config);

// Words for what a configuration does.
QString weightModeText(engine::WeightMode mode);
QString activationModeText(engine::ActivationMode mode);
QString kvTypeText(engine::KvType type);
/// The file's own weight format in a word for a switch: "4-bit", "8-bit", "FP16", "BF16", "FP32".
QString nativeFormatText(const QString& quantization);
/// The same for WeightMode::kNative of a loaded model where it runs: a GPU widens blocks to FP16.
QString nativeWeightsText(const engine::ModelInfo& info);
/// A model's file name as people read it: without ".gguf", the part of a split set, and the
/// quantization that is told beside it ("SmolLM2-135M-Instruct" of "….Q4_1.gguf").
QString modelFileName(const std::string& path, const QString& quantization);
/// "GQA 9:3", "MHA 8:8", "MQA 8:1" from query and KV heads.
QString attentionText(int nHeads, int nKvHeads);

}  // namespace vitrine::ui

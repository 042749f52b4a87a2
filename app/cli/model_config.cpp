// What the options of a model mean once the model is known.
#include <algorithm>
#include <cstdio>

#include "app/cli/interrupt.h"
#include "app/cli/options.h"
#include "app/studio/bundled_texts.h"
#include "app/text.h"
#include "engine/backend/kv_regroup.h"
#include "engine/measure/calibrate.h"
#include "engine/quant/quant_plan.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app::cli {

using engine::CalibrationPtr;
using engine::EngineConfig;
using engine::ErrorCode;
using engine::fail;
using engine::Model;
using engine::Result;

namespace {

constexpr int kTokensOfEachText = 2048;  // of the bundled ones, for a profile made on the way

bool needsModel(const ModelOptions& options) {
  return !options.keep.empty() || !options.calibration.empty() ||
         options.config.precision.needsCalibration();
}

Result<CalibrationPtr> loadFor(const Model& model, int kvHeads, const std::string& file) {
  VITRINE_ASSIGN(CalibrationPtr profile, engine::loadProfile(file));
  VITRINE_ASSIGN(const auto running, engine::regroupedConfig(model.config(), kvHeads));
  if (auto fits = engine::checkProfile(*profile, model.fingerprint(), running); !fits) {
    return fail(fits.error().code, "{}: {}", file, fits.error().message);
  }
  return profile;
}

Result<CalibrationPtr> makeFromBundledTexts(const std::shared_ptr<const Model>& model,
                                            EngineConfig config, const std::stop_token& stop) {
  std::vector<engine::CalibrationText> texts;
  for (const auto& text : studio::bundledTexts()) {
    auto tokens = model->tokenizer().encode(studio::bundledText(text.id));
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(kTokensOfEachText)));
    texts.push_back({"bundled: " + toUtf8(text.id), std::move(tokens)});
  }
  std::fprintf(stderr,
               "calibrating on the bundled texts (--calibration FILE uses a profile of yours)\n");
  config.precision = {};  // the file's own weights, FP16 activations
  VITRINE_ASSIGN(
      const auto backend,
      engine::makeBackend(config.backend, model, config.backendOptions(), showProgress, stop));
  engine::CalibrationOptions options;
  options.name = "bundled texts";
  options.context = std::min(options.context, model->config().contextLength);
  auto profile = engine::calibrate(*backend, *model, texts, options, showProgress, stop);
  clearProgress();
  return profile;
}

}  // namespace

Result<EngineConfig> ModelOptions::resolveConfig(const ModelPtr& loaded,
                                                 const std::stop_token& stop) const {
  EngineConfig resolved = config;
  engine::WeightPrecision& precision = resolved.precision;
  if (!keep.empty()) {
    VITRINE_ASSIGN(precision.keep, engine::MatrixSet::parse(keep, loaded->config().nLayers));
  }
  if (!calibration.empty() && !scalesGiven &&
      precision.activations == engine::ActivationMode::kInt8) {
    precision.activationScales = engine::ActivationScales::kStatic;
  }
  VITRINE_TRY(engine::checkPrecision(precision));
  if (!calibration.empty()) {
    VITRINE_ASSIGN(precision.calibration, loadFor(*loaded, resolved.kvHeads, calibration));
    if (!precision.needsCalibration()) {
      std::fprintf(stderr,
                   "the profile %s is not used: static scales and outliers of --activations int8 "
                   "and --kv-keys channel would\n",
                   calibration.c_str());
    }
  } else if (precision.activationScales == engine::ActivationScales::kStatic) {
    return fail(ErrorCode::kInvalidArgument,
                "static scales come from a profile: make one with `vitrine-cli calibrate -o FILE` "
                "and name it with --calibration FILE");
  } else if (precision.needsCalibration()) {
    VITRINE_ASSIGN(precision.calibration, makeFromBundledTexts(loaded, resolved, stop));
  }
  return resolved;
}

Result<EngineConfig> ModelOptions::resolveConfig(const std::string& path) const {
  if (!needsModel(*this)) {
    VITRINE_TRY(engine::checkPrecision(config.precision));
    return config;
  }
  VITRINE_ASSIGN(const ModelPtr loaded, Model::load(path));
  return resolveConfig(loaded);
}

}  // namespace vitrine::app::cli

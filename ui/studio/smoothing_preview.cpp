#include "ui/studio/smoothing_preview.h"

#include <QMetaObject>

#include "engine/quant/quant_plan.h"
#include "engine/quant/smoothing.h"
#include "ui/studio/studio_words.h"

namespace vitrine::ui {

using engine::LinearInput;
using engine::MatrixPart;
using engine::WeightPrecision;

namespace {

struct Reader {
  MatrixPart part;
  engine::TensorView matrix;
};

/// The matrices that read a site.
std::vector<Reader> readersOf(const engine::Model& model, int site) {
  const int nLayers = model.config().nLayers;
  const engine::Weights& weights = model.weights();
  const LinearInput input = engine::inputOfSite(site, nLayers);
  if (input == LinearInput::kOutput) return {{MatrixPart::kOutput, weights.output}};
  const auto& layer = weights.layers[std::size_t(engine::layerOfSite(site, nLayers))];
  switch (input) {
    case LinearInput::kAttention:
      return {{MatrixPart::kQ, layer.wq}, {MatrixPart::kK, layer.wk}, {MatrixPart::kV, layer.wv}};
    case LinearInput::kAttentionOut:
      return {{MatrixPart::kO, layer.wo}};
    case LinearInput::kFfn:
      return {{MatrixPart::kGate, layer.wGate}, {MatrixPart::kUp, layer.wUp}};
    case LinearInput::kDown:
    case LinearInput::kOutput:
      break;
  }
  return {{MatrixPart::kDown, layer.wDown}};
}

}  // namespace

engine::Result<SmoothingPreview> previewSmoothing(const engine::Model& model,
                                                  const engine::ModelConfig& config,
                                                  const engine::CalibrationPtr& profile, int site,
                                                  float alpha) {
  const int layer = engine::layerOfSite(site, config.nLayers);
  const std::vector<Reader> readers = readersOf(model, site);
  WeightPrecision precision;
  precision.weights = engine::WeightMode::kInt8;
  precision.activations = engine::ActivationMode::kInt8;
  precision.activationScales = engine::ActivationScales::kStatic;
  precision.calibration = profile;
  // All other sites stay as they are: a plan of one site is made at once.
  precision.keep = engine::MatrixSet::all(config.nLayers);
  for (const Reader& reader : readers) precision.keep.remove(layer, reader.part);
  VITRINE_ASSIGN(const auto plain, engine::QuantPlan::make(model, config, precision));
  precision.outliers = engine::OutlierMode::kSmooth;
  precision.smoothing = alpha;
  VITRINE_ASSIGN(const auto smooth, engine::QuantPlan::make(model, config, precision));

  SmoothingPreview preview;
  preview.site = site;
  preview.alpha = alpha;
  preview.inputBefore = profile->sites[std::size_t(site)].channelMax;
  preview.inputAfter = preview.inputBefore;
  preview.weightBefore.assign(preview.inputBefore.size(), 0.0F);
  for (const Reader& reader : readers) {
    engine::growColumnMaxima(reader.matrix, preview.weightBefore);
  }
  preview.weightAfter = preview.weightBefore;
  const auto factors = smooth.matrix(layer, readers.front().part).columnScale;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    preview.inputAfter[i] /= factors[i];
    preview.weightAfter[i] *= factors[i];
  }
  preview.scaleBefore = plain.staticScale(site);
  preview.scaleAfter = smooth.staticScale(site);
  return preview;
}

void SmoothingWorker::ask(std::shared_ptr<const engine::Model> model,
                          const engine::ModelConfig& config, const engine::CalibrationPtr& profile,
                          int site, float alpha) {
  Wish wish{std::move(model), config, profile, site, alpha};
  if (m_running) {
    m_next = std::move(wish);
  } else {
    start(std::move(wish));
  }
}

void SmoothingWorker::start(Wish wish) {
  m_running = true;
  m_thread = std::jthread([this, wish = std::move(wish)] {
    auto result = previewSmoothing(*wish.model, wish.config, wish.profile, wish.site, wish.alpha);
    m_mailbox.post([this, result = std::move(result)] {
      m_running = false;
      if (m_next) {
        Wish next = std::move(*m_next);
        m_next.reset();
        return start(std::move(next));
      }
      if (result) {
        emit ready(*result);
      } else {
        emit failed(sentenceText(result.error().message));
      }
    });
  });
}

}  // namespace vitrine::ui

#pragma once

#include <QObject>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "app/mailbox.h"
#include "engine/model/model.h"
#include "engine/quant/calibration_profile.h"

namespace vitrine::ui {

/// What smoothing does to one site: the channels' ranges on both sides of its products.
struct SmoothingPreview {
  int site = 0;
  float alpha = 0.0F;
  std::vector<float> inputBefore, inputAfter;    // [width] largest |x| of each channel
  std::vector<float> weightBefore, weightAfter;  // [width] largest |w| of each column
  float scaleBefore = 0.0F, scaleAfter = 0.0F;   ///< static scale of the site's INT8 values
};

/// Computes it as QuantPlan will: the plan of a model in which this site alone is INT8.
engine::Result<SmoothingPreview> previewSmoothing(const engine::Model& model,
                                                  const engine::ModelConfig& config,
                                                  const engine::CalibrationPtr& profile, int site,
                                                  float alpha);

/// The same on a thread, one at a time; of the wishes that come meanwhile only the last is heard.
class SmoothingWorker final : public QObject {
  Q_OBJECT
 public:
  explicit SmoothingWorker(QObject* parent = nullptr) : QObject(parent) {}

  void ask(std::shared_ptr<const engine::Model> model, const engine::ModelConfig& config,
           const engine::CalibrationPtr& profile, int site, float alpha);
  bool isRunning() const { return m_running; }

 signals:
  void ready(const vitrine::ui::SmoothingPreview& preview);
  void failed(const QString& message);

 private:
  struct Wish {
    std::shared_ptr<const engine::Model> model;
    engine::ModelConfig config;
    engine::CalibrationPtr profile;
    int site;
    float alpha;
  };
  void start(Wish wish);

  std::optional<Wish> m_next;
  bool m_running = false;
  app::Mailbox m_mailbox{this};
  std::jthread m_thread;  // last: joined first
};

}  // namespace vitrine::ui

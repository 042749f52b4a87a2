#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "app/lab/lab_types.h"
#include "engine/backend/backend.h"

namespace vitrine::app::lab {

/// What to measure, on which model, and where finished rows are kept.
struct LabPlan {
  std::filesystem::path model;
  engine::EngineConfig config;  ///< how the person runs the model; what it shares is left out
  engine::BackendInfo backend;  ///< as a loaded engine reports it; without a name it is looked up
  Effort effort = Effort::kQuick;
  std::vector<std::string> only;  ///< ids of rows; empty: all
  std::filesystem::path folder;   ///< of kept rows
  /// Rows that are kept and were measured with at least this effort are not measured again.
  bool resume = true;

  engine::Result<void> check() const;  ///< names an unknown row
};

/// Where a run is.
struct LabProgress {
  std::string row;          ///< id
  std::string method;       ///< its name
  int done = 0, total = 0;  ///< rows of this run
  double rowFraction = 0;   ///< of this row
  double fraction = 0;      ///< of the whole run
  double remainingSeconds = 0;
};

/// What hears of a run, on the thread that runs it.
struct LabListener {
  std::function<void(const LabProgress&)> progress;
  std::function<void(const LabRow&)> rowFinished;
  /// A row could not be measured; the others go on.
  std::function<void(const std::string& id, const engine::Error&)> rowFailed;
};

/// Runs experiments one after the other on the calling thread, keeps each row as soon as it is
/// there, and gives the report with all rows that are kept, those of earlier runs too. Cancels
/// within a step of the model: kCancelled, and the finished rows are kept. Other errors: the model
/// cannot be loaded, or every row failed (the first reason).
engine::Result<LabReport> runLab(const LabPlan& plan, const LabListener& listener,
                                 std::stop_token stop);

/// The subject of a plan: model, machine and the configuration that matters to the lab.
/// Requires: plan.backend has a name.
Subject describeSubject(const LabPlan& plan, const engine::Model& model);

/// What is kept of earlier runs, with its recommendations.
LabReport keptReport(const LabPlan& plan, const Subject& subject);

/// The configuration without what the lab decides itself (reuse, layout, KV heads, disk, budget).
engine::EngineConfig baseConfig(engine::EngineConfig config);

}  // namespace vitrine::app::lab

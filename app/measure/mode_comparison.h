#pragma once

#include <QObject>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "app/mailbox.h"
#include "engine/engine_types.h"
#include "engine/measure/evaluate.h"

namespace vitrine::app {

/// Two ways of running one model, and the text over which they are compared.
struct ComparisonRequest {
  std::shared_ptr<const engine::Model> model;
  engine::EngineConfig config, reference;
  /// A conversation, rendered by the model's template; empty: `text` as it stands.
  std::vector<engine::ChatMessage> messages;
  std::string text;
};

/// Measures in the background how far one way of running a model is from another (KL divergence,
/// share of equal best tokens). Makes two backends of its own beside the one that chats, with the
/// memory that they take; they are gone when it ends. Belongs to one thread (the window's).
class ModeComparison final : public QObject {
  Q_OBJECT
 public:
  /// The text is cut after this many tokens.
  static constexpr int kMostTokens = 1024;

  explicit ModeComparison(QObject* parent = nullptr);
  ~ModeComparison() override;  ///< stops what runs, within one step

  bool isRunning() const { return m_running; }
  /// Ends in finished() or failed(). Requires: !isRunning() and a model.
  void start(ComparisonRequest request);
  /// Ends in failed() with kCancelled, within one step.
  void cancel();

 signals:
  void progressed(double fraction);
  void finished(const vitrine::engine::EvaluationReport& report);
  void failed(const vitrine::engine::Error& error);

 private:
  void run(const ComparisonRequest& request, std::stop_token stop);

  bool m_running = false;
  Mailbox m_mailbox{this};
  std::jthread m_thread;  // last: joins before the rest goes
};

}  // namespace vitrine::app

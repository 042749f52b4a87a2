#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <QTimer>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "app/mailbox.h"
#include "app/server/event_router.h"
#include "engine/engine.h"

namespace vitrine::app {

using ModelInfoPtr = std::shared_ptr<const engine::ModelInfo>;

/// The engine's Qt side: commands go straight to its queue, events come back as signals on this
/// object's thread, at most one batch a frame (16 ms), and the tokens of a turn within a batch as
/// one signal, so that a fast model never floods the window. While nothing happens no timer runs.
///
/// Belongs to one thread (the window's). Destroying it stops what runs, within one step.
class EngineClient final : public QObject {
  Q_OBJECT
 public:
  explicit EngineClient(QObject* parent = nullptr);
  ~EngineClient() override;

  // Commands; each returns at once. The id comes back in the signals that it causes.
  engine::RequestId load(const std::filesystem::path& path, const engine::EngineConfig& config);
  engine::RequestId reconfigure(const engine::EngineConfig& config);
  void unload();
  engine::RequestId generate(engine::GenerateRequest request);
  std::vector<engine::RequestId> generateTogether(std::vector<engine::GenerateRequest> requests);
  // Questions; each ends in its signal below, or in turnFailed().
  engine::RequestId forecast(engine::GenerateRequest request);
  engine::RequestId verifyCache(engine::GenerateRequest request);
  void cancel(engine::RequestId id);
  void cancelLoad();  ///< the load or reconfiguration that runs, if any
  /// Ends in blockInspected() or turnFailed().
  engine::RequestId inspectBlock(engine::BlockId block);
  void forget(const QString& conversation);
  void release(const QString& conversation);  ///< its blocks of the pool, not what is on disk
  void clearCache();
  void clearArchive();

  std::shared_ptr<const engine::EngineSnapshot> snapshot() const;
  std::shared_ptr<const engine::Model> model() const;
  /// The loaded model as last reported, or null.
  ModelInfoPtr info() const { return m_info; }
  /// What was last asked for: the running configuration, or the one being switched to.
  const engine::EngineConfig& config() const { return m_config; }
  bool isLoading() const { return m_loading != 0; }
  /// A load, a switch or at least one turn runs: the time for panels to poll snapshot().
  bool isBusy() const { return m_loading != 0 || !m_turns.empty(); }

  /// The window tells that the first text of this turn is on screen. Emits firstPainted() with the
  /// milliseconds since generate(), once a turn.
  void reportFirstPaint(engine::RequestId id);

  // For the local API server, whose turns run beside the window's on the same engine.
  engine::Engine& engine() { return *m_engine; }
  EventRouter& router() { return m_router; }

 signals:
  void loadStarted(quint64 id);
  void loadProgressed(quint64 id, const QString& stage, double fraction);
  void modelLoaded(quint64 id, const vitrine::app::ModelInfoPtr& info);
  void modelUnloaded();
  /// `kept`: the model that was there before still is.
  void loadFailed(quint64 id, const vitrine::engine::Error& error, bool kept);

  /// `dropped`: messages of the prompt that the context policy left out.
  void turnStarted(quint64 id, int promptTokens, int reusedTokens, const std::vector<int>& dropped);
  /// `remainingMs` until the first token, by estimate; −1: not known.
  void prefillProgressed(quint64 id, int done, int total, double remainingMs);
  void tokensReady(quint64 id, const QString& text,
                   const std::vector<vitrine::engine::GeneratedToken>& tokens);
  void turnFinished(quint64 id, const vitrine::engine::TurnReport& report);
  void turnFailed(quint64 id, const vitrine::engine::Error& error);
  // Answers; turnFailed() where there is none.
  void forecastReady(quint64 id, const vitrine::engine::Forecast& forecast);
  void cacheVerified(quint64 id, const vitrine::engine::CacheProof& proof);
  void blockInspected(quint64 id, const vitrine::engine::BlockContent& content);
  void firstPainted(quint64 id, double milliseconds);

  void busyChanged(bool busy);

 private:
  void receive(const engine::Event& event);  // engine's thread
  void scheduleDelivery();
  void deliver();
  void dispatch(const engine::Event& event);
  void setLoading(engine::RequestId id);
  void noteBusy();

  EventRouter m_router;
  Mailbox m_mailbox{this};
  std::mutex m_mutex;
  std::vector<engine::Event> m_waiting;  // guarded by m_mutex
  bool m_deliveryDue = false;            // guarded by m_mutex

  QTimer m_frame{this};  // single shot; runs only between a batch and the next
  QElapsedTimer m_lastFrame;
  std::deque<engine::Event> m_batch;                       // delivered, not yet emitted
  std::set<engine::RequestId> m_turns;                     // running
  std::map<engine::RequestId, QElapsedTimer> m_unpainted;  // since the request
  engine::RequestId m_loading = 0;
  engine::EngineConfig m_config;
  engine::EngineConfig m_runningConfig;
  ModelInfoPtr m_info;
  bool m_wasBusy = false;
  std::unique_ptr<engine::Engine> m_engine;  // last: it is destroyed first
};

}  // namespace vitrine::app

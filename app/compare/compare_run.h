#pragma once

#include <QObject>
#include <QString>
#include <array>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "app/compare/compare_types.h"
#include "engine/base/result.h"

namespace vitrine::app {

class EngineClient;

/// Asks two configurations or samplings the same and keeps both answers as they stream.
///
/// A side whose configuration computes what the loaded engine computes runs there; two of them at
/// once, in one batch. Another configuration gets a second engine with a copy of the model, freed
/// by leave(). Whether there is memory for it is checked before.
///
/// idle ──start()──▶ (loading ▶) running ▶ … ──▶ idle; stop() leads back within a step.
class CompareRun final : public QObject {
  Q_OBJECT
 public:
  /// Requires: `engine` outlives it.
  explicit CompareRun(EngineClient& engine, QObject* parent = nullptr);
  ~CompareRun() override;

  /// Fails with a sentence (no model, no memory, nothing to ask); then nothing has changed.
  engine::Result<void> start(CompareSetup setup);
  void stop();
  /// Stops, frees the second engine and gives the blocks of the answers back.
  void leave();

  bool isRunning() const { return m_running; }
  /// What is being loaded, as a sentence with its progress; empty: nothing.
  QString loadingText() const;
  const CompareSetup& setup() const { return m_setup; }
  const CompareAnswer& answer(int side) const { return m_answers[std::size_t(side)]; }
  const std::array<CompareAnswer, 2>& answers() const { return m_answers; }
  CompareOrder order() const { return m_order; }
  /// Steps of the loaded engine that computed both answers together, of all that computed either.
  int sharedSteps() const { return int(m_sharedSteps.size()); }
  int allSteps() const { return int(m_steps.size()); }
  FirstDifference difference() const { return m_difference; }
  bool hasSecondEngine() const { return m_second != nullptr; }

  /// The engine's keys of the two conversations, as the lanes show them.
  static QString conversationOf(int side);

 signals:
  void changed();
  void finished();

 private:
  /// Sides that run together on one engine under one configuration.
  struct Group {
    bool onSecond = false;
    engine::EngineConfig config;
    std::vector<int> sides;
  };

  std::deque<Group> groupsOf(const CompareSetup& setup) const;
  void runNext();
  void begin(const Group& group);
  void ask(const Group& group);
  void loadSecond(const Group& group);
  void watch(EngineClient& engine, bool second);
  void noteAnswers();
  void noteSteps();
  void endIfDone();
  void failGroup(const Group& group, const QString& why);
  int sideOf(bool second, quint64 id) const;

  EngineClient& m_engine;
  std::unique_ptr<EngineClient> m_second;
  CompareSetup m_setup;
  std::array<CompareAnswer, 2> m_answers;
  struct Request {
    bool onSecond = false;
    quint64 id = 0;  // 0: does not run
  };
  std::array<Request, 2> m_requests;
  std::array<quint64, 2> m_turns{};  // ids on the loaded engine, for the step log; 0: none
  std::deque<Group> m_waiting;
  std::unique_ptr<Group> m_loading;  // waits for the second engine
  CompareOrder m_order = CompareOrder::kOneBatch;
  QString m_loadStage;
  double m_loadFraction = 0;
  FirstDifference m_difference;
  std::set<std::uint64_t> m_steps, m_sharedSteps;  // numbers
  bool m_running = false;
};

}  // namespace vitrine::app

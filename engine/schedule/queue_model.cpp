#include "engine/schedule/queue_model.h"

#include <algorithm>

namespace vitrine::engine {
namespace {

struct Player {
  QueuedTurn turn;
  bool isAsked = false;
};

/// The rules of Scheduler::planBatch(), on counts alone.
class Play {
 public:
  Play(const QueueModel& model, const StepCost& cost) : m_model(model), m_cost(cost) {}

  double run(std::vector<Player> running, std::deque<Player> waiting) {
    constexpr int kMostSteps = 20000;  // a forecast of minutes; nobody needs it finer
    double milliseconds = 0;
    for (int step = 0; step < kMostSteps; ++step) {
      if (m_model.batching == Batching::kContinuous || running.empty()) {
        while (!waiting.empty() &&
               static_cast<int>(running.size()) < std::max(1, m_model.maxSequences)) {
          running.push_back(waiting.front());
          waiting.pop_front();
        }
      }
      if (playStep(running, milliseconds)) return milliseconds;
    }
    return milliseconds;
  }

 private:
  /// True once the asked turn has its token.
  bool playStep(std::vector<Player>& running, double& milliseconds) {
    StepWork work;
    int budget = std::max(1, m_model.prefillChunk);
    std::vector<int> taken(running.size(), 0);
    for (std::size_t i = 0; i < running.size(); ++i) {
      const QueuedTurn& turn = running[i].turn;
      if (turn.pending == 1) {
        taken[i] = 1;
      } else if (budget > 0) {
        taken[i] = std::min(budget, turn.pending);
        budget -= taken[i];
      }
      if (taken[i] > 0) work.add(taken[i], turn.computed, taken[i] == turn.pending);
    }
    milliseconds += m_cost.predictMs(work) + work.logitRows * m_cost.samplingMs();
    bool isDone = false;
    for (std::size_t i = 0; i < running.size(); ++i) {
      QueuedTurn& turn = running[i].turn;
      turn.computed += taken[i];
      turn.pending -= taken[i];
      if (turn.pending > 0) continue;
      isDone = isDone || running[i].isAsked;
      --turn.tokensToCome;
      turn.pending = turn.keepsCache ? 1 : turn.computed + 1;
      if (!turn.keepsCache) turn.computed = 0;
    }
    std::erase_if(running, [](const Player& p) { return p.turn.tokensToCome <= 0; });
    return isDone;
  }

  const QueueModel& m_model;
  const StepCost& m_cost;
};

std::vector<Player> playersOf(const std::vector<QueuedTurn>& turns) {
  std::vector<Player> players;
  for (const QueuedTurn& turn : turns) players.push_back(Player{turn, false});
  return players;
}

}  // namespace

double QueueModel::untilToken(const StepCost& cost, std::size_t index) const {
  std::vector<Player> players = playersOf(running);
  players[index].isAsked = true;
  return Play(*this, cost).run(std::move(players), {});
}

double QueueModel::untilTokenOfLast(const StepCost& cost) const {
  std::deque<Player> queue;
  for (const QueuedTurn& turn : waiting) queue.push_back(Player{turn, false});
  queue.back().isAsked = true;
  return Play(*this, cost).run(playersOf(running), std::move(queue));
}

}  // namespace vitrine::engine

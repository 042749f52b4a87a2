#pragma once

#include <QObject>
#include <QString>
#include <QThreadPool>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "app/mailbox.h"
#include "engine/engine_types.h"

namespace vitrine::app {

class ChatSession;
class EngineClient;

/// What one policy would do to the next prompt.
struct ContextOption {
  engine::ContextPolicy policy = engine::ContextPolicy::kStop;
  std::vector<int> rows;  ///< of the session's path that would leave, ascending
  int promptTokens = 0;   ///< of what stays
  bool fits = true;       ///< with one token of the answer
  /// What the prompt would reuse, compute and take; none until the engine has answered.
  std::optional<engine::Forecast> forecast;
};

/// The next turn of a chat against the limit of the context.
struct ContextOutlook {
  int limitTokens = 0;
  int wholeTokens = 0;  ///< of the prompt with nothing left out
  /// Nothing has to leave at the next turn: the options tell what will once the limit is reached.
  bool ahead = false;
  int tokensUntilThen = 0;             ///< that still fit before messages leave
  std::vector<ContextOption> options;  ///< one a policy, in the enumeration's order
  QString problem;                     ///< not empty: why there are none

  const ContextOption* option(engine::ContextPolicy policy) const;
};

/// Finds out what each context policy would leave out of a chat's next prompt, and asks the engine
/// what the rest costs. Planning (rendering and tokenizing the chat some times) runs on a thread of
/// its own; the latest call of look() wins.
class ContextPreview final : public QObject {
  Q_OBJECT
 public:
  /// Requires: `engine` outlives it.
  explicit ContextPreview(EngineClient& engine, QObject* parent = nullptr);
  ~ContextPreview() override;

  /// Ends in changed(): first with the plans, then with each forecast.
  void look(const ChatSession& session, const QString& draft);
  const ContextOutlook& outlook() const { return m_outlook; }
  bool isPlanning() const { return m_planning; }

 signals:
  void changed();

 private:
  struct Plan {
    ContextOutlook outlook;
    std::vector<engine::GenerateRequest> requests;  // one an option, of what stays
  };

  void take(Plan plan);
  void dropForecasts();

  EngineClient& m_engine;
  Mailbox m_mailbox{this};
  QThreadPool m_pool;  // one thread
  quint64 m_call = 0;
  bool m_planning = false;
  ContextOutlook m_outlook;
  std::map<engine::RequestId, std::size_t> m_forecasts;  // asked for; index of the option
};

}  // namespace vitrine::app

#pragma once

#include <QObject>
#include <deque>
#include <functional>
#include <mutex>

namespace vitrine::app {

/// Calls from any thread, made one by one and in order by the event loop of the thread that this
/// object belongs to. Calls that still wait when it is destroyed are never made.
class Mailbox final : public QObject {
  Q_OBJECT
 public:
  explicit Mailbox(QObject* owner) : QObject(owner) {}

  /// Requires: the object outlives this function (an owner joins its threads first).
  void post(std::function<void()> call);

 private:
  Q_INVOKABLE void callNext();

  std::mutex m_mutex;
  std::deque<std::function<void()>> m_waiting;  // guarded by m_mutex
};

}  // namespace vitrine::app

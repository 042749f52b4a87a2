#include "app/mailbox.h"

#include <utility>

namespace vitrine::app {

void Mailbox::post(std::function<void()> call) {
  {
    const std::lock_guard lock(m_mutex);
    m_waiting.push_back(std::move(call));
  }
  // By name: what Qt queues is then made and freed inside Qt alone. A typed call would be made here
  // and freed there with only Qt's own queue between, which ThreadSanitizer cannot see (Debian's Qt
  // is not instrumented), and would report now and then.
  QMetaObject::invokeMethod(this, "callNext", Qt::QueuedConnection);
}

// One a turn of the event loop: a call may run a loop of its own (a dialog), and the next ones are
// then made inside it, or destroy this object.
void Mailbox::callNext() {
  std::function<void()> call;
  {
    const std::lock_guard lock(m_mutex);
    call = std::move(m_waiting.front());
    m_waiting.pop_front();
  }
  call();
}

}  // namespace vitrine::app

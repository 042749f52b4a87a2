#include "ui/composer/token_counter.h"

#include "engine/tokenizer/tokenizer.h"

namespace vitrine::ui {

namespace {
constexpr int kDelayMs = 120;
constexpr int kLongDelayMs = 400;
constexpr qsizetype kLong = 50000;
}  // namespace

TokenCounter::TokenCounter(QObject* parent) : QObject(parent) {
  m_pool.setMaxThreadCount(1);
  m_pool.setExpiryTimeout(2000);
  m_delay.setSingleShot(true);
  connect(&m_delay, &QTimer::timeout, this, &TokenCounter::start);
}

TokenCounter::~TokenCounter() {
  m_pool.waitForDone();  // its result is posted to this object
}

void TokenCounter::count(std::shared_ptr<const engine::Model> model, const QString& text) {
  ++m_request;
  m_model = std::move(model);
  m_text = text;
  m_pending = m_model != nullptr;
  if (m_pending) {
    m_delay.start(text.size() > kLong ? kLongDelayMs : kDelayMs);
  } else {
    m_delay.stop();
  }
}

void TokenCounter::start() {
  if (!m_model || m_running) return;  // start() again when the running count is done
  m_running = true;
  m_pool.start([this, model = m_model, text = m_text, request = m_request] {
    const std::string utf8 = text.toStdString();
    const int tokens = int(model->tokenizer().encode(utf8).size());
    m_mailbox.post([this, tokens, request] {
      m_running = false;
      if (request != m_request) {
        if (!m_delay.isActive()) start();
        return;
      }
      m_pending = false;
      m_model.reset();
      m_text.clear();
      emit counted(tokens);
    });
  });
}

}  // namespace vitrine::ui

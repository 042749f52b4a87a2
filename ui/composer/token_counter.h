#pragma once

#include <QObject>
#include <QString>
#include <QThreadPool>
#include <QTimer>
#include <atomic>
#include <memory>

#include "app/mailbox.h"
#include "engine/engine.h"

namespace vitrine::ui {

/// Counts the tokens of a text with the model's own tokenizer on a thread of its own. The latest
/// request wins; short texts are counted a moment after the last key, long ones a little later.
class TokenCounter final : public QObject {
  Q_OBJECT
 public:
  explicit TokenCounter(QObject* parent = nullptr);
  ~TokenCounter() override;

  /// Null model: nothing is counted. Ends in counted() unless another request comes first.
  void count(std::shared_ptr<const engine::Model> model, const QString& text);
  bool isPending() const { return m_pending; }

 signals:
  void counted(int tokens);

 private:
  void start();

  app::Mailbox m_mailbox{this};
  QThreadPool m_pool;  // one thread
  QTimer m_delay;
  std::shared_ptr<const engine::Model> m_model;
  QString m_text;
  quint64 m_request = 0;
  bool m_running = false;
  bool m_pending = false;
};

}  // namespace vitrine::ui

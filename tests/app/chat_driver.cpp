// A program for tests that need another process: it is killed in mid-answer, or writes beside
// others.
//
//   chat_driver chat DATABASE MODEL   chats for ever; what is on screen goes to standard output,
//                                     one line "<milliseconds> <conversation> <message> <length>"
//   chat_driver write DATABASE TURNS  writes a conversation of so many turns
#include <QCoreApplication>
#include <QElapsedTimer>
#include <QTemporaryDir>
#include <cstdio>

#include "app/chat/chat_session.h"
#include "app/chat/engine_client.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/text.h"

using namespace vitrine::app;

namespace {

int write(ConversationStore& store, int turns) {
  const auto conversation = store.create();
  if (!conversation) return 1;
  MessageId parent = 0;
  for (int i = 0; i < turns; ++i) {
    Message question, answer;
    question.conversation = answer.conversation = conversation->id;
    question.parent = parent;
    question.text = QStringLiteral("question %1").arg(i);
    answer.role = Role::kAssistant;
    answer.state = MessageState::kStreaming;
    auto turn = store.appendTurn(question, answer);
    if (!turn) {
      std::fprintf(stderr, "%s\n", turn.error().message.c_str());
      return 1;
    }
    turn->second.text = QStringLiteral("answer");
    turn->second.state = MessageState::kComplete;
    if (!store.saveProgress(turn->second) || !store.finish(turn->second)) return 1;
    parent = turn->second.id;
  }
  return 0;
}

int chat(ConversationStore& store, const QString& model) {
  QTemporaryDir dir;
  Settings settings(dir.filePath(QStringLiteral("settings.ini")));
  EngineClient engine;
  const auto conversation = store.create();
  if (!conversation) return 1;
  ChatSession session(store, engine, settings, conversation->id);
  QElapsedTimer clock;
  clock.start();
  const auto report = [&](int row) {
    const Message& message = session.rows()[std::size_t(row)].message;
    std::printf("%lld %lld %lld %lld\n", static_cast<long long>(clock.elapsed()),
                static_cast<long long>(message.conversation), static_cast<long long>(message.id),
                static_cast<long long>(message.text.size()));
    std::fflush(stdout);
  };
  QObject::connect(&session, &ChatSession::messageAdded, report);
  QObject::connect(&session, &ChatSession::messageChanged, report);
  const auto ask = [&] {
    if (auto sent = session.send(QStringLiteral("Count, please.")); !sent) {
      std::fprintf(stderr, "%s\n", sent.error().message.c_str());
      QCoreApplication::exit(1);
    }
  };
  QObject::connect(&engine, &EngineClient::modelLoaded, &session, ask);
  QObject::connect(&session, &ChatSession::turnFinished, &session, ask, Qt::QueuedConnection);
  QObject::connect(&session, &ChatSession::turnFailed, [](const TurnFailure& failure) {
    std::fprintf(stderr, "%s\n", failure.error.message.c_str());
    QCoreApplication::exit(1);
  });
  engine.load(toPath(model), {});
  return QCoreApplication::exec();
}

}  // namespace

int main(int argc, char** argv) {
  QCoreApplication app(argc, argv);
  const QStringList words = QCoreApplication::arguments();
  if (words.size() != 4) return 2;
  auto store = ConversationStore::open(words[2]);
  if (!store) {
    std::fprintf(stderr, "%s\n", store.error().message.c_str());
    return 1;
  }
  return words[1] == QLatin1String("write") ? write(**store, words[3].toInt())
                                            : chat(**store, words[3]);
}

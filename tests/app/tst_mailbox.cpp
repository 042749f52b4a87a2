// Calls handed from other threads to the event loop: all, in order, one by one, none too late.
#include <QEventLoop>
#include <QtTest>
#include <thread>

#include "app/mailbox.h"

using vitrine::app::Mailbox;

class TestMailbox : public QObject {
  Q_OBJECT

 private slots:
  void callsOfEachThreadComeInOrderOnThisOne() {
    constexpr int kCalls = 2000;
    QObject owner;
    Mailbox mailbox(&owner);
    std::vector<int> heard[2];
    bool elsewhere = false;
    {
      const auto send = [&](int thread) {
        for (int i = 0; i < kCalls; ++i) {
          // A value on the heap: ThreadSanitizer looks at who writes, reads and frees it.
          mailbox.post([&, thread, value = std::vector<int>(20, i)] {
            heard[thread].push_back(value.back());
            elsewhere = elsewhere || QThread::currentThread() != owner.thread();
          });
        }
      };
      const std::jthread first(send, 0), second(send, 1);
      // Heard while they are sent: the loop is then often awake already when the next call comes.
      QTRY_VERIFY(heard[0].size() + heard[1].size() == 2 * kCalls);
    }
    QVERIFY(!elsewhere);
    for (const auto& calls : heard) {
      for (int i = 0; i < kCalls; ++i) QCOMPARE(calls[std::size_t(i)], i);
    }
  }

  void theNextCallsAreMadeInsideALoopOfTheFirst() {
    QObject owner;
    Mailbox mailbox(&owner);
    QStringList heard;
    QEventLoop dialog;
    mailbox.post([&] {
      heard << "opens";
      mailbox.post([&] {
        heard << "posted inside";
        dialog.quit();
      });
      dialog.exec();
      heard << "closed";
    });
    mailbox.post([&] { heard << "next"; });
    QTRY_COMPARE(heard, (QStringList{"opens", "next", "posted inside", "closed"}));
  }

  void nothingIsCalledOnceItIsGone() {
    auto owner = std::make_unique<QObject>();
    auto* mailbox = new Mailbox(owner.get());  // deleted by the first call, as a closing page would
    const auto alive = std::make_shared<int>(0);
    bool late = false;
    mailbox->post([&owner] { owner.reset(); });
    mailbox->post([&late, alive] { late = true; });
    QTRY_VERIFY(!owner);
    QCOMPARE(alive.use_count(), 1L);  // and what it held is freed
    QTest::qWait(20);
    QVERIFY(!late);
  }
};

QTEST_GUILESS_MAIN(TestMailbox)
#include "tst_mailbox.moc"

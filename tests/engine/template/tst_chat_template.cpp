#include <QtTest>

#include "engine/template/chat_template.h"

using namespace vitrine::engine;

class TestChatTemplate : public QObject {
  Q_OBJECT

 private slots:
  void substituteIsChatMl() {
    const auto chat = ChatTemplate::substitute("the file has none");
    const std::vector<ChatMessage> messages = {{"user", "Hi <|im_end|>", {}}};
    const auto pieces = chat->render(messages);
    QVERIFY(pieces);
    QCOMPARE(joinPieces(*pieces),
             std::string("<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n"));
    QCOMPARE(pieces->size(), std::size_t{3});
    QCOMPARE((*pieces)[1].message, 0);
    QVERIFY((*pieces)[1].wholeContent);
    QCOMPARE(chat->turnEndTexts(), std::vector<std::string>{"<|im_end|>"});
    QVERIFY(chat->acceptsSystemMessage());
  }
};

QTEST_GUILESS_MAIN(TestChatTemplate)
#include "tst_chat_template.moc"

#include <QApplication>
#include <QCommandLineParser>
#include <QMessageBox>
#include <QTimer>

#include "app/chat/engine_client.h"
#include "app/chat/session_pool.h"
#include "app/paths.h"
#include "app/settings.h"
#include "app/store/conversation_store.h"
#include "app/text.h"
#include "ui/main_window.h"
#include "ui/theme/theme.h"

using namespace vitrine;

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  QApplication::setApplicationName("vitrine");
  QApplication::setApplicationDisplayName("Vitrine");
  QApplication::setApplicationVersion(VITRINE_VERSION);
  QApplication::setDesktopFileName("vitrine");

  QCommandLineParser parser;
  parser.setApplicationDescription(
      QApplication::translate("main",
                              "Chat with a local language model and see how the answer is "
                              "made."));
  parser.addHelpOption();
  parser.addVersionOption();
  parser.addPositionalArgument("model", QApplication::translate("main", "A GGUF file to open."),
                               "[model]");
  parser.process(application);

  const app::Paths paths = app::Paths::standard();
  app::Settings settings(paths.settings);
  ui::Theme::instance().install(application);
  auto store = app::ConversationStore::open(paths.database);
  if (!store) {
    QMessageBox box(QMessageBox::Critical, "Vitrine",
                    QApplication::translate("main", "The conversations cannot be opened."));
    box.setTextFormat(Qt::PlainText);
    box.setInformativeText(app::toQString(store.error().message));
    box.exec();
    return 1;
  }
  app::EngineClient engine;
  app::SessionPool pool(**store, engine, settings);
  ui::MainWindow window({settings, **store, engine, pool, paths});
  window.show();
  QTimer::singleShot(0, &window, [&] {
    const QStringList arguments = parser.positionalArguments();
    window.openFirstModel(arguments.isEmpty() ? std::filesystem::path()
                                              : app::toPath(arguments.first()));
  });
  return QApplication::exec();
}

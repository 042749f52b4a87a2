#include <QApplication>

#include "ui/main_window.h"
#include "ui/theme/theme.h"

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  QApplication::setOrganizationName("");
  QApplication::setApplicationName("vitrine");
  QApplication::setApplicationDisplayName("Vitrine");
  QApplication::setApplicationVersion(VITRINE_VERSION);
  vitrine::ui::Theme::instance().install(application);
  vitrine::ui::MainWindow window;
  window.show();
  return QApplication::exec();
}

#include "app/studio/bundled_texts.h"

#include <QCoreApplication>
#include <QFile>

// Resources of a static library have to be asked for; Q_INIT_RESOURCE must stand outside of any
// namespace.
static void initResources() {
  Q_INIT_RESOURCE(calibration);
}

namespace vitrine::app::studio {

const std::vector<BundledText>& bundledTexts() {
  const auto title = [](const char* text) {
    return QCoreApplication::translate("BundledTexts", text);
  };
  static const std::vector<BundledText> texts = {
      {QStringLiteral("english"), title(QT_TRANSLATE_NOOP("BundledTexts", "English prose"))},
      {QStringLiteral("chinese"), title(QT_TRANSLATE_NOOP("BundledTexts", "Chinese prose"))},
      {QStringLiteral("code"), title(QT_TRANSLATE_NOOP("BundledTexts", "Program code"))},
      {QStringLiteral("chat"), title(QT_TRANSLATE_NOOP("BundledTexts", "Chat in English"))},
  };
  return texts;
}

std::string bundledText(const QString& id) {
  initResources();
  for (const BundledText& text : bundledTexts()) {
    if (text.id != id) continue;
    QFile file(QStringLiteral(":/calibration/%1.txt").arg(id));
    if (file.open(QIODevice::ReadOnly)) return file.readAll().toStdString();
  }
  return {};
}

}  // namespace vitrine::app::studio

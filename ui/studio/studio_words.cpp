#include "ui/studio/studio_words.h"

#include <QCoreApplication>
#include <QDateTime>
#include <QLocale>
#include <cmath>

#include "app/text.h"

namespace vitrine::ui {

namespace {

QString tr(const char* text) {
  return QCoreApplication::translate("Studio", text);
}

}  // namespace

QString inputText(engine::LinearInput input) {
  switch (input) {
    case engine::LinearInput::kAttention:
      return tr("into q, k, v");
    case engine::LinearInput::kAttentionOut:
      return tr("into o");
    case engine::LinearInput::kFfn:
      return tr("into gate, up");
    case engine::LinearInput::kDown:
      return tr("into down");
    case engine::LinearInput::kOutput:
      return tr("into the output");
  }
  return {};
}

QString siteWords(int site, int nLayers) {
  if (site == engine::outputSite(nLayers)) return tr("Into the output");
  return tr("Layer %1, %2")
      .arg(engine::layerOfSite(site, nLayers))
      .arg(inputText(engine::inputOfSite(site, nLayers)));
}

QString methodText(engine::ScaleMethod method, double percentile) {
  switch (method) {
    case engine::ScaleMethod::kMax:
      return tr("Maximum");
    case engine::ScaleMethod::kPercentile:
      return tr("Percentile %1").arg(percentile, 0, 'g', 6);
    case engine::ScaleMethod::kMse:
      return tr("Least squared error");
  }
  return {};
}

QString magnitudeText(double value) {
  if (!std::isfinite(value)) return QStringLiteral("–");
  const double size = std::abs(value);
  if (size == 0) return QStringLiteral("0");
  if (size < 0.0005 || size >= 1e6) return QString::number(value, 'e', 1);
  const int decimals = size < 0.01 ? 5 : size < 0.1 ? 4 : size < 1 ? 3 : size < 10 ? 2 : 1;
  return QString::number(value, 'f', size >= 100 ? 0 : decimals);
}

QString tinyShareText(double share) {
  const double percent = share * 100;
  if (!(percent > 0)) return QStringLiteral("0 %");
  if (percent < 0.001) return tr("under 0.001 %");
  const int decimals = percent < 0.1 ? 3 : percent < 1 ? 2 : percent < 99.95 ? 1 : 0;
  return QString::number(percent, 'f', decimals) + QStringLiteral(" %");
}

QString klText(double nats) {
  const double size = std::abs(nats);
  if (size == 0) return QStringLiteral("0");
  if (size < 1e-5) return QString::number(nats, 'e', 1);
  return QString::number(nats, 'f', size < 0.001 ? 6 : size < 0.1 ? 4 : 3);
}

QString dateText(const std::string& iso) {
  const QDateTime time = QDateTime::fromString(app::toQString(iso), Qt::ISODate);
  if (!time.isValid()) return app::toQString(iso);
  return QLocale(QLocale::English)
      .toString(time.toLocalTime(), QStringLiteral("d MMM yyyy, HH:mm"));
}

QString sentenceText(const std::string& message) {
  QString text = app::toQString(message);
  if (!text.isEmpty()) text[0] = text[0].toUpper();
  return text;
}

}  // namespace vitrine::ui

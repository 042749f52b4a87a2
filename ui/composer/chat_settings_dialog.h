#pragma once

#include <QDialog>
#include <QJsonObject>
#include <QPointer>
#include <vector>

class QGridLayout;
class QLineEdit;
class QPlainTextEdit;
class QSlider;

namespace vitrine::app {
class ChatSession;
class EngineClient;
class Settings;
}  // namespace vitrine::app

namespace vitrine::ui {

class PlainLabel;

/// System prompt and sampling of one chat; without a chat, the defaults of new ones. The sliders
/// reach only values that have a meaning. Takes effect with the next message.
class ChatSettingsDialog final : public QDialog {
  Q_OBJECT
 public:
  ChatSettingsDialog(app::ChatSession* session, app::EngineClient& engine, app::Settings& settings,
                     QWidget* parent);

  void accept() override;
  /// What would be stored: only what differs from the defaults.
  QJsonObject sampling() const;

 private:
  /// A number on a slider: `step` from `low` to `high`.
  struct Field {
    QString key;  ///< as in JSON
    double low, high, step;
    int decimals;
    QString offText;  ///< shown in place of `offValue`; empty: none
    double offValue;
    QSlider* slider = nullptr;
    PlainLabel* value = nullptr;
  };

  void addField(QGridLayout* grid, const QString& label, const QString& explanation, Field field);
  double valueOf(const Field& field) const;
  void show(const QJsonObject& values);
  void showValue(const Field& field);
  QJsonObject defaults() const;

  QPointer<app::ChatSession> m_session;
  app::EngineClient& m_engine;
  app::Settings& m_settings;
  bool m_forChat;
  QPlainTextEdit* m_prompt;
  std::vector<Field> m_fields;
  QLineEdit* m_seed;
};

}  // namespace vitrine::ui

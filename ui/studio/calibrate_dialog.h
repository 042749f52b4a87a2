#pragma once

#include <QDialog>
#include <QVector>

#include "ui/studio/text_choice.h"

class QCheckBox;
class QDoubleSpinBox;
class QLineEdit;
class QListWidget;
class QPushButton;
class QSpinBox;

namespace vitrine::ui {

class PlainLabel;
class SegmentedSwitch;
class StudioState;

/// What to calibrate on, how the scale is taken from it, and a name. accept() starts nothing: the
/// job is read from the dialog.
class CalibrateDialog final : public QDialog {
  Q_OBJECT
 public:
  explicit CalibrateDialog(StudioState& state, QWidget* parent = nullptr);

  void addFile(const QString& file);
  void setName(const QString& name);
  /// The job of what is chosen, the texts read. Requires: accepted.
  const app::studio::CalibrationJob& job() const { return m_job; }

 public slots:
  void accept() override;  ///< reads the texts; says what is wrong instead of closing

 private:
  QWidget* makeTexts();
  QWidget* makeMethod();
  std::vector<TextSource> chosen() const;
  void update();

  StudioState& m_state;
  app::studio::CalibrationJob m_job;
  QVector<QCheckBox*> m_bundled;
  QListWidget *m_files, *m_chats;
  SegmentedSwitch* m_method;
  QDoubleSpinBox* m_percentile;
  QSpinBox* m_tokens;
  QLineEdit* m_name;
  PlainLabel *m_percentileName, *m_methodText, *m_fault;
  QPushButton* m_start = nullptr;
};

}  // namespace vitrine::ui

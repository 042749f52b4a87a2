#pragma once

#include <QWidget>

#include "ui/studio/profile_comparison.h"
#include "ui/studio/text_choice.h"

class QComboBox;
class QPushButton;
class QTreeWidget;

namespace vitrine::ui {

class PlainLabel;
class StudioState;

/// The calibration profiles of the loaded model: chosen, compared, put in force, deleted; and the
/// mismatch report: what the chosen one's scales would do to another profile's text.
class ProfileSection final : public QWidget {
  Q_OBJECT
 public:
  explicit ProfileSection(StudioState& state, QWidget* parent = nullptr);

  QTreeWidget* list() const { return m_list; }
  QTreeWidget* report() const { return m_report; }
  QString summary() const;
  /// A profile that lies elsewhere: kept with the others and chosen, if it is of this model.
  void importFile(const QString& file);
  /// Shows what the chosen profile's scales would do to a text that was just read.
  void showAgainst(const engine::CalibrationPtr& other, const QString& name);
  /// Compares with the profile that was chosen before, if there is another.
  void compareWithAnother();

 signals:
  void calibrateWanted();
  void faultHappened(const QString& message);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* makeList();
  QWidget* makeReport();
  void fillList();
  void fillOthers();
  void compare();
  void showReport(const engine::CalibrationProfile& other, const QString& name);
  void clearReport(const QString& text);
  void removeChosen();
  void updateButtons();

  StudioState& m_state;
  QTreeWidget *m_list, *m_report;
  PlainLabel *m_empty, *m_problem, *m_summary, *m_againstName;
  QComboBox* m_others;
  QPushButton *m_calibrate, *m_import, *m_use, *m_delete, *m_compare;
  std::vector<engine::CalibrationPtr> m_otherProfiles;
  std::vector<TextSource> m_otherTexts;
  bool m_filling = false;
};

}  // namespace vitrine::ui

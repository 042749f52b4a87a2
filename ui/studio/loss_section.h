#pragma once

#include <QStringList>
#include <QWidget>

#include "app/studio/studio_session.h"
#include "ui/studio/loss_modes.h"

class QCheckBox;
class QGridLayout;
class QPushButton;
class QSpinBox;

namespace vitrine::ui {

class PlainLabel;
class StudioState;
class TextPicker;

/// What each mode loses against FP16 on a text, row by row as it is measured.
class LossSection final : public QWidget {
  Q_OBJECT
 public:
  explicit LossSection(StudioState& state, QWidget* parent = nullptr);

  void start();
  void choose(const QStringList& ids);  ///< these modes alone
  void takeRow(const app::studio::LossRow& row);
  void finish();  ///< no more rows come
  TextPicker* text() const { return m_text; }
  /// Perplexity, KL, p99, top-1, bytes of a mode as shown; empty texts where not measured.
  QStringList figures(const QString& id) const;

 signals:
  void faultHappened(const QString& message);

 private:
  struct Line {
    LossMode mode;
    QCheckBox* box;
    QVector<PlainLabel*> figures;
    QPushButton* use;
    bool measured = false;
  };
  void build();
  void updateButtons();

  StudioState& m_state;
  TextPicker* m_text;
  QSpinBox* m_tokens;
  QPushButton* m_start;
  PlainLabel* m_summary;
  QWidget* m_tablePlace;
  QWidget* m_table = nullptr;
  std::vector<Line> m_lines;
  QString m_readName;
};

}  // namespace vitrine::ui

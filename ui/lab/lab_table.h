#pragma once

#include <QFrame>
#include <QWidget>
#include <vector>

#include "app/lab/lab_types.h"
#include "engine/model/model_config.h"

class QPushButton;

namespace vitrine::ui {

class PlainLabel;

/// A gain as a bar: the logarithm of its factor, 16 times is all of it.
class GainBar final : public QWidget {
  Q_OBJECT
 public:
  explicit GainBar(QWidget* parent = nullptr);
  void setShare(double share, int colour);
  double share() const { return m_share; }
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  double m_share = 0;
  int m_colour = 0;
};

/// The trade-off table: a line for each method, measured or not.
class LabTable final : public QWidget {
  Q_OBJECT
 public:
  explicit LabTable(QWidget* parent = nullptr);

  /// The names of the methods for a model; null: for any.
  void setModel(const engine::ModelConfig* model);
  void setRows(const std::vector<app::lab::LabRow>& rows);
  void setRow(const app::lab::LabRow& row);
  /// Which row is being measured, and how far; an empty id: none.
  void setRunning(const std::string& id, double share);
  void setFault(const std::string& id, const QString& message);
  void setBusy(bool busy);  ///< no row can be asked for

  QString gain(const std::string& id) const;
  QString cost(const std::string& id) const;

 signals:
  /// The person wants this row measured (again).
  void rowWanted(const QString& id);

 private:
  struct Line {
    std::string id;
    PlainLabel *method, *gain, *cost, *measured;
    GainBar* bar;
    QPushButton* again;
    bool known = false;
  };
  Line* find(const std::string& id);
  void clear(Line& line);

  std::vector<Line> m_lines;
};

}  // namespace vitrine::ui

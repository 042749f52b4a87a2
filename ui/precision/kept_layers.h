#pragma once

#include <QWidget>
#include <functional>

#include "engine/quant/matrix_set.h"

class QLineEdit;
class QPushButton;

namespace vitrine::ui {

class PlainLabel;

/// Matrices that stay in FP16, as text ("0-2, *.down, output"): folded to one line that names them,
/// opened to edit. What is typed is read as it is typed; only "Apply" or Return asks for it.
class KeptLayers final : public QWidget {
  Q_OBJECT
 public:
  explicit KeptLayers(QWidget* parent = nullptr);

  /// What is in force, on a model of so many layers. What the person is typing stays.
  void setKept(const engine::MatrixSet& kept, int nLayers);
  /// What keeping a set costs in memory; asked while it is typed. May be null.
  void setBytesOf(std::function<std::uint64_t(const engine::MatrixSet&)> bytesOf);
  void setOpen(bool open);

 signals:
  void wanted(const vitrine::engine::MatrixSet& kept);

 private:
  void showTyped();
  void apply();
  engine::Result<engine::MatrixSet> typed() const;

  engine::MatrixSet m_kept;
  int m_nLayers = 0;
  std::function<std::uint64_t(const engine::MatrixSet&)> m_bytesOf;
  QPushButton* m_fold;
  QWidget* m_body;
  QLineEdit* m_text;
  QPushButton *m_apply, *m_none;
  PlainLabel *m_note, *m_fault;
};

}  // namespace vitrine::ui

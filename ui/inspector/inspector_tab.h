#pragma once

#include <QWidget>

#include "ui/inspector/inspector_state.h"

class QVBoxLayout;

namespace vitrine::ui {

/// One tab of the inspector: sections under each other, drawn from a state. A new tab is a class
/// in a folder of its own and a line in inspector_panel.cpp.
class InspectorTab : public QWidget {
  Q_OBJECT
 public:
  explicit InspectorTab(QWidget* parent = nullptr);

  /// Called at most ten times a second, and only while the tab is on screen.
  virtual void showState(const InspectorState& state) = 0;
  /// What a block of the pool says, after blockTextWanted().
  virtual void showBlockText(int block, const QString& text);
  /// Whether it wants states while another tab is shown (it has a window of its own open).
  virtual bool wantsStates() const { return false; }

 signals:
  /// The person flipped a switch: how the engine should run from now on.
  void configWanted(const vitrine::engine::EngineConfig& config);
  void cancelWanted();
  void cacheProofWanted();
  void cacheProofCancelWanted();
  void stateWanted();
  /// The person wants a calibration profile to be made.
  void studioWanted();
  /// -1: none any more.
  void blockTextWanted(int block);
  /// The message that holds this position of a branch's cached history.
  void messageWanted(const QString& conversation, const QString& branch, int position);

 protected:
  /// A new section below the last, with a line between them; fill the returned layout.
  /// `aside` is a muted figure at the right of the heading; `asideLabel` gives access to it.
  QVBoxLayout* addSection(const QString& heading, class PlainLabel** asideLabel = nullptr);
  /// After the last section.
  void endSections();

 private:
  QVBoxLayout* m_sections;
  bool m_any = false;
};

}  // namespace vitrine::ui

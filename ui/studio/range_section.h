#pragma once

#include <QWidget>

class QGridLayout;

namespace vitrine::ui {

class HeatMap;
class HistogramView;
class PlainLabel;
class SegmentedSwitch;
class StudioState;

/// Where the activations are large: the heat map of one kind of input, and of the chosen site the
/// histogram with what each way of taking a scale would clip.
class RangeSection final : public QWidget {
  Q_OBJECT
 public:
  explicit RangeSection(StudioState& state, QWidget* parent = nullptr);

  HeatMap* heatMap() const { return m_map; }
  HistogramView* histogram() const { return m_histogram; }
  /// Limit, step, clipped, rounds to 0, unused, of a method. For tests.
  QStringList figures(int method) const;

 private:
  void showMap();
  void showSite();

  StudioState& m_state;
  SegmentedSwitch* m_kind;
  HeatMap* m_map;
  HistogramView* m_histogram;
  PlainLabel *m_pointed, *m_siteName, *m_siteText, *m_pointedBar, *m_explained;
  QGridLayout* m_table;
  QVector<QVector<PlainLabel*>> m_figures;
};

}  // namespace vitrine::ui

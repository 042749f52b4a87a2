#pragma once

class QVBoxLayout;
class QWidget;

namespace vitrine::ui {

/// A card of a section: a framed widget with a column in it. The column; the card is its
/// parentWidget().
QVBoxLayout* makeCard(QWidget* parent);

}  // namespace vitrine::ui

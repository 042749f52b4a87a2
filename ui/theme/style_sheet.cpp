#include "ui/theme/style_sheet.h"

#include <QHash>
#include <QRegularExpression>

#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

// $name is a colour or font of the theme; §n is n design pixels at the present zoom.
const char* const kSheet = R"(
QWidget { color: $text; }
QMainWindow, QDialog { background: $panel; }
QToolTip { background: $raised; color: $text; border: 1px solid $line; padding: §4 §8; }

QLabel { background: transparent; }
QLabel[kind="title"] { font-size: §18; font-weight: 600; }
QLabel[kind="heading"] { font-size: §12; font-weight: 600; color: $muted; }
QLabel[kind="muted"] { color: $muted; font-size: §12; }
QLabel[kind="figure"] { font-family: $figures; font-size: §12; }
QLabel[kind="figureMuted"] { font-family: $figures; font-size: §12; color: $muted; }
QLabel[kind="fault"] { color: $faultInk; }

QFrame[kind="panel"] { background: $panel; border: none; }
QFrame[kind="card"] { background: $panel; border: 1px solid $line; border-radius: §7; }
QFrame[kind="card"][chosen="true"] { border: 1px solid $accent; }
QFrame[kind="bubble"] { background: $bubble; border: none; border-radius: §10; }
QFrame[kind="chip"], QFrame[kind="segments"] {
  background: $raised; border: 1px solid $line; border-radius: §7; }
QFrame[kind="line"] { background: $line; border: none; min-height: 1px; min-width: 1px; }

QPushButton {
  background: $raised; border: 1px solid $line; border-radius: §7;
  padding: 0 §12; min-height: §28; color: $text; }
QPushButton:hover { background: $hoverRaised; }
QPushButton:pressed { background: $line; }
QPushButton:focus { border-color: $accent; }
QPushButton:disabled { color: $faint; background: $panel; }
QPushButton[kind="primary"] {
  background: $accentFill; color: $onAccent; border: 1px solid $accentFill; font-weight: 600; }
QPushButton[kind="primary"]:hover { background: $accentHover; border-color: $accentHover; }
QPushButton[kind="primary"]:focus { border: 1px solid $text; }
QPushButton[kind="primary"]:disabled { background: $raised; color: $faint; border-color: $line; }
QPushButton[kind="quiet"], QToolButton[kind="quiet"] {
  background: transparent; border: 1px solid transparent; color: $muted; padding: 0 §6; }
QPushButton[kind="quiet"]:hover, QToolButton[kind="quiet"]:hover {
  background: $raised; color: $text; }
QPushButton[kind="quiet"]:focus, QToolButton[kind="quiet"]:focus { border-color: $accent; }
QPushButton[kind="quiet"]:disabled, QToolButton[kind="quiet"]:disabled { color: $faint; }
QPushButton[compact="true"] { min-height: §20; }
QPushButton[kind="danger"] { color: $faultInk; }
QPushButton[kind="danger"]:focus { border-color: $fault; }
QPushButton[kind="link"] {
  background: transparent; border: 1px solid transparent; color: $linkInk; padding: 0 §2; }
QPushButton[kind="link"]:hover { text-decoration: underline; }
QPushButton[kind="link"]:focus { border-color: $accent; }
QPushButton[kind="chip"], QToolButton[kind="chip"] {
  background: $raised; border: 1px solid $line; border-radius: §7; padding: 0 §10;
  min-height: §28; color: $text; }
QPushButton[kind="chip"]:hover, QToolButton[kind="chip"]:hover { background: $hoverRaised; }
QPushButton[kind="chip"]:focus, QToolButton[kind="chip"]:focus { border-color: $accent; }
QToolButton { border: 1px solid transparent; border-radius: §6; color: $text; padding: §2 §4; }
QToolButton:hover { background: $raised; }
QToolButton:focus { border-color: $accent; }
QToolButton::menu-indicator { image: none; }
QToolButton[kind="segment"] {
  background: transparent; border: none; border-left: 1px solid $line; border-radius: 0;
  padding: 0 §10; min-height: §28; color: $muted; }
QToolButton[kind="segment"]:hover { color: $text; }
QToolButton[kind="segment"]:checked {
  background: $accentFill; color: $onAccent; font-weight: 600; }
QToolButton[kind="segment"]:focus { text-decoration: underline; }
QToolButton[kind="segment"]:disabled { color: $faint; }

QLineEdit, QSpinBox, QDoubleSpinBox, QComboBox {
  background: $raised; border: 1px solid $line; border-radius: §7; padding: 0 §10;
  min-height: §28; color: $text; selection-background-color: $selection;
  selection-color: $text; }
QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus { border-color: $accent; }
QLineEdit:disabled, QSpinBox:disabled, QDoubleSpinBox:disabled, QComboBox:disabled {
  color: $faint; }
QComboBox::drop-down { border: none; width: §22; }
QComboBox QAbstractItemView {
  background: $raised; border: 1px solid $line; selection-background-color: $selection;
  selection-color: $text; outline: none; }
QPlainTextEdit, QTextEdit, QTextBrowser {
  background: $raised; border: 1px solid $line; border-radius: §7; color: $text;
  padding: §4 §6; selection-background-color: $selection; selection-color: $text; }
QPlainTextEdit:focus, QTextEdit:focus { border-color: $accent; }
QFrame[kind="composer"] { background: $panel; border: 1px solid $line; border-radius: §10; }
QWidget[kind="chat"] { background: $background; }
QPlainTextEdit[kind="input"], QPlainTextEdit[kind="reading"] {
  background: transparent; border: none; border-radius: 0; padding: 0; }
QPushButton[kind="entry"] {
  background: transparent; border: 1px solid transparent; text-align: left; color: $muted;
  padding: 0 §9; min-height: §31; }
QPushButton[kind="entry"]:hover { background: $raised; color: $text; }
QPushButton[kind="entry"]:focus { border-color: $accent; }
QPushButton[kind="starter"] {
  background: $panel; border: 1px solid $line; text-align: left; color: $text;
  padding: 0 §12; min-height: §38; }
QPushButton[kind="starter"]:hover { background: $raised; }
QPushButton[kind="starter"]:focus { border-color: $accent; }
QTextEdit[kind="reading"] {
  background: transparent; border: none; border-radius: 0; padding: 0; }
QPushButton[kind="action"] {
  background: transparent; border: none; padding: 0; min-height: 0; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QPushButton[kind="codeCopy"] {
  background: transparent; border: 1px solid transparent; border-radius: §5; color: $muted;
  padding: 0 §8; min-height: 0; }
QPushButton[kind="codeCopy"]:hover { color: $text; background: $raised; }
QPushButton[kind="codeCopy"]:focus { border-color: $accent; color: $text; }

QMenu { background: $raised; border: 1px solid $line; padding: §4; }
QMenu::item { padding: §5 §24 §5 §12; border-radius: §5; color: $text; }
QMenu::item:selected { background: $selection; }
QMenu::item:disabled { color: $faint; }
QMenu::separator { height: 1px; background: $line; margin: §4 §6; }

QListView, QTreeView, QTableView {
  background: transparent; border: none; outline: none; color: $text;
  selection-background-color: $raised; selection-color: $text; }
QTreeView::item { padding: §3 §8; border: none; background: transparent; color: $text; }
QTreeView::item:selected { background: $raised; }
QTreeView::item:disabled { color: $faint; }
QHeaderView::section {
  background: $panel; color: $muted; border: none; border-bottom: 1px solid $line;
  padding: §4 §8; }

QTabBar { background: transparent; }
QTabBar::tab {
  background: transparent; color: $muted; border: none; border-bottom: 2px solid transparent;
  padding: §10 §9; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:selected { color: $text; font-weight: 600; border-bottom: 2px solid $accent; }
QTabBar::tab:focus { color: $text; }
QTabWidget::pane { border: none; border-top: 1px solid $line; }

QScrollArea { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: §10; margin: 0; }
QScrollBar::handle:vertical {
  background: $scroll; min-height: §32; border-radius: §3; margin: §2 §2 §2 §2; }
QScrollBar::handle:vertical:hover { background: $faint; }
QScrollBar:horizontal { background: transparent; height: §10; margin: 0; }
QScrollBar::handle:horizontal {
  background: $scroll; min-width: §32; border-radius: §3; margin: §2 §2 §2 §2; }
QScrollBar::handle:horizontal:hover { background: $faint; }
QScrollBar::handle:disabled { background: transparent; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }

QProgressBar {
  background: $raised; border: 1px solid $line; border-radius: §4; min-height: §6;
  max-height: §6; color: transparent; }
QProgressBar::chunk { background: $accent; border-radius: §3; }

QSlider::groove:horizontal { height: §4; background: $line; border-radius: §2; }
QSlider::sub-page:horizontal { background: $accent; border-radius: §2; }
QSlider::handle:horizontal {
  background: $text; width: §14; height: §14; margin: -§5 0; border-radius: §7; }
QSlider::handle:horizontal:focus { background: $accent; border: 2px solid $text; width: §10;
  height: §10; }
QSlider:disabled { color: $faint; }

QCheckBox, QRadioButton { spacing: §8; background: transparent; }
QCheckBox::indicator, QListView::indicator {
  width: §14; height: §14; border: 1px solid $muted; border-radius: §4; background: $raised; }
QCheckBox::indicator:checked, QListView::indicator:checked {
  background: $accentFill; border-color: $accentFill; image: url(:/controls/check-$tone.svg); }
QCheckBox::indicator:focus { border-color: $text; }
QCheckBox::indicator:disabled { border-color: $line; }
QComboBox::down-arrow { image: url(:/controls/down.svg); width: §10; height: §10; }
QSpinBox::up-button, QDoubleSpinBox::up-button {
  subcontrol-origin: border; subcontrol-position: top right; width: §20; border: none; }
QSpinBox::down-button, QDoubleSpinBox::down-button {
  subcontrol-origin: border; subcontrol-position: bottom right; width: §20; border: none; }
QSpinBox::up-arrow, QDoubleSpinBox::up-arrow {
  image: url(:/controls/up.svg); width: §9; height: §9; }
QSpinBox::down-arrow, QDoubleSpinBox::down-arrow {
  image: url(:/controls/down.svg); width: §9; height: §9; }
QSpinBox::up-arrow:off, QSpinBox::up-arrow:disabled, QSpinBox::down-arrow:off,
QSpinBox::down-arrow:disabled, QDoubleSpinBox::up-arrow:off, QDoubleSpinBox::up-arrow:disabled,
QDoubleSpinBox::down-arrow:off, QDoubleSpinBox::down-arrow:disabled { image: none; }
QListWidget::item {
  border: 1px solid transparent; border-radius: §6; padding: 0 §8; color: $muted; }
QListWidget[kind="checks"]::item { padding: 0; color: $text; }
QListWidget[kind="checks"]::item:disabled { color: $faint; }
QListWidget::item:hover { background: $hoverRaised; }
QListWidget::item:selected { background: $raised; color: $text; }
QListWidget::item:focus { border: 1px solid $accent; }
QGroupBox { border: none; margin-top: §20; font-weight: 600; }
QGroupBox::title { subcontrol-origin: margin; left: 0; color: $muted; }
QSplitter::handle { background: $line; }
)";

}  // namespace

QString buildStyleSheet(const Theme& theme) {
  const Tokens& t = theme.tokens();
  const QHash<QString, QString> values = {
      {"background", t.background.name()},
      {"panel", t.panel.name()},
      {"raised", t.raised.name()},
      {"line", t.line.name()},
      {"text", t.text.name()},
      {"muted", t.muted.name()},
      {"faint", t.faint.name()},
      {"accent", t.accent.name()},
      {"accentFill", t.accentFill.name()},
      {"accentHover", mix(t.accentFill, t.dark ? Qt::white : Qt::black, 0.10).name()},
      {"onAccent", t.onAccent.name()},
      {"bubble", t.bubble.name()},
      {"hoverRaised", mix(t.raised, t.text, 0.06).name()},
      {"fault", t.fault.name()},
      {"faultInk", theme.ink(t.fault).name()},
      {"linkInk", theme.ink(t.information).name()},
      {"selection", mix(t.raised, t.accent, t.dark ? 0.32 : 0.24).name()},
      {"tone", t.dark ? QStringLiteral("dark") : QStringLiteral("light")},
      {"scroll", mix(t.line, t.faint, 0.45).name()},
      {"figures", "\"" + theme.figureFont().family() + "\""},
  };
  static const QRegularExpression word("\\$([A-Za-z]+)|§([0-9.]+)");
  const QString sheet = QString::fromUtf8(kSheet);
  QString result;
  qsizetype from = 0;
  for (auto it = word.globalMatch(sheet); it.hasNext();) {
    const QRegularExpressionMatch match = it.next();
    result += QStringView(sheet).mid(from, match.capturedStart() - from);
    if (match.capturedLength(1) > 0) {
      Q_ASSERT_X(values.contains(match.captured(1)), "style sheet", qPrintable(match.captured(1)));
      result += values.value(match.captured(1));
    } else {
      result += QString::number(theme.px(match.captured(2).toDouble())) + "px";
    }
    from = match.capturedEnd();
  }
  result += QStringView(sheet).mid(from);
  return result;
}

}  // namespace vitrine::ui

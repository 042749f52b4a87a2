#include "ui/chat/text_dialog.h"

#include <QClipboard>
#include <QDialog>
#include <QDialogButtonBox>
#include <QGuiApplication>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/common/format.h"
#include "ui/common/plain_label.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {

namespace {

// A text layout is as fast as its longest line is short.
constexpr qsizetype kLongestLine = 2000;

QString withShortLines(const QString& text) {
  QString result;
  result.reserve(text.size() + text.size() / kLongestLine + 1);
  qsizetype lineStart = 0;
  for (qsizetype i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      lineStart = i + 1;
    } else if (i - lineStart >= kLongestLine && !text[i].isLowSurrogate()) {
      result += '\n';
      lineStart = i;
    }
    result += text[i];
  }
  return result;
}

}  // namespace

void showTextDialog(QWidget* parent, const QString& title, const QString& text) {
  auto* dialog = new QDialog(parent);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->setWindowTitle(title);
  auto* layout = new QVBoxLayout(dialog);
  layout->addWidget(
      new PlainLabel(QObject::tr("%1 characters; very long lines are cut for display only.")
                         .arg(countText(text.size())),
                     LabelStyle::kMuted, dialog));
  auto* view = new QPlainTextEdit(dialog);
  view->setReadOnly(true);
  view->setLineWrapMode(QPlainTextEdit::WidgetWidth);
  view->setFont(Theme::instance().figureFont(12.5));
  view->setAccessibleName(title);
  view->setPlainText(withShortLines(text));
  layout->addWidget(view);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close, dialog);
  QPushButton* copy = buttons->addButton(QObject::tr("Copy all"), QDialogButtonBox::ActionRole);
  QObject::connect(copy, &QPushButton::clicked, dialog,
                   [text] { QGuiApplication::clipboard()->setText(text); });
  QObject::connect(buttons, &QDialogButtonBox::rejected, dialog, &QDialog::reject);
  layout->addWidget(buttons);
  dialog->resize(Theme::instance().px(720), Theme::instance().px(560));
  dialog->open();
}

}  // namespace vitrine::ui

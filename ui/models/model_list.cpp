#include "ui/models/model_list.h"

#include <QPainter>

#include "app/text.h"
#include "ui/common/format.h"
#include "ui/theme/theme.h"

namespace vitrine::ui {
namespace {

int px(double pixels) {
  return Theme::instance().px(pixels);
}

bool sameFile(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (a == b) return true;
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

}  // namespace

QString parametersText(quint64 parameters) {
  if (parameters == 0) return {};
  const double millions = double(parameters) / 1e6;
  const QLocale locale;
  return millions < 1000
             ? ModelList::tr("%1 M parameters").arg(locale.toString(millions, 'f', 1))
             : ModelList::tr("%1 B parameters").arg(locale.toString(millions / 1000, 'f', 2));
}

void ModelList::setEntries(std::vector<app::ModelEntry> entries) {
  beginResetModel();
  m_entries = std::move(entries);
  endResetModel();
}

void ModelList::setLoaded(const std::filesystem::path& path) {
  if (path == m_loaded) return;
  m_loaded = path;
  if (!m_entries.empty()) emit dataChanged(index(0), index(rowCount() - 1));
}

const app::ModelEntry* ModelList::entryAt(int row) const {
  return row >= 0 && row < int(m_entries.size()) ? &m_entries[std::size_t(row)] : nullptr;
}

int ModelList::rowOf(const std::filesystem::path& path) const {
  for (std::size_t i = 0; i < m_entries.size(); ++i) {
    if (sameFile(m_entries[i].path, path)) return int(i);
  }
  return -1;
}

int ModelList::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : int(m_entries.size());
}

QVariant ModelList::data(const QModelIndex& index, int role) const {
  const app::ModelEntry* entry = entryAt(index.row());
  if (!entry) return {};
  switch (role) {
    case Qt::DisplayRole:
      return oneLine(entry->name, 120);
    case kProblemRole:
      return oneLine(entry->problem, 300);
    case kLoadedRole:
      return sameFile(entry->path, m_loaded);
    case kDetailsRole: {
      QStringList parts;
      if (!entry->quantization.isEmpty()) parts << entry->quantization;
      parts << bytesText(entry->bytes);
      if (entry->parameters > 0) parts << parametersText(entry->parameters);
      if (entry->contextLength > 0) parts << tr("%1 tokens").arg(countText(entry->contextLength));
      if (entry->parts > 1) parts << tr("%1 parts").arg(entry->parts);
      return parts.join(QStringLiteral(" · "));
    }
    case Qt::ToolTipRole:
      return literalToolTip(app::displayPath(entry->path));
    case Qt::AccessibleTextRole: {
      QString text = entry->name + QStringLiteral(", ") + data(index, kDetailsRole).toString();
      if (!entry->problem.isEmpty()) text += tr(", cannot be used: %1").arg(entry->problem);
      if (sameFile(entry->path, m_loaded)) text += tr(", loaded");
      return text;
    }
    default:
      return {};
  }
}

void ModelDelegate::paint(QPainter* painter, const QStyleOptionViewItem& option,
                          const QModelIndex& index) const {
  const Theme& theme = Theme::instance();
  const Tokens& tokens = theme.tokens();
  painter->save();
  painter->setRenderHint(QPainter::Antialiasing);
  const QRect row = option.rect.adjusted(2, 2, -2, -2);
  const bool selected = option.state & QStyle::State_Selected;
  const bool hovered = option.state & QStyle::State_MouseOver;
  const bool focused = option.state & QStyle::State_HasFocus;
  if (selected || hovered || focused) {
    painter->setBrush(selected ? tokens.raised : tokens.hover);
    painter->setPen(focused ? QPen(tokens.accent, 1) : Qt::NoPen);
    painter->drawRoundedRect(QRectF(row).adjusted(0.5, 0.5, -0.5, -0.5), px(7), px(7));
  }
  QRect text = row.adjusted(px(12), px(7), -px(12), -px(7));
  const bool loaded = index.data(ModelList::kLoadedRole).toBool();
  const QString problem = index.data(ModelList::kProblemRole).toString();
  if (loaded) {
    const QString word = tr("loaded");
    painter->setFont(theme.textFont(11.5, QFont::DemiBold));
    painter->setPen(theme.ink(tokens.accent));
    painter->drawText(text, Qt::AlignRight | Qt::AlignTop, word);
    text.setRight(text.right() - painter->fontMetrics().horizontalAdvance(word) - px(10));
  }
  const QFont nameFont = theme.textFont(13.5, QFont::DemiBold);
  painter->setFont(nameFont);
  painter->setPen(problem.isEmpty() ? tokens.text : tokens.muted);
  painter->drawText(
      text, Qt::AlignTop | Qt::TextSingleLine,
      QFontMetrics(nameFont).elidedText(index.data().toString(), Qt::ElideMiddle, text.width()));
  text = row.adjusted(px(12), px(7), -px(12), -px(7));
  const QFont lineFont = problem.isEmpty() ? theme.figureFont(11.5) : theme.textFont(12);
  painter->setFont(lineFont);
  painter->setPen(problem.isEmpty() ? tokens.muted : theme.ink(tokens.fault));
  const QString line = problem.isEmpty() ? index.data(ModelList::kDetailsRole).toString() : problem;
  painter->drawText(text, Qt::AlignBottom | Qt::TextSingleLine,
                    QFontMetrics(lineFont).elidedText(line, Qt::ElideRight, text.width()));
  painter->restore();
}

QSize ModelDelegate::sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const {
  return {px(200), px(56)};
}

}  // namespace vitrine::ui

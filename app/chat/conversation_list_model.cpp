#include "app/chat/conversation_list_model.h"

#include <algorithm>

#include "app/store/conversation_store.h"

namespace vitrine::app {

ConversationListModel::ConversationListModel(ConversationStore& store, QObject* parent)
    : QAbstractListModel(parent), m_store(store) {
  connect(&store, &ConversationStore::conversationAdded, this, &ConversationListModel::onAdded);
  connect(&store, &ConversationStore::conversationChanged, this, &ConversationListModel::onChanged);
  connect(&store, &ConversationStore::conversationRemoved, this, &ConversationListModel::onRemoved);
  connect(&store, &ConversationStore::changedElsewhere, this, &ConversationListModel::refresh);
  refresh();
}

int ConversationListModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

QVariant ConversationListModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= static_cast<int>(m_rows.size())) return {};
  const auto row = static_cast<std::size_t>(index.row());
  const Conversation& conversation = m_rows[row];
  switch (role) {
    case Qt::DisplayRole:
    case kTitleRole:
      return conversation.title;
    case kIdRole:
      return conversation.id;
    case kColourRole:
      return conversation.colour;
    case kPinnedRole:
      return conversation.pinned;
    case kUpdatedRole:
      return conversation.updated;
    case kSectionRole:
      return sectionOf(conversation);
    case kStartsSectionRole:
      return row == 0 || sectionOf(m_rows[row - 1]) != sectionOf(conversation);
    case kSectionNameRole:
      switch (sectionOf(conversation)) {
        case kPinned:
          return tr("Pinned");
        case kToday:
          return tr("Today");
        case kYesterday:
          return tr("Yesterday");
        case kLastSevenDays:
          return tr("Last 7 days");
        case kLastThirtyDays:
          return tr("Last 30 days");
        case kOlder:
          return tr("Older");
      }
      return {};
    default:
      return {};
  }
}

Qt::ItemFlags ConversationListModel::flags(const QModelIndex& index) const {
  const Qt::ItemFlags usual = QAbstractListModel::flags(index);
  return index.isValid() ? usual | Qt::ItemIsEditable : usual;
}

QHash<int, QByteArray> ConversationListModel::roleNames() const {
  return {{kIdRole, "conversationId"},       {kTitleRole, "title"},
          {kColourRole, "colour"},           {kPinnedRole, "pinned"},
          {kUpdatedRole, "updated"},         {kSectionRole, "section"},
          {kSectionNameRole, "sectionName"}, {kStartsSectionRole, "startsSection"}};
}

ConversationListModel::Section ConversationListModel::sectionOf(
    const Conversation& conversation) const {
  if (conversation.pinned) return kPinned;
  const qint64 days = conversation.updated.date().daysTo(QDate::currentDate());
  if (days <= 0) return kToday;
  if (days == 1) return kYesterday;
  if (days <= 7) return kLastSevenDays;
  if (days <= 30) return kLastThirtyDays;
  return kOlder;
}

void ConversationListModel::setFilter(const QString& text) {
  const QString trimmed = text.trimmed();
  if (trimmed == m_filter) return;
  m_filter = trimmed;
  refresh();
}

int ConversationListModel::rowOf(ConversationId id) const {
  for (std::size_t i = 0; i < m_rows.size(); ++i) {
    if (m_rows[i].id == id) return static_cast<int>(i);
  }
  return -1;
}

ConversationId ConversationListModel::idAt(int row) const {
  return row >= 0 && row < static_cast<int>(m_rows.size())
             ? m_rows[static_cast<std::size_t>(row)].id
             : 0;
}

void ConversationListModel::refresh() {
  beginResetModel();
  m_rows = m_store.conversations();
  if (!m_filter.isEmpty()) {
    const std::vector<ConversationId> found = m_store.search(m_filter);
    std::erase_if(m_rows, [&](const Conversation& conversation) {
      return std::find(found.begin(), found.end(), conversation.id) == found.end();
    });
  }
  endResetModel();
}

// The order of the store: pinned first, then the newest change.
int ConversationListModel::placeOf(const Conversation& conversation) const {
  const auto before = [](const Conversation& a, const Conversation& b) {
    if (a.pinned != b.pinned) return a.pinned;
    if (a.updated != b.updated) return a.updated > b.updated;
    return a.id > b.id;
  };
  return static_cast<int>(std::lower_bound(m_rows.begin(), m_rows.end(), conversation, before) -
                          m_rows.begin());
}

void ConversationListModel::onAdded(qint64 id) {
  const auto conversation = m_store.conversation(id);
  if (!conversation || rowOf(id) >= 0) return;
  if (!m_filter.isEmpty()) {
    refresh();
    return;
  }
  const int row = placeOf(*conversation);
  beginInsertRows({}, row, row);
  m_rows.insert(m_rows.begin() + row, *conversation);
  endInsertRows();
  noteNeighbour(row + 1);
}

void ConversationListModel::onChanged(qint64 id) {
  const int row = rowOf(id);
  const auto conversation = m_store.conversation(id);
  if (row < 0 || !conversation) return;

  // Its place among the others, as if it were not in the list.
  m_rows[static_cast<std::size_t>(row)].updated = conversation->updated;
  m_rows[static_cast<std::size_t>(row)].pinned = conversation->pinned;
  std::vector<Conversation> others = m_rows;
  others.erase(others.begin() + row);
  others.swap(m_rows);
  const int target = placeOf(*conversation);
  others.swap(m_rows);
  if (target != row) {
    beginMoveRows({}, row, row, {}, target > row ? target + 1 : target);
    others.insert(others.begin() + target, *conversation);
    m_rows = std::move(others);
    endMoveRows();
    noteNeighbour(row);
    noteNeighbour(row + 1);
  } else {
    m_rows[static_cast<std::size_t>(row)] = *conversation;
  }
  emit dataChanged(index(target), index(target));
  noteNeighbour(target + 1);
}

void ConversationListModel::onRemoved(qint64 id) {
  const int row = rowOf(id);
  if (row < 0) return;
  beginRemoveRows({}, row, row);
  m_rows.erase(m_rows.begin() + row);
  endRemoveRows();
  noteNeighbour(row);
}

// Whether a row starts a section depends on the row above it.
void ConversationListModel::noteNeighbour(int row) {
  if (row >= 0 && row < rowCount()) {
    emit dataChanged(index(row), index(row), {kStartsSectionRole});
  }
}

}  // namespace vitrine::app

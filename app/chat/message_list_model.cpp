#include "app/chat/message_list_model.h"

namespace vitrine::app {

MessageListModel::MessageListModel(QObject* parent) : QAbstractListModel(parent) {}

void MessageListModel::setSession(ChatSession* session) {
  if (session == m_session) return;
  beginResetModel();
  if (m_session) m_session->disconnect(this);
  m_session = session;
  m_count = session != nullptr ? static_cast<int>(session->rows().size()) : 0;
  endResetModel();
  if (session == nullptr) return;

  connect(session, &ChatSession::pathReset, this, [this] {
    beginResetModel();
    m_count = static_cast<int>(m_session->rows().size());
    endResetModel();
  });
  connect(session, &ChatSession::messageAdded, this, [this](int row) {
    beginInsertRows({}, row, row);
    m_count = row + 1;
    endInsertRows();
  });
  connect(session, &ChatSession::messageChanged, this, [this](int row) {
    if (row >= m_count) return;
    const QModelIndex changed = index(row);
    emit dataChanged(changed, changed);
  });
  connect(session, &QObject::destroyed, this, [this] {
    beginResetModel();
    m_count = 0;
    endResetModel();
  });
}

int MessageListModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : m_count;
}

QVariant MessageListModel::data(const QModelIndex& index, int role) const {
  if (!m_session || !index.isValid() || index.row() >= m_count ||
      index.row() >= static_cast<int>(m_session->rows().size())) {
    return {};
  }
  const MessageRow& row = m_session->rows()[static_cast<std::size_t>(index.row())];
  switch (role) {
    case Qt::DisplayRole:
    case kTextRole:
      return row.message.text;
    case kIdRole:
      return row.message.id;
    case kRoleRole:
      return static_cast<int>(row.message.role);
    case kStateRole:
      return static_cast<int>(row.message.state);
    case kErrorRole:
      return row.message.error;
    case kMetricsRole:
      return QVariant::fromValue(row.metrics);
    case kBranchIndexRole:
      return row.branchIndex;
    case kBranchCountRole:
      return row.branchCount;
    case kInContextRole:
      return row.inContext;
    case kCreatedRole:
      return row.message.created;
    case kModelRole:
      return row.message.model;
    default:
      return {};
  }
}

QHash<int, QByteArray> MessageListModel::roleNames() const {
  return {{kIdRole, "messageId"},        {kTextRole, "text"},
          {kRoleRole, "role"},           {kStateRole, "state"},
          {kErrorRole, "error"},         {kMetricsRole, "metrics"},
          {kBranchIndexRole, "branch"},  {kBranchCountRole, "branches"},
          {kInContextRole, "inContext"}, {kCreatedRole, "created"},
          {kModelRole, "model"}};
}

}  // namespace vitrine::app

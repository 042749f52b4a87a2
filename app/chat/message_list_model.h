#pragma once

#include <QAbstractListModel>
#include <QPointer>

#include "app/chat/chat_session.h"

namespace vitrine::app {

/// The rows of a ChatSession for a view. While an answer streams, exactly one row changes.
class MessageListModel final : public QAbstractListModel {
  Q_OBJECT
 public:
  enum DataRole {
    kIdRole = Qt::UserRole + 1,  // qint64
    kTextRole,                   // QString; also Qt::DisplayRole
    kRoleRole,                   // app::Role as int
    kStateRole,                  // app::MessageState as int
    kErrorRole,                  // QString
    kMetricsRole,                // app::TurnMetrics
    kBranchIndexRole,            // int, from 0
    kBranchCountRole,            // int
    kInContextRole,              // bool
    kCreatedRole,                // QDateTime
    kModelRole,                  // QString
  };

  explicit MessageListModel(QObject* parent = nullptr);
  /// Shows another session; null shows nothing.
  void setSession(ChatSession* session);
  ChatSession* session() const { return m_session; }

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QHash<int, QByteArray> roleNames() const override;

 private:
  QPointer<ChatSession> m_session;
  int m_count = 0;  // rows announced to the views
};

}  // namespace vitrine::app

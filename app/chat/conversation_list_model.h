#pragma once

#include <QAbstractListModel>
#include <vector>

#include "app/store/conversation_types.h"

namespace vitrine::app {

class ConversationStore;

/// The sidebar's list: conversations that are not in the trash, pinned first, then by day. Section
/// headings are not rows; a row that starts a section says so.
class ConversationListModel final : public QAbstractListModel {
  Q_OBJECT
 public:
  enum Section { kPinned, kToday, kYesterday, kLastSevenDays, kLastThirtyDays, kOlder };
  Q_ENUM(Section)

  enum DataRole {
    kIdRole = Qt::UserRole + 1,  // qint64
    kTitleRole,                  // QString; also Qt::DisplayRole; empty: no message yet
    kColourRole,                 // int, 0 to 7
    kPinnedRole,                 // bool
    kUpdatedRole,                // QDateTime
    kSectionRole,                // Section as int
    kSectionNameRole,            // QString, translated
    kStartsSectionRole,          // bool
  };

  explicit ConversationListModel(ConversationStore& store, QObject* parent = nullptr);

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  Qt::ItemFlags flags(const QModelIndex& index) const override;  ///< titles can be edited
  QHash<int, QByteArray> roleNames() const override;

  /// Only conversations whose title or messages hold this text; empty: all.
  void setFilter(const QString& text);
  QString filter() const { return m_filter; }
  int rowOf(ConversationId id) const;  ///< −1: not shown
  ConversationId idAt(int row) const;  ///< 0: no such row
  /// Reads everything again; also when midnight has passed.
  void refresh();

 private:
  void onAdded(qint64 id);
  void onChanged(qint64 id);
  void onRemoved(qint64 id);
  Section sectionOf(const Conversation& conversation) const;
  int placeOf(const Conversation& conversation) const;
  void noteNeighbour(int row);

  ConversationStore& m_store;
  QString m_filter;
  std::vector<Conversation> m_rows;
};

}  // namespace vitrine::app

#pragma once

#include <QAbstractListModel>
#include <QStyledItemDelegate>
#include <vector>

#include "app/model_library.h"

namespace vitrine::ui {

/// The models of the library, a row each. Names are shown as they are, whatever they hold.
class ModelList final : public QAbstractListModel {
  Q_OBJECT
 public:
  enum DataRole { kDetailsRole = Qt::UserRole + 1, kProblemRole, kLoadedRole };

  explicit ModelList(QObject* parent = nullptr) : QAbstractListModel(parent) {}
  void setEntries(std::vector<app::ModelEntry> entries);
  void setLoaded(const std::filesystem::path& path);
  const app::ModelEntry* entryAt(int row) const;
  int rowOf(const std::filesystem::path& path) const;

  int rowCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;

 private:
  std::vector<app::ModelEntry> m_entries;
  std::filesystem::path m_loaded;
};

/// Two lines: the name, then what it is or why it cannot be used. The loaded model has a mark and
/// the word for it.
class ModelDelegate final : public QStyledItemDelegate {
  Q_OBJECT
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override;
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override;
};

/// "134.5 M parameters", "1.24 B parameters"
QString parametersText(quint64 parameters);

}  // namespace vitrine::ui

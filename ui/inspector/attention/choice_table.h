#pragma once

#include <QVector>
#include <QWidget>
#include <cstdint>

#include "engine/engine_types.h"

namespace vitrine::ui {

/// What a number of KV heads and a KV type take of the cache.
struct ChoiceCost {
  QString name;  ///< "GQA 9:3"
  engine::KvType type = engine::KvType::kFp16;
  std::uint64_t bytesPerToken = 0;  ///< values and scales, all layers
  int contextTokens = 0;            ///< the largest that the budget holds, at most the model's
  int chats = 0;                    ///< of `chatTokens`, that the budget holds together
  bool exact = true;
  bool inForce = false;
  bool operator==(const ChoiceCost&) const = default;
};

/// The costs of one choice in a pool of `budgetBytes` made of blocks of `blockSize` positions.
ChoiceCost choiceCost(const engine::ModelConfig& model, int kvHeads, engine::KvType type,
                      int blockSize, std::uint64_t budgetBytes, int chatTokens);

/// A row for each choice: bytes a token, largest context, chats that fit. The one in force is
/// marked; approximate ones are called so.
class ChoiceTable final : public QWidget {
  Q_OBJECT
 public:
  explicit ChoiceTable(QWidget* parent = nullptr);
  void setRows(QVector<ChoiceCost> rows);
  const QVector<ChoiceCost>& rows() const { return m_rows; }
  QString rowText(int row) const;

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  double rowHeight() const;

  QVector<ChoiceCost> m_rows;
};

}  // namespace vitrine::ui

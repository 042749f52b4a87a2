#pragma once

#include <QAbstractButton>
#include <QWidget>

namespace vitrine::ui {

/// The loaded model: name, then quantization and size, muted; a click opens the picker.
class ModelButton final : public QAbstractButton {
  Q_OBJECT
 public:
  explicit ModelButton(QWidget* parent = nullptr);
  /// Any characters; shown literally. The name is cut in the middle where room is short.
  void setModel(const QString& name, const QString& details, const QString& toolTip);
  void setMostWidth(int pixels);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  bool hasRoomForDetails() const;
  int wantedWidth(bool withDetails) const;

  QString m_name, m_details;
  int m_mostWidth = 260;
};

/// A caption, what is chosen (text()), and an arrow: a click opens a menu with the choices.
class MenuChip final : public QAbstractButton {
  Q_OBJECT
 public:
  explicit MenuChip(const QString& caption, QWidget* parent = nullptr);
  void setChosen(const QString& text);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QString m_caption;
};

/// Tokens of the chat against the context's limit: a bar and both figures. Turns to caution at
/// 80 %, to fault at 95 %, with a word for it. A click asks what leaves when it is full.
class ContextBar final : public QAbstractButton {
  Q_OBJECT
 public:
  explicit ContextBar(QWidget* parent = nullptr);
  void setUse(int usedTokens, int limitTokens);
  /// 0: caption, bar, figures; 1: without the caption; 2: figures alone.
  void setLevel(int level);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QString figures() const;
  QString caption() const;

  int m_used = 0;
  int m_limit = 0;
  int m_level = 0;
};

/// The device that computes, with a dot that is filled while it works. A click offers the others.
class DeviceChip final : public QAbstractButton {
  Q_OBJECT
 public:
  explicit DeviceChip(QWidget* parent = nullptr);
  void setDevice(const QString& text, const QString& toolTip);
  void setBusy(bool busy);

  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QString m_text;
  bool m_busy = false;
};

}  // namespace vitrine::ui

#pragma once

#include <QString>
#include <vector>

namespace vitrine::ui {

enum class SyntaxKind { kText, kKeyword, kConstant, kString, kComment, kFunction };

struct SyntaxSpan {
  int start = 0, length = 0;
  SyntaxKind kind = SyntaxKind::kText;
};

struct Language;

/// Colours code line by line; what runs on over a line end (comments, long strings) is in `State`.
/// A lexer, not a parser: it must never be wrong about where a string ends, and may be plain about
/// the rest.
class SyntaxHighlighter final {
 public:
  /// 0: nothing open; else what is. Only this class knows the values.
  using State = int;

  /// `name` as written behind a fence: "python", "C++", "js" … Unknown: no colours.
  explicit SyntaxHighlighter(const QString& name);
  bool isKnown() const { return m_language != nullptr; }
  std::vector<SyntaxSpan> line(const QString& text, State* state) const;

 private:
  const Language* m_language;
};

}  // namespace vitrine::ui

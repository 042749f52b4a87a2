#pragma once

#include <QString>
#include <vector>

namespace vitrine::ui {

/// A run of text in one style.
struct InlineSpan {
  QString text;
  bool bold = false;
  bool italic = false;
  bool struck = false;
  bool code = false;
  QString link;  ///< target; only http, https and mailto come here

  bool operator==(const InlineSpan&) const = default;
};

/// Emphasis, code spans and links of one block. Everything else, HTML, entities, pictures and
/// links to any other scheme among it, stays the text that it is.
std::vector<InlineSpan> parseInline(const QString& source);

/// Whether a click may open this target (after showing it): http, https or mailto, with a host
/// or an address.
bool isOpenableLink(const QString& target);

}  // namespace vitrine::ui

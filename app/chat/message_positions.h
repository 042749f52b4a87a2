#pragma once

#include <vector>

#include "app/chat/chat_session.h"

namespace vitrine::app {

/// The row of the path whose text a position of the KV cache belongs to, by what the turns counted:
/// the template's words around a message count as its own. −1 where nothing is known of it.
int rowAtPosition(const std::vector<MessageRow>& rows, int position);

}  // namespace vitrine::app

#pragma once

namespace vitrine::app {

/// The page of English over which two ways of running a model are compared. Written for this
/// program; about 1,100 tokens in a usual vocabulary.
extern const char* const kPageText;

}  // namespace vitrine::app

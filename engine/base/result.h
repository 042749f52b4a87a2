#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include <spdlog/fmt/fmt.h>

namespace vitrine::engine {

/// What kind of failure it is, for programs. People read Error::message.
enum class ErrorCode {
  kInvalidArgument,  ///< a value that has no meaning (a setting, an option, a request field)
  kNotFound,         ///< a file, model or conversation that is not there
  kIo,               ///< reading or writing failed
  kInvalidFile,      ///< a file that is damaged or is not what it should be
  kUnsupported,      ///< valid, but this program cannot do it
  kOutOfMemory,      ///< host or device memory; the engine may shed blocks and try again
  kContextFull,      ///< the prompt, or the prompt and its answer, exceed the context
  kTemplate,         ///< the chat template refused the conversation or failed
  kCancelled,        ///< stopped on request
  kDeviceLost,       ///< the device failed and cannot be used again in this process
  kInternal,         ///< a promise of ours was broken
};

/// A failure: a code, and one sentence that names the thing, the numbers, and what can be done.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

/// What may fail in use returns a Result; `VITRINE_TRY` hands an error up.
template <typename T>
using Result = tl::expected<T, Error>;

/// `return fail(ErrorCode::kIo, "cannot read {}: {}", path, reason);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                         Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace vitrine::engine

/// Returns the error of a Result<void> expression from the enclosing function.
#define VITRINE_TRY(expression)                                   \
  do {                                                            \
    if (auto tried_ = (expression); !tried_) {                    \
      return tl::unexpected(std::move(tried_).error());           \
    }                                                             \
  } while (false)

/// `VITRINE_ASSIGN(auto file, GgufFile::open(path));` declares the value or returns the error.
#define VITRINE_ASSIGN(declaration, expression) \
  VITRINE_ASSIGN_IMPL(VITRINE_CONCAT(result_, __LINE__), declaration, expression)
#define VITRINE_CONCAT_(a, b) a##b
#define VITRINE_CONCAT(a, b) VITRINE_CONCAT_(a, b)
#define VITRINE_ASSIGN_IMPL(name, declaration, expression)       \
  auto name = (expression);                                      \
  if (!name) return tl::unexpected(std::move(name).error());     \
  declaration = std::move(*name)

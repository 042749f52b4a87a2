#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/options.h"

namespace vitrine::app::cli {

/// Words for the values of an option, in the order in which help and errors name them.
template <typename T>
using Choices = std::vector<std::pair<std::string, T>>;

/// "token, channel"
template <typename T>
std::string wordsOf(const Choices<T>& choices, const std::string& separator) {
  std::string words;
  for (const auto& [word, value] : choices) words += (words.empty() ? "" : separator) + word;
  return words;
}

/// The value of a word, in any case. Throws CLI::ValidationError that names the words there are.
template <typename T>
T chosen(const Choices<T>& choices, const std::string& flag, const std::string& given) {
  const auto found = std::ranges::find(choices, CLI::detail::to_lower(given),
                                       [](const auto& choice) { return choice.first; });
  if (found != choices.end()) return found->second;
  throw CLI::ValidationError(flag, "must be one of " + wordsOf(choices, ", ") + ", not " + given);
}

/// Adds an option that takes one of the words.
template <typename T>
CLI::Option* addChoice(CLI::App& app, const std::string& flag, T& target, Choices<T> choices,
                       const std::string& help) {
  const std::string words = wordsOf(choices, "|");
  return app
      .add_option_function<std::string>(
          flag,
          [flag, &target, choices = std::move(choices)](const std::string& given) {
            target = chosen(choices, flag, given);
          },
          help)
      ->type_name(words);
}

/// Adds an option that takes some of the words, with commas between.
template <typename T>
CLI::Option* addChoices(CLI::App& app, const std::string& flag, std::vector<T>& target,
                        Choices<T> choices, const std::string& help) {
  const std::string words = wordsOf(choices, "|");
  return app
      .add_option_function<std::vector<std::string>>(
          flag,
          [flag, &target, choices = std::move(choices)](const std::vector<std::string>& given) {
            target.clear();
            for (const std::string& word : given) target.push_back(chosen(choices, flag, word));
          },
          help)
      ->delimiter(',')
      ->type_name(words);
}

/// Adds an option that takes a size in memory, as parseBytes() reads it.
inline CLI::Option* addBytes(CLI::App& app, const std::string& flag, std::uint64_t& target,
                             const std::string& help) {
  return app
      .add_option_function<std::string>(
          flag,
          [flag, &target](const std::string& given) {
            const auto bytes = parseBytes(given);
            if (!bytes) throw CLI::ValidationError(flag, bytes.error().message);
            target = *bytes;
          },
          help)
      ->type_name("BYTES");
}

/// A number from `least` to `most`; only an error names them.
template <typename T>
CLI::Validator between(T least, T most) {
  CLI::Validator range = CLI::Range(least, most);
  range.description("");
  return range;
}

}  // namespace vitrine::app::cli

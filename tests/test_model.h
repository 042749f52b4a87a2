#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace vitrine::test {

/// The real model of the tests (SmolLM2-135M-Instruct): $VITRINE_TEST_MODEL, else where
/// packaging/test.sh and the program keep it. It may be missing; then a test fails with
/// missingModelMessage().
inline std::filesystem::path testModelPath() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value != nullptr ? value : "");
  };
  if (const auto given = variable("VITRINE_TEST_MODEL"); !given.empty()) return given;
  auto data = variable("XDG_DATA_HOME");
  if (data.empty()) data = variable("HOME") / ".local" / "share";
  return data / "vitrine" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

inline bool haveTestModel() {
  std::error_code error;
  return std::filesystem::is_regular_file(testModelPath(), error);
}

inline std::string missingModelMessage() {
  return "the test model is missing: " + testModelPath().string() +
         " (packaging/test.sh fetches it; VITRINE_TEST_MODEL names another place)";
}

}  // namespace vitrine::test

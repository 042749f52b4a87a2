#include "tests/golden/golden_file.h"

#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace vitrine::test {

std::vector<GoldenText> readGoldenTexts(const std::string& folder, int& dim) {
  std::ifstream jsonFile(folder + "/smollm2_135m.json");
  std::ifstream hiddenFile(folder + "/smollm2_135m.f32", std::ios::binary);
  if (!jsonFile || !hiddenFile) throw std::runtime_error("no golden files in " + folder);
  const auto json = nlohmann::json::parse(jsonFile);
  dim = json.at("dim").get<int>();
  std::vector<GoldenText> texts;
  for (const auto& entry : json.at("texts")) {
    GoldenText text;
    text.name = entry.at("name").get<std::string>();
    text.text = entry.at("text").get<std::string>();
    text.controlTokens = entry.at("control_tokens").get<bool>();
    text.ids = entry.at("ids").get<std::vector<engine::TokenId>>();
    text.logNorm = entry.at("log_norm").get<std::vector<double>>();
    text.bestIds = entry.at("best_ids").get<std::vector<std::vector<engine::TokenId>>>();
    text.bestLogprobs = entry.at("best_logprobs").get<std::vector<std::vector<double>>>();
    text.hidden.resize(text.ids.size() * static_cast<std::size_t>(dim));
    const auto bytes = static_cast<std::streamsize>(text.hidden.size() * sizeof(float));
    hiddenFile.read(reinterpret_cast<char*>(text.hidden.data()), bytes);
    if (hiddenFile.gcount() != bytes) throw std::runtime_error("the golden .f32 file is too short");
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace vitrine::test

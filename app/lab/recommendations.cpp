#include "app/lab/recommendations.h"

#include <algorithm>
#include <array>
#include <functional>

#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"

namespace vitrine::app::lab {

using engine::ActivationMode;
using engine::EngineConfig;
using engine::KvType;
using engine::WeightMode;

namespace {

struct WeightChoice {
  std::string id, words;
  WeightMode weights;
  ActivationMode activations;
};
const std::array kWeights{
    WeightChoice{"native", "the file's weights", WeightMode::kNative, ActivationMode::kFp16},
    WeightChoice{"fp16", "FP16 weights", WeightMode::kFp16, ActivationMode::kFp16},
    WeightChoice{"w8a16", "INT8 weights", WeightMode::kInt8, ActivationMode::kFp16},
    WeightChoice{"w8a8", "INT8 weights and activations", WeightMode::kInt8, ActivationMode::kInt8}};

constexpr double kTokens = 128;  // of the prompt and of the answer that stand for a chat's turn

class Advisor {
 public:
  Advisor(const std::vector<LabRow>& rows, const EngineConfig& base) : m_base(base) {
    for (const LabRow& row : rows) {
      if (row.id == "int8-weights") m_weights = &row;
      if (row.id == "int8-kv") m_kv = &row;
      if (row.id == "batching") m_batching = &row;
    }
  }

  Recommendation interactive() const {
    Recommendation result = begin("interactive", "Interactive chat");
    if (!needs(result, {{m_weights, "INT8 weights"}, {m_kv, "INT8 KV cache"}})) return result;
    const auto turnMs = [&](const WeightChoice& choice) {
      return ttftMs(choice) + kTokens * tpotMs(choice);
    };
    const WeightChoice& best = least(turnMs);
    use(result.config, best);
    const bool int8Kv = m_kv->value("decode_factor") > 1.03 && kvIsClose();
    result.config.cache.type = int8Kv ? KvType::kInt8 : KvType::kFp16;
    result.config.cache.reuse = true;
    result.choice = fmt::format("{}, {} KV, reuse on", capitalized(best.words), kvWord(int8Kv));
    result.figures = fmt::format("TTFT {} · TPOT {}", millisecondsText(ttftMs(best)),
                                 millisecondsText(tpotMs(best)));
    result.rule = fmt::format(
        "Least time for a prompt of {0:.0f} and an answer of {0:.0f} tokens ({1}) among "
        "weights close to FP16; KV in INT8 only where decoding at depth gains by it ({2}).",
        kTokens, millisecondsText(turnMs(best)), factorText(m_kv->value("decode_factor")));
    return result;
  }

  Recommendation batch() const {
    Recommendation result = begin("batch", "Offline batch");
    if (!needs(result, {{m_weights, "INT8 weights"}, {m_batching, "Dynamic batching"}})) {
      return result;
    }
    const WeightChoice& best = least(
        [&](const WeightChoice& choice) { return -m_weights->value("batched_" + choice.id); });
    use(result.config, best);
    int chats = 1;
    double throughput = 0;
    for (const int level : {1, 2, 4, 8, 16}) {
      const double value = m_batching->value(fmt::format("load_tps_continuous_{}", level));
      if (value > throughput) {
        throughput = value;
        chats = level;
      }
    }
    const double gain = m_batching->value("continuous_factor", 1);
    result.config.maxSequences = chats;
    result.config.batching = gain >= 1 ? engine::Batching::kContinuous : engine::Batching::kStatic;
    result.choice = fmt::format("{}, batch of {}", capitalized(best.words), chats);
    result.figures =
        fmt::format("{} with 8 chats", rateText(m_weights->value("batched_" + best.id)));
    result.rule = fmt::format(
        "Most tokens a second of 8 chats together among weights close to FP16; the number of chats "
        "with the highest throughput under load; {} batching, which had {} of the throughput of "
        "{}.",
        engine::nameOf(result.config.batching), factorText(gain >= 1 ? gain : 1 / gain),
        gain >= 1 ? "static" : "continuous");
    return result;
  }

  Recommendation documents() const {
    Recommendation result = begin("documents", "Long documents");
    if (!needs(result, {{m_weights, "INT8 weights"}, {m_kv, "INT8 KV cache"}})) return result;
    const WeightChoice& best = least(
        [&](const WeightChoice& choice) { return -m_weights->value("prefill_" + choice.id); });
    use(result.config, best);
    const bool int8Kv = kvIsClose();
    result.config.cache.type = int8Kv ? KvType::kInt8 : KvType::kFp16;
    result.config.cache.layout = engine::KvLayout::kPaged;
    result.config.cache.reuse = true;
    result.config.contextTokens = 0;  // all that the model can
    result.choice = fmt::format("{}, {} KV", capitalized(best.words), kvWord(int8Kv));
    result.figures = fmt::format("{} tokens fit in 512 MB · prefill {}",
                                 numberText(m_kv->value(int8Kv ? "fits_int8" : "fits_fp16")),
                                 rateText(m_weights->value("prefill_" + best.id)));
    result.rule = fmt::format(
        "Smallest KV cache whose answers stay close to FP16 (KL {}, top-1 {:.1f} %), then the "
        "weights with the fastest prefill; the model's whole context.",
        numberText(m_kv->value("kl")), m_kv->value("top1"));
    return result;
  }

 private:
  Recommendation begin(const char* id, const char* title) const {
    Recommendation result;
    result.id = id;
    result.title = title;
    result.config = m_base;
    result.config.kvHeads = 0;
    result.config.cache.enabled = true;
    result.config.cache.layout = engine::KvLayout::kPaged;
    result.config.batching = engine::Batching::kContinuous;
    return result;
  }

  static bool needs(Recommendation& result,
                    std::initializer_list<std::pair<const LabRow*, const char*>> rows) {
    for (const auto& [row, name] : rows) {
      if (row != nullptr) continue;
      result.missing += (result.missing.empty() ? "" : ", ") + std::string(name);
    }
    return result.missing.empty();
  }

  double ttftMs(const WeightChoice& choice) const {
    return 1e3 * kTokens / std::max(m_weights->value("prefill_" + choice.id), 1e-9);
  }
  double tpotMs(const WeightChoice& choice) const {
    return 1e3 / std::max(m_weights->value("decode_" + choice.id), 1e-9);
  }

  bool isClose(const WeightChoice& choice) const {
    if (choice.id == "native" || choice.id == "fp16") return true;
    return m_weights->value("kl_" + choice.id, 1) <= kMostDivergence &&
           m_weights->value("top1_" + choice.id) >= kLeastAgreement;
  }
  bool kvIsClose() const {
    return m_kv->value("kl", 1) <= kMostDivergence && m_kv->value("top1") >= kLeastAgreement;
  }

  const WeightChoice& least(const std::function<double(const WeightChoice&)>& measure) const {
    const WeightChoice* best = nullptr;
    for (const WeightChoice& choice : kWeights) {
      if (!isClose(choice) || m_weights->figure("decode_" + choice.id) == nullptr) continue;
      if (best == nullptr || measure(choice) < measure(*best)) best = &choice;
    }
    return best != nullptr ? *best : kWeights[0];
  }

  void use(EngineConfig& config, const WeightChoice& choice) const {
    config.precision.weights = choice.weights;
    config.precision.activations = choice.activations;
  }

  static const char* kvWord(bool int8) { return int8 ? "INT8" : "FP16"; }
  static std::string capitalized(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = char(text[0] - 'a' + 'A');
    return text;
  }

  const EngineConfig& m_base;
  const LabRow* m_weights = nullptr;
  const LabRow* m_kv = nullptr;
  const LabRow* m_batching = nullptr;
};

}  // namespace

std::vector<Recommendation> recommend(const std::vector<LabRow>& rows, const EngineConfig& base) {
  const Advisor advisor(rows, base);
  return {advisor.interactive(), advisor.batch(), advisor.documents()};
}

}  // namespace vitrine::app::lab

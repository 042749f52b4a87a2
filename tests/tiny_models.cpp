#include "tests/tiny_models.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>

#include "engine/tokenizer/byte_alphabet.h"

namespace vitrine::test {
namespace {

/// Numbers with mean 0 and variance 1 (a sum of 12 uniform ones), the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : m_engine(seed) {}
  float normal() {
    float sum = -6.0F;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(m_engine() >> 40) * 0x1p-24F;
    return sum;
  }
  float sign() { return (m_engine() & 1U) != 0 ? 1.0F : -1.0F; }
  std::vector<float> normals(std::size_t n, float scale, float mean = 0.0F) {
    std::vector<float> values(n);
    for (float& value : values) value = mean + scale * normal();
    return values;
  }

 private:
  std::mt19937_64 m_engine;
};

std::size_t product(int a, int b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

void setMetadata(GgufWriter& file, const TinyModelOptions& options,
                 const TinyVocabulary& vocabulary, int eosTokenId) {
  const auto u32 = [&](const std::string& key, int value) {
    file.setU32(key, static_cast<std::uint32_t>(value));
  };
  const std::string& arch = options.architecture;
  file.setText("general.architecture", arch);
  file.setText("general.name", options.name);
  u32(arch + ".block_count", options.nLayers);
  u32(arch + ".context_length", options.contextLength);
  u32(arch + ".embedding_length", options.dModel);
  u32(arch + ".feed_forward_length", options.dFfn);
  u32(arch + ".attention.head_count", options.nHeads);
  u32(arch + ".attention.head_count_kv", options.nKvHeads);
  u32(arch + ".rope.dimension_count", options.dModel / options.nHeads);
  file.setF32(arch + ".rope.freq_base", 10000.0F);
  file.setF32(arch + ".attention.layer_norm_rms_epsilon", 1e-5F);
  u32(arch + ".vocab_size", vocabulary.size());
  file.setText("tokenizer.ggml.model", "gpt2");
  file.setText("tokenizer.ggml.pre", "smollm");
  file.setTexts("tokenizer.ggml.tokens", vocabulary.tokens);
  file.setI32s("tokenizer.ggml.token_type", vocabulary.kinds);
  file.setTexts("tokenizer.ggml.merges", vocabulary.merges);
  u32("tokenizer.ggml.bos_token_id", 1);
  u32("tokenizer.ggml.eos_token_id", eosTokenId);
  file.setBool("tokenizer.ggml.add_bos_token", false);
  if (!options.chatTemplate.empty()) file.setText("tokenizer.chat_template", options.chatTemplate);
}

/// The layers. `mixes` false: attention and feed-forward add nothing to the residual stream.
void setLayers(GgufWriter& file, const TinyModelOptions& options, Random& random, bool mixes) {
  const int d = options.dModel, kv = d / options.nHeads * options.nKvHeads;
  const float width = 1.0F / std::sqrt(static_cast<float>(d));
  const float out = mixes ? 2.0F * width : 0.0F;
  const float down = mixes ? 1.0F / std::sqrt(static_cast<float>(options.dFfn)) : 0.0F;
  for (int i = 0; i < options.nLayers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    const auto matrix = [&](const char* name, int rows, int cols, float scale) {
      file.setTensor(layer + name, rows, cols, random.normals(product(rows, cols), scale),
                     options.weightType);
    };
    const auto norm = [&](const char* name) {
      file.setTensor(layer + name, 0, d, random.normals(product(1, d), mixes ? 0.1F : 0.0F, 1.0F));
    };
    norm("attn_norm.weight");
    matrix("attn_q.weight", d, d, 1.2F * width);
    matrix("attn_k.weight", kv, d, 1.2F * width);
    matrix("attn_v.weight", kv, d, 1.5F * width);
    matrix("attn_output.weight", d, d, out);
    const auto vector = [&](const char* name, int n, float mean) {
      file.setTensor(layer + name, 0, n, random.normals(product(1, n), 0.1F, mean));
    };
    if (options.attentionBias) {
      vector("attn_q.bias", d, 0.0F);
      vector("attn_k.bias", kv, 0.0F);
      vector("attn_v.bias", kv, 0.0F);
    }
    if (options.headNorm) {
      vector("attn_q_norm.weight", d / options.nHeads, 1.0F);
      vector("attn_k_norm.weight", d / options.nHeads, 1.0F);
    }
    norm("ffn_norm.weight");
    matrix("ffn_gate.weight", options.dFfn, d, width);
    matrix("ffn_up.weight", options.dFfn, d, width);
    matrix("ffn_down.weight", d, options.dFfn, down);
  }
  file.setTensor("output_norm.weight", 0, d, std::vector<float>(product(1, d), 1.0F));
}

[[noreturn]] void giveUp(const std::string& what) {
  std::fprintf(stderr, "tiny_models: %s\n", what.c_str());
  std::abort();
}

/// Smallest distance of a wanted next token's logit to the best other one, over a chain of tokens.
float smallestMargin(const std::vector<std::pair<int, int>>& steps,
                     const std::vector<float>& embedding, const std::vector<float>& output,
                     int nTokens, int d) {
  float smallest = std::numeric_limits<float>::max();
  for (const auto& [from, to] : steps) {
    float wanted = 0.0F, best = -std::numeric_limits<float>::max();
    for (int t = 0; t < nTokens; ++t) {
      float logit = 0.0F;
      for (int j = 0; j < d; ++j)
        logit += embedding[product(from, d) + j] * output[product(t, d) + j];
      (t == to ? wanted : best) = t == to ? logit : std::max(best, logit);
    }
    smallest = std::min(smallest, wanted - best);
  }
  return smallest;
}

}  // namespace

const char* const kChatMl =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' "
    "}}"
    "{% endif %}";

TinyVocabulary::TinyVocabulary() {
  for (const char* special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) addSpecial(special);
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const auto& [left, right] : {std::pair{"h", "e"}, {"l", "l"}, {"o", "u"}, {" ", "t"}}) {
    merges.push_back(engine::spellingOfBytes(left) + " " + engine::spellingOfBytes(right));
    add(std::string(left) + right);
  }
}

int TinyVocabulary::add(std::string_view bytes) {
  return addSpecial(engine::spellingOfBytes(bytes), 1);
}

int TinyVocabulary::addSpecial(const std::string& spelling, int kind) {
  const auto found = std::find(tokens.begin(), tokens.end(), spelling);
  if (found != tokens.end()) return static_cast<int>(found - tokens.begin());
  tokens.push_back(spelling);
  kinds.push_back(kind);
  return size() - 1;
}

GgufWriter randomModel(const TinyModelOptions& options, std::string_view letters) {
  TinyVocabulary vocabulary;
  Random random(options.seed);
  GgufWriter file;
  const int d = options.dModel, n = vocabulary.size();
  setMetadata(file, options, vocabulary, 2);
  file.setTensor("token_embd.weight", n, d, random.normals(product(n, d), 1.0F),
                 options.weightType);
  setLayers(file, options, random, true);
  if (!options.tiedOutput) {
    std::vector<float> output(product(n, d), 0.0F);
    for (const char letter : letters) {
      const int id = vocabulary.add(std::string_view(&letter, 1));
      for (int j = 0; j < d; ++j) output[product(id, d) + j] = random.normal();
    }
    file.setTensor("output.weight", n, d, output, options.weightType);
  }
  return file;
}

GgufWriter parrotModel(const ParrotOptions& options) {
  TinyVocabulary vocabulary;
  std::vector<int> chain{vocabulary.add(options.after)};
  for (const std::string& piece : options.pieces) chain.push_back(vocabulary.add(piece));
  if (std::set<int>(chain.begin(), chain.end()).size() != chain.size()) {
    giveUp("a parrot's pieces must differ from each other and from what comes before them");
  }
  std::vector<std::pair<int, int>> steps;
  for (std::size_t i = 1; i < chain.size(); ++i) steps.emplace_back(chain[i - 1], chain[i]);
  if (options.endless) {
    steps.emplace_back(chain.back(), chain[1]);
  } else {
    steps.emplace_back(chain.back(), vocabulary.addSpecial(options.endToken));
  }

  // Each token's embedding is a random vector of signs; the output row of a token is the embedding
  // of the one that it follows. Two such vectors are nearly orthogonal; a seed is looked for with
  // which every step has a clear winner.
  const int d = options.dModel, n = vocabulary.size();
  for (std::uint64_t seed = options.seed; seed < options.seed + 200; ++seed) {
    Random random(seed);
    std::vector<float> embedding(product(n, d)), output(product(n, d), 0.0F);
    for (float& value : embedding) value = random.sign();
    for (const auto& [from, to] : steps) {
      for (int j = 0; j < d; ++j) output[product(to, d) + j] += embedding[product(from, d) + j];
    }
    if (smallestMargin(steps, embedding, output, n, d) < 16.0F) continue;
    GgufWriter file;
    setMetadata(file, options, vocabulary, options.eosTokenId);
    file.setTensor("token_embd.weight", n, d, embedding, options.weightType);
    setLayers(file, options, random, false);
    file.setTensor("output.weight", n, d, output, options.weightType);
    return file;
  }
  giveUp("no clear winner at every step; a larger dModel helps");
}

GgufWriter parrotModel(std::string_view text, ParrotOptions options) {
  options.pieces = cutIntoDifferentPieces(text);
  // Long texts need more room for vectors that are nearly orthogonal.
  while (options.dModel < 256 && options.pieces.size() > static_cast<std::size_t>(options.dModel)) {
    options.dModel *= 2;
  }
  return parrotModel(options);
}

std::vector<std::string> cutIntoDifferentPieces(std::string_view text) {
  std::vector<std::string> pieces;
  std::set<std::string, std::less<>> used{"\n"};
  while (!text.empty()) {
    // Lengths 2, 3, 4, 5, 2, … and longer where the piece is there already.
    std::size_t length = 2 + pieces.size() % 4;
    while (length < text.size() && used.contains(text.substr(0, length))) ++length;
    std::string piece(text.substr(0, length));
    if (used.contains(piece)) {  // the end repeats something: it goes with the piece before
      if (pieces.empty()) giveUp("this text cannot be cut into different pieces");
      text = {};
      piece.insert(0, pieces.back());
      used.erase(pieces.back());
      pieces.pop_back();
      pieces.push_back(piece);
      break;
    }
    used.insert(piece);
    pieces.push_back(std::move(piece));
    text = length < text.size() ? text.substr(length) : std::string_view();
  }
  return pieces;
}

}  // namespace vitrine::test

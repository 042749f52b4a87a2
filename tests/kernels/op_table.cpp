#include "tests/kernels/op_table.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <tuple>

#include "tests/kernels/random_data.h"

namespace vitrine::test {
namespace {

using kernels::tensorTypeInfo;

constexpr TensorType kTypes[] = {TensorType::kF32,  TensorType::kF16,  TensorType::kBF16,
                                 TensorType::kQ8_0, TensorType::kQ4_0, TensorType::kQ4_1};

std::string text(int n) {
  return std::to_string(n);
}
/// "2 x 16 x 96"
template <typename... Numbers>
std::string sizes(int first, Numbers... rest) {
  return (text(first) + ... + (" x " + text(rest)));
}

AttentionInput attentionInput(Random& random, int rows, int length, int nHeads, int nKvHeads,
                              int headDim, bool int8) {
  AttentionInput in;
  in.rows = rows;
  in.length = length;
  in.nHeads = nHeads;
  in.nKvHeads = nKvHeads;
  in.headDim = headDim;
  in.int8 = int8;
  in.scale = 1.0F / std::sqrt(static_cast<float>(headDim));
  // Blocks of the sequence lie in no order, with foreign blocks between them.
  const int used = (length + in.blockSize - 1) / in.blockSize;
  in.nBlocks = 2 * used + 1;
  std::vector<std::int32_t> blocks(in.nBlocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  for (int i = in.nBlocks - 1; i > 0; --i) std::swap(blocks[i], blocks[random.below(i + 1)]);
  in.blockTable.assign(blocks.begin(), blocks.begin() + used);
  const std::size_t kvSize = static_cast<std::size_t>(length) * nKvHeads * headDim;
  in.k = random.normals(kvSize);
  in.v = random.normals(kvSize);
  in.q = random.normals(static_cast<std::size_t>(rows) * nHeads * headDim);
  return in;
}

}  // namespace

std::vector<NamedCase<EmbeddingInput>> embeddingCases() {
  std::vector<NamedCase<EmbeddingInput>> cases;
  const auto add = [&](const std::string& name, const EmbeddingInput& input) {
    cases.push_back({name, input});
  };

  Random random(1);
  for (TensorType type : kTypes) {
    for (int dim : {32, 96, 576}) {
      EmbeddingInput in;
      in.type = type;
      in.vocab = 11;
      in.dim = dim;
      in.scale = dim == 96 ? 24.0F : 1.0F;
      in.table = random.fileRows(type, in.vocab, dim);
      in.tokens = {10, 0, 3, 3};
      add(std::string(tensorTypeInfo(type).name) + " dim " + text(dim), in);
    }
  }
  return cases;
}

std::vector<NamedCase<RmsNormInput>> rmsNormCases() {
  std::vector<NamedCase<RmsNormInput>> cases;
  const auto add = [&](const std::string& name, const RmsNormInput& input) {
    cases.push_back({name, input});
  };

  Random random(2);
  for (auto [rows, dim] : {std::pair{1, 1}, {1, 7}, {3, 64}, {2, 576}, {17, 1537}}) {
    RmsNormInput in;
    in.rows = rows;
    in.dim = dim;
    in.x = random.normals(static_cast<std::size_t>(rows) * dim, 3.0F);
    in.weight = random.normals(static_cast<std::size_t>(dim));
    add(sizes(rows, dim), in);
  }
  RmsNormInput zeros;
  zeros.rows = 1;
  zeros.dim = 32;
  zeros.x.assign(32, 0.0F);
  zeros.weight.assign(32, 1.0F);
  add("zeros", zeros);
  RmsNormInput large = zeros;
  large.x = random.normals(32, 1e6F);
  add("a million", large);
  return cases;
}

std::vector<NamedCase<LinearInput>> linearCases() {
  std::vector<NamedCase<LinearInput>> cases;
  const auto add = [&](const std::string& name, const LinearInput& input) {
    cases.push_back({name, input});
  };

  Random random(3);
  for (TensorType type : kTypes) {
    for (auto [rows, out, inputs] : {std::tuple{1, 1, 32},
                                     {1, 5, 64},
                                     {1, 33, 576},
                                     {2, 16, 96},
                                     {4, 48, 64},
                                     {7, 19, 1536},
                                     {33, 17, 160}}) {
      LinearInput in;
      in.rows = rows;
      in.out = out;
      in.in = inputs;
      in.type = type;
      in.weight = random.fileRows(type, out, inputs, 0.1F);
      in.x = random.normals(static_cast<std::size_t>(rows) * inputs);
      if (out % 2 == 1) in.bias = random.normals(static_cast<std::size_t>(out));
      add(std::string(tensorTypeInfo(type).name) + " " + sizes(rows, out, inputs), in);
    }
  }
  // Sizes that are no multiple of anything; only plain types have such rows.
  for (auto [rows, out, inputs] : {std::tuple{1, 1, 1}, {3, 7, 13}, {2, 3, 47}}) {
    LinearInput in;
    in.rows = rows;
    in.out = out;
    in.in = inputs;
    in.weight = random.fileRows(TensorType::kF32, out, inputs);
    in.x = random.normals(static_cast<std::size_t>(rows) * inputs);
    add("odd " + sizes(rows, out, inputs), in);
  }
  return cases;
}

std::vector<NamedCase<Int8LinearInput>> int8LinearCases() {
  std::vector<NamedCase<Int8LinearInput>> cases;
  const auto add = [&](const std::string& name, const Int8LinearInput& input) {
    cases.push_back({name, input});
  };

  Random random(4);
  for (bool activations : {false, true}) {
    for (int group : {32, 64, 128}) {
      for (auto [rows, out, inputs] : {std::tuple{1, 1, 32},
                                       {1, 33, 576},
                                       {2, 16, 96},
                                       {5, 48, 64},
                                       {7, 19, 1536},
                                       {33, 18, 160}}) {
        Int8LinearInput in;
        in.rows = rows;
        in.out = out;
        in.in = inputs;
        in.groupSize = group;
        in.int8Activations = activations;
        in.weight = random.normals(static_cast<std::size_t>(out) * inputs, 0.1F);
        in.x = random.normals(static_cast<std::size_t>(rows) * inputs);
        for (int i = 0; i < 32; ++i) in.weight[i] = 0.0F;  // a group of zeros
        in.x[inputs / 2] = 300.0F;                         // an outlier
        if (out % 2 == 1) in.bias = random.normals(static_cast<std::size_t>(out));
        add(std::string(activations ? "W8A8" : "W8A16") + " group " + text(group) + ", " +
                sizes(rows, out, inputs),
            in);
      }
    }
  }
  return cases;
}

std::vector<NamedCase<RopeInput>> ropeCases() {
  std::vector<NamedCase<RopeInput>> cases;
  const auto add = [&](const std::string& name, const RopeInput& input) {
    cases.push_back({name, input});
  };

  Random random(5);
  for (bool halves : {false, true}) {
    const std::string style = halves ? "halves" : "interleaved";
    const auto make = [&](int rows, int nHeads, int headDim, int dims) {
      RopeInput in;
      in.rows = rows;
      in.nHeads = nHeads;
      in.headDim = headDim;
      in.dims = dims;
      in.halves = halves;
      in.x = random.normals(static_cast<std::size_t>(rows) * nHeads * headDim);
      for (int r = 0; r < rows; ++r) in.positions.push_back(r == 0 ? 0 : 977 * r + 3);
      return in;
    };
    add(style + " one pair", make(2, 1, 2, 2));
    add(style + " 9 heads of 64", make(5, 9, 64, 64));
    add(style + " part of a head", make(3, 2, 80, 32));
    RopeInput scaled = make(3, 3, 64, 64);
    scaled.linearScale = 4.0F;
    scaled.base = 100000.0F;
    add(style + " linear scale", scaled);
    RopeInput factors = make(4, 2, 32, 32);
    for (int i = 0; i < 16; ++i) factors.freqFactors.push_back(1.0F + 0.5F * i);
    add(style + " frequency factors", factors);
  }
  return cases;
}

std::vector<NamedCase<HadamardInput>> hadamardCases() {
  std::vector<NamedCase<HadamardInput>> cases;
  Random random(29);
  for (int headDim : {2, 8, 24, 32, 48, 64, 72, 80, 96, 112, 128, 192, 256}) {
    HadamardInput in;
    in.rows = 3;
    in.headDim = headDim;
    in.x = random.normals(static_cast<std::size_t>(in.rows) * headDim);
    in.x[static_cast<std::size_t>(headDim) / 2] = 1000.0F;
    cases.push_back({"heads of " + text(headDim), in});
  }
  return cases;
}

std::vector<NamedCase<AttentionInput>> attentionCases() {
  std::vector<NamedCase<AttentionInput>> cases;
  const auto add = [&](const std::string& name, const AttentionInput& input) {
    cases.push_back({name, input});
  };

  Random random(6);
  for (bool int8 : {false, true}) {
    const std::string type = int8 ? "int8" : "fp16";
    for (auto [rows, length, nHeads, nKvHeads, headDim] : {std::tuple{1, 1, 1, 1, 16},
                                                           {1, 15, 4, 2, 32},
                                                           {1, 16, 9, 3, 64},
                                                           {1, 17, 9, 3, 64},
                                                           {1, 257, 9, 3, 64},
                                                           {5, 5, 4, 4, 32},
                                                           {16, 33, 8, 1, 64},
                                                           {40, 100, 6, 2, 128},
                                                           {3, 50, 14, 2, 80},
                                                           {2, 40, 16, 1, 96},
                                                           {1, 70, 4, 1, 256},
                                                           {18, 50, 2, 2, 256}}) {
      add(type + " " + text(rows) + " rows of " + text(length) + ", " + text(nHeads) + "/" +
              text(nKvHeads) + " heads of " + text(headDim),
          attentionInput(random, rows, length, nHeads, nKvHeads, headDim, int8));
    }
    AttentionInput window = attentionInput(random, 20, 70, 4, 2, 32, int8);
    window.window = 24;
    add(type + " sliding window", window);
    AttentionInput capped = attentionInput(random, 3, 40, 4, 2, 32, int8);
    capped.softcap = 2.0F;
    capped.scale = 1.0F;
    add(type + " softcap", capped);
    AttentionInput blocks = attentionInput(random, 4, 70, 4, 2, 32, int8);
    blocks.blockSize = 32;
    blocks.blockTable = {6, 2, 4};
    add(type + " blocks of 32", blocks);
    AttentionInput large = attentionInput(random, 2, 20, 4, 2, 32, int8);
    for (float& v : large.v) v *= 1e5F;  // beyond FP16
    add(type + " values beyond FP16", large);
    AttentionInput zeros = attentionInput(random, 2, 20, 4, 2, 32, int8);
    zeros.k.assign(zeros.k.size(), 0.0F);
    zeros.v.assign(zeros.v.size(), 0.0F);
    add(type + " zeros", zeros);
  }
  return cases;
}

std::vector<NamedCase<GateInput>> gateCases() {
  std::vector<NamedCase<GateInput>> cases;
  const auto add = [&](const std::string& name, const GateInput& input) {
    cases.push_back({name, input});
  };

  Random random(7);
  for (bool gelu : {false, true}) {
    for (int n : {1, 15, 1537}) {
      GateInput in;
      in.gelu = gelu;
      in.gate = random.normals(static_cast<std::size_t>(n), 3.0F);
      in.up = random.normals(static_cast<std::size_t>(n));
      add(std::string(gelu ? "gelu " : "silu ") + text(n), in);
    }
    GateInput ends;
    ends.gelu = gelu;
    ends.gate = {-1e30F, -1000.0F, -100.0F, -20.0F, -0.0F, 0.0F, 20.0F, 100.0F, 1000.0F};
    ends.up.assign(ends.gate.size(), 1.0F);
    if (gelu) ends.gate.front() = -1e10F;
    add(std::string(gelu ? "gelu ends" : "silu ends"), ends);
  }
  return cases;
}

std::vector<NamedCase<AddInput>> addCases() {
  std::vector<NamedCase<AddInput>> cases;
  const auto add = [&](const std::string& name, const AddInput& input) {
    cases.push_back({name, input});
  };

  Random random(8);
  for (int n : {1, 31, 576}) {
    AddInput in;
    in.y = random.normals(static_cast<std::size_t>(n));
    in.x = random.normals(static_cast<std::size_t>(n), 100.0F);
    add(text(n), in);
  }
  return cases;
}

std::vector<NamedCase<SoftmaxInput>> softmaxCases() {
  std::vector<NamedCase<SoftmaxInput>> cases;
  const auto add = [&](const std::string& name, const SoftmaxInput& input) {
    cases.push_back({name, input});
  };

  Random random(9);
  for (int n : {1, 2, 100, 4099}) {
    SoftmaxInput in;
    in.x = random.normals(static_cast<std::size_t>(n), 4.0F);
    add(text(n), in);
  }
  SoftmaxInput far;
  far.x = {-3e38F, 1e4F, 1e4F, -std::numeric_limits<float>::infinity()};
  add("far apart", far);
  return cases;
}

}  // namespace vitrine::test

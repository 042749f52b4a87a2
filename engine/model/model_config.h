#pragma once

#include <string>
#include <vector>

namespace vitrine::engine {

/// Which two elements of a head rotate together.
enum class RopeStyle {
  kInterleaved,  ///< (0,1), (2,3), … — llama in GGUF
  kHalves,       ///< (0, d/2), (1, d/2+1), … — NeoX
};

struct RopeConfig {
  RopeStyle style = RopeStyle::kInterleaved;
  float base = 10000.0F;
  int dims = 0;                      ///< rotated elements of a head, even
  float linearScale = 1.0F;          ///< positions are divided by it (linear scaling)
  std::vector<float> freqFactors;    ///< dims/2 divisors of the frequencies (Llama 3); may be empty
};

enum class Activation { kSilu, kGeluTanh };

/// Shapes and constants of a model, from its file through the architecture table.
/// Immutable; every value was validated by the loader (nothing here is zero or out of range).
struct ModelConfig {
  std::string architecture;  ///< "llama", …
  std::string name;          ///< as the file calls itself; may hold any characters
  int nLayers = 0;
  int dModel = 0;
  int nHeads = 0;
  int nKvHeads = 0;  ///< divides nHeads
  int headDim = 0;
  int dFfn = 0;
  int vocabSize = 0;
  int contextLength = 0;  ///< tokens the model was trained for
  float normEps = 1e-5F;
  RopeConfig rope;
  Activation activation = Activation::kSilu;
  // What some architectures add; each has the neutral value by default.
  float embeddingScale = 1.0F;
  float attentionScale = 0.0F;   ///< 0: 1/sqrt(headDim)
  float attentionSoftcap = 0.0F; ///< 0: none
  float logitSoftcap = 0.0F;     ///< 0: none
  int slidingWindow = 0;         ///< 0: none

  int groupSize() const { return nHeads / nKvHeads; }
  int qDim() const { return nHeads * headDim; }
  int kvDim() const { return nKvHeads * headDim; }
};

}  // namespace vitrine::engine

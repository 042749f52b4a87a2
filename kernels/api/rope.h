#pragma once

// Rotary position embedding. Pair i of a head turns by the angle
//     a = (position / linearScale) · base^(−2i / dims) / freqFactors[i]
//     (u, v) → (u · cos a − v · sin a, u · sin a + v · cos a)
// where the pair is (x[2i], x[2i+1]) in the interleaved style and (x[i], x[i + dims/2]) in the
// halves style. Elements from dims on stay as they are.
//
//   x         [rows, nHeads, headDim] FP32, in place
//   positions [rows]
//
// Source: Su et al. 2021, "RoFormer"; linear scaling: Chen et al. 2023, "Extending Context Window
// via Positional Interpolation"; frequency factors: the rope_freqs tensor of Llama 3 files.
// Tolerance of a fast kernel: abs 1e-4 + rel 1e-4 (angles are taken in double by the reference).

namespace vitrine::kernels {

struct RopeParams {
  int rows = 0;
  int nHeads = 0;
  int headDim = 0;
  int dims = 0;  ///< rotated elements of a head, even, at most headDim
  bool halves = false;
  float base = 10000.0F;
  float linearScale = 1.0F;
  const float* freqFactors = nullptr;  // [dims / 2] or null
};

}  // namespace vitrine::kernels

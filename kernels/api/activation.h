#pragma once

// Gated feed-forward activation, element by element: y = act(gate) · up
//     swiglu: act(x) = x / (1 + e^−x)
//     geglu:  act(x) = x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))
//
//   gate, up, y [n] FP32; y may be gate or up
//
// Source: Shazeer 2020, "GLU Variants Improve Transformer"; the tanh form of GELU: Hendrycks &
// Gimpel 2016. Large |x| must not overflow: −100 gives 0, 100 gives 100.
// Tolerance of a fast kernel: abs 1e-5 + rel 1e-4.

#pragma once

// Residual add: y[i] += x[i]                     x, y [n] FP32; exact
//
// Softmax of a row, in place: x_i → e^(x_i − max x) / Σ_j e^(x_j − max x)
//   x [n] FP32, n ≥ 1, finite or −∞ (not all −∞). Tolerance of a fast kernel: abs 1e-6 + rel 1e-5.
//
// Soft cap of logits, in place: x_i → c · tanh(x_i / c), c > 0

#pragma once

// Root mean square norm: y[r, :] = x[r, :] · w / sqrt(mean(x[r, :]²) + eps)
//
//   x, y [rows, dim] FP32, row-major; y may be x
//   w    [dim] FP32
//
// Sums of one row run in one fixed order, whatever the number of rows.
// Source: Zhang & Sennrich 2019, "Root Mean Square Layer Normalization".
// Tolerance of a fast kernel: abs 1e-5 + rel 1e-5.

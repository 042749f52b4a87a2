#pragma once

// Embedding lookup: y[r, :] = scale · E[token[r], :]
//
//   tokens [rows], each in 0 … vocab − 1 (checked by the caller)
//   E      [vocab, dim], as it lies in the model file, any TensorType
//   y      [rows, dim] FP32
//
// The file's own values in every weight mode: one row is read per token, so rounding it would save
// nothing. `scale` is 1 for llama; Gemma multiplies by sqrt(dim).
// Moves rows · (rowBytes + 4 · dim) bytes.

#pragma once

#include <array>
#include <vector>

#include "engine/backend/host_memory.h"
#include "engine/model/model_config.h"
#include "kernels/cpu/kernels.h"

namespace vitrine::engine {

/// Prepared rows in every format that the weights of a model ask for.
class ActivationSet final {
 public:
  /// `formats`: bit f is set where ActivationFormat f is needed; `groups`: of the widest row.
  void resize(unsigned formats, int rows, int groups);
  /// The buffers of a format, shaped for rows of `groups` groups.
  kernels::cpu::Activations view(kernels::cpu::ActivationFormat format, int groups) const;
  std::size_t bytes() const;

 private:
  struct Buffer {
    std::vector<std::byte> data;
    std::byte* aligned = nullptr;
    std::vector<float> scales, sums;
    std::vector<std::int32_t> offsets;
  };
  mutable std::array<Buffer, kernels::cpu::kActivationFormats> m_buffers;
};

/// Rows ready for the products of a site: the matrices' own, and columns that stay FP16.
struct PreparedRows {
  ActivationSet rows, outliers;
};

/// What one thread needs for itself.
struct ThreadWorkspace {
  PreparedRows prepared;         // the few rows that every thread prepares for itself
  std::vector<float> row;        // one row, the widest
  std::vector<float> part;       // some columns of it
  std::vector<float> panel;      // two tiles of weights widened to FP32
  std::vector<float> attention;  // scratch of the attention kernel
};

/// Buffers of one pass through the layers, for up to `rows` rows. [rows, …], FP32.
struct CpuWorkspace {
  /// `outliers`: columns that stay FP16, of the site that has most.
  void resize(const ModelConfig& config, unsigned formats, int outliers, int rows, int threads);
  std::size_t bytes() const;

  int rows = 0;
  std::vector<float> x;               // residual stream [rows, dModel]
  std::vector<float> q, k, v;         // [rows, nHeads or nKvHeads, headDim]
  std::vector<float> attention;       // [rows, nHeads, headDim]
  std::vector<float> gate, up;        // [rows, dFfn]
  std::vector<float> cosines, sines;  // [rows, rope.dims]
  std::vector<float> partials;        // of attention over ranges of positions
  PreparedRows prepared;              // rows that all threads share
  std::vector<ThreadWorkspace> threads;
};

}  // namespace vitrine::engine

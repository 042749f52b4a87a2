#pragma once

#include <span>
#include <vector>

#include "engine/backend/cpu_backend.h"

namespace vitrine::engine {

/// Rows of a batch that go through the layers together. Made for one pass; run() is executed by
/// every thread of the pool at once.
class CpuPass final {
 public:
  /// A run of rows of one sequence.
  struct Slice {
    std::span<const TokenId> tokens;
    int firstPosition = 0;
    std::span<const BlockId> blockTable;
    int logitRows = 0;  ///< the last rows of the slice whose logits are wanted
    int firstRow = 0;   ///< of the pass
  };

  /// `logits` [wanted rows of the pass, vocabSize].
  CpuPass(CpuBackend& backend, std::vector<Slice> slices, float* logits);
  void run(int thread);

 private:
  using Activations = kernels::cpu::Activations;
  using ActivationFormat = kernels::cpu::ActivationFormat;

  /// One matrix product of a phase.
  struct Product {
    const CpuMatrix* matrix;
    float* y;
    std::ptrdiff_t yStride;
    bool accumulate = false;
  };
  struct Row {
    const Slice* slice;
    int position;
  };
  /// Attention of some rows of a slice for one KV head: over one range of positions (few rows), or
  /// over all (range −1).
  struct AttentionItem {
    const Slice* slice;
    int kvHead;
    int firstRow;  // in the slice
    int rows;
    int range;
    std::size_t partials;  // offset; of the range
  };
  /// Where the partials of a slice of few rows lie: [kvHead, range, row, head, partial].
  struct SlicePartials {
    std::size_t offset = 0;
    int firstRange = 0;
    int ranges = 0;  ///< 0: the slice has none
  };

  void planAttention();
  void embed();
  void layer(int index);
  void wantedLogits();

  /// Makes rows [0, rows) ready for `products`, which read `site`, and computes them.
  /// `source(row, scratch)` returns the row's values. Few rows: every thread prepares them for
  /// itself and no barrier is needed.
  template <typename RowSource>
  void multiply(int site, std::span<const Product> products, int rows, int width, RowSource source);
  /// `first`: this thread is the one to show and count the row.
  void prepareRow(int site, std::span<const Product> products, const PreparedRows& to, int row,
                  std::span<const float> x, bool first);
  void computeTiles(const Product& product, int begin, int end, const PreparedRows& x, int rows);
  ActivationFormat formatOf(const Product& product) const;
  void rotateAndStore(int layerIndex);
  void attend(int layerIndex);
  const float* mergedRow(int row, float* scratch) const;
  kernels::cpu::KvHead kvHead(int layer, int head, const Slice& slice) const;

  CpuBackend& m_backend;
  const ModelConfig& m_config;
  const kernels::cpu::CpuKernels& m_kernels;
  kernels::cpu::ThreadPool& m_pool;
  CpuWorkspace& m_work;
  std::vector<Slice> m_slices;
  std::vector<Row> m_rows;
  std::vector<int> m_wanted;  // rows whose logits are wanted
  std::vector<AttentionItem> m_items;
  std::vector<SlicePartials> m_partials;  // one a slice
  float* m_logits;
};

}  // namespace vitrine::engine

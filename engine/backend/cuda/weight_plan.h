#pragma once

#include <string>
#include <vector>

#include "engine/backend/cuda/cuda_weights.h"

namespace vitrine::engine::cuda {

/// The format of a matrix as a file has it. WeightMode::kNative: BF16 where the file has BF16, else
/// FP16. (Kernels that compute with 4-bit blocks will get theirs here.)
kernels::cuda::WeightFormat weightFormat(const TensorView& file, WeightMode mode);

/// What goes where: every matrix and vector of the device with the tensors that it is made of, and
/// its place in the run of memory. Made from shapes, types and the modes of a QuantPlan alone.
class WeightPlan final {
 public:
  struct Part {
    const TensorView* from = nullptr;
    MatrixPart part = MatrixPart::kQ;
    MatrixPlan plan{};
    bool isKv() const { return part == MatrixPart::kK || part == MatrixPart::kV; }
  };
  struct MatrixEntry {
    CudaMatrix* to = nullptr;
    std::vector<Part> parts;  ///< one below the other
    int layer = -1;           ///< −1: the output
    std::size_t values = 0;   ///< offsets into the run
    std::size_t scales = 0;
    std::size_t outliers = 0;
  };
  struct VectorSource {
    const TensorView* from = nullptr;  ///< may be missing where others are there: zeros
    int count = 0;
    bool kv = false;                 ///< K or V, whose heads may be regrouped
    std::span<const float> scale{};  // [count]; empty: ones
  };
  struct VectorEntry {
    const float** to = nullptr;
    std::vector<VectorSource> parts;  ///< one after the other
    std::size_t offset = 0;
    std::size_t count = 0;
  };
  struct SiteEntry {
    CudaSite* to = nullptr;
    std::span<const int> columns;
    std::size_t columnsAt = 0, bitsAt = 0;
    int stride = 0;  ///< columns of its rows
  };

  /// `weights` gets its layers, shapes and formats; addresses are still null.
  WeightPlan(CudaWeights& weights, const Weights& from, int ownKvHeads, const ModelConfig& config,
             const WeightPrecision& precision, const QuantPlan& quant);

  std::vector<MatrixEntry> matrices;
  std::vector<VectorEntry> vectors;
  std::vector<SiteEntry> sites;    ///< those with outliers
  std::size_t embedding = 0;       ///< offset
  bool embeddingIsOutput = false;  ///< the output matrix has the table's very bytes
  std::size_t turns = 0;           ///< offset
  std::size_t bytes = 0;           ///< of the run

 private:
  std::size_t place(std::size_t count);
  void addOne(CudaMatrix& to, int layer, Part part);
  void addMatrix(CudaMatrix& to, int layer, std::vector<Part> parts,
                 kernels::cuda::WeightFormat format);
  void addMatrices(CudaMatrices& to, int layer, std::vector<Part> parts);
  void addVector(const float*& to, std::vector<VectorSource> parts);
  void addSite(CudaSite& to, int site);

  int m_ownKvHeads;
  const ModelConfig& m_config;
  const WeightPrecision& m_precision;
  const QuantPlan& m_quant;
};

}  // namespace vitrine::engine::cuda

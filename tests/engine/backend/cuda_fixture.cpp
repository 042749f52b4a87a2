#include "tests/engine/backend/cuda_fixture.h"

#include "engine/backend/reference_weights.h"
#include "kernels/cpu/isa.h"

namespace vitrine::test {

using namespace vitrine::engine;

namespace {

std::unique_ptr<Backend> makeCudaWith(const std::shared_ptr<const Model>& model,
                                      const ModelConfig& config, const WeightPrecision& precision) {
  auto stream = kernels::cuda::Stream::make();
  auto weights = valueOf(cuda::CudaWeights::make(*model, config, precision, stream.get(), {}, {}));
  return std::make_unique<cuda::CudaBackend>(
      model, config, precision, cuda::CudaDevice{0, "a test's GPU", "sm_80", 16},
      cuda::DeviceFigures(0), std::move(stream), std::move(weights), "");
}

}  // namespace

std::unique_ptr<Backend> makeWith(BackendKind kind, const std::shared_ptr<const Model>& model,
                                  const ModelConfig& config, const WeightPrecision& precision) {
  if (kind == BackendKind::kCuda) return makeCudaWith(model, config, precision);
  if (kind == BackendKind::kCpu) {
    auto pool = std::make_unique<kernels::cpu::ThreadPool>(2);
    auto weights = valueOf(CpuWeights::make(*model, config, precision, *pool, {}, {}));
    return std::make_unique<CpuBackend>(model, config, precision,
                                        kernels::cpu::kernelsFor(kernels::cpu::bestIsa()),
                                        std::move(pool), std::move(weights), "");
  }
  auto weights = valueOf(ReferenceWeights::make(*model, config, precision, {}, {}));
  return std::make_unique<ReferenceBackend>(model, config, precision, std::move(weights));
}

Divergence divergence(const std::vector<float>& wanted, const std::vector<float>& got,
                      int vocabSize) {
  if (wanted.size() != got.size() || wanted.empty()) {
    throw std::runtime_error("rows of logits do not pair up");
  }
  const auto vocab = static_cast<std::size_t>(vocabSize);
  const std::size_t rows = wanted.size() / vocab;
  Divergence sum;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto row = compareRows(std::span(wanted).subspan(r * vocab, vocab),
                                 std::span(got).subspan(r * vocab, vocab));
    sum.mean += row.divergence / static_cast<double>(rows);
    // NaN counts as the largest.
    if (!(row.divergence <= sum.largest)) sum.largest = row.divergence;
  }
  return sum;
}

}  // namespace vitrine::test

#include <cmath>
#include <cstdio>

#include "tests/kernels/op_table.h"
#include "tests/kernels/oracle.h"

namespace vitrine::test {
namespace {

/// |got − wanted| ≤ absolute + relative · magnitude, element by element; NaN fails.
std::string difference(const Floats& got, const std::vector<double>& wanted,
                       const std::vector<double>& magnitude, double absolute, double relative) {
  char text[200];
  if (got.size() != wanted.size()) {
    std::snprintf(text, sizeof text, "%zu elements, wanted %zu", got.size(), wanted.size());
    return text;
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = absolute + relative * magnitude[i];
    if (std::fabs(got[i] - wanted[i]) <= allowed) continue;
    std::snprintf(text, sizeof text,
                  "element %zu of %zu: got %.9g, wanted %.9g, allowed error %.9g", i, got.size(),
                  static_cast<double>(got[i]), wanted[i], allowed);
    return text;
  }
  return {};
}

template <typename Input>
std::string judge(const OpBackend& ops, std::function<Floats(const Input&)> OpBackend::*operation,
                  const Input& input, double absolute, double relative) {
  const Exact formula = exact(input);
  const Floats got = (ops.*operation)(input);
  if (ops.name == "reference") {
    return difference(got, formula.value, formula.magnitude, absolute, relative);
  }
  const Floats reference = (referenceOps().*operation)(input);
  return difference(got, {reference.begin(), reference.end()}, formula.magnitude, absolute,
                    relative);
}

}  // namespace

std::string runCase(const OpBackend& ops, const EmbeddingInput& input) {
  return judge(ops, &OpBackend::embedding, input, 1e-30, 2e-7);
}
std::string runCase(const OpBackend& ops, const RmsNormInput& input) {
  return judge(ops, &OpBackend::rmsNorm, input, 1e-30, 1e-5);
}
std::string runCase(const OpBackend& ops, const LinearInput& input) {
  return judge(ops, &OpBackend::linear, input, 1e-6, ops.linearTolerance);
}
std::string runCase(const OpBackend& ops, const Int8LinearInput& input) {
  const bool wide = input.int8Activations && input.groupSize > 32;
  return judge(ops, &OpBackend::int8Linear, input, 1e-6,
               wide ? ops.int8Linear64Tolerance : ops.int8LinearTolerance);
}
std::string runCase(const OpBackend& ops, const RopeInput& input) {
  return judge(ops, &OpBackend::rope, input, 1e-6, 2e-4);
}
std::string runCase(const OpBackend& ops, const HadamardInput& input) {
  return judge(ops, &OpBackend::hadamard, input, 1e-30, 1e-6);
}
std::string runCase(const OpBackend& ops, const AttentionInput& input) {
  return judge(ops, &OpBackend::attention, input, 1e-6,
               input.int8 ? ops.int8AttentionTolerance : ops.attentionTolerance);
}
std::string runCase(const OpBackend& ops, const GateInput& input) {
  return judge(ops, &OpBackend::gate, input, 1e-6, 1e-5);
}
std::string runCase(const OpBackend& ops, const AddInput& input) {
  return judge(ops, &OpBackend::add, input, 1e-30, 1e-7);
}
std::string runCase(const OpBackend& ops, const SoftmaxInput& input) {
  return judge(ops, &OpBackend::softmax, input, 1e-7, 1e-5);
}

}  // namespace vitrine::test

#pragma once

#include <vector>

#include "tests/kernels/op_cases.h"

namespace vitrine::test {

/// The formulas of kernels/api in double, written from the headers alone and sharing no code with
/// any kernel. `magnitude` is the size that an error is measured against: the sum of the absolute
/// values of the terms of a sum, else the value itself.
struct Exact {
  std::vector<double> value;
  std::vector<double> magnitude;
};

Exact exact(const EmbeddingInput& in);
Exact exact(const RmsNormInput& in);
Exact exact(const LinearInput& in);
Exact exact(const Int8LinearInput& in);
Exact exact(const RopeInput& in);
Exact exact(const HadamardInput& in);
Exact exact(const AttentionInput& in);
Exact exact(const GateInput& in);
Exact exact(const AddInput& in);
Exact exact(const SoftmaxInput& in);

/// One row of file weights by the definition of its format.
std::vector<double> exactRow(TensorType type, const std::byte* data, int n);

}  // namespace vitrine::test

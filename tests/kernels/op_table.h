#pragma once

#include <string>
#include <vector>

#include "tests/kernels/op_cases.h"

// The table of cases that every backend's operations must pass, and how a result is judged. Plain
// C++, so that it also runs where there is nothing but a compiler.

namespace vitrine::test {

template <typename Input>
struct NamedCase {
  std::string name;
  Input input;
};

std::vector<NamedCase<EmbeddingInput>> embeddingCases();
std::vector<NamedCase<RmsNormInput>> rmsNormCases();
std::vector<NamedCase<LinearInput>> linearCases();
std::vector<NamedCase<Int8LinearInput>> int8LinearCases();
std::vector<NamedCase<RopeInput>> ropeCases();
std::vector<NamedCase<HadamardInput>> hadamardCases();
std::vector<NamedCase<AttentionInput>> attentionCases();
std::vector<NamedCase<GateInput>> gateCases();
std::vector<NamedCase<AddInput>> addCases();
std::vector<NamedCase<SoftmaxInput>> softmaxCases();

/// Runs a case on a backend: "" or the first element that is off. The reference is judged by the
/// formula in double, every other backend by the reference.
std::string runCase(const OpBackend& ops, const EmbeddingInput& input);
std::string runCase(const OpBackend& ops, const RmsNormInput& input);
std::string runCase(const OpBackend& ops, const LinearInput& input);
std::string runCase(const OpBackend& ops, const Int8LinearInput& input);
std::string runCase(const OpBackend& ops, const RopeInput& input);
std::string runCase(const OpBackend& ops, const HadamardInput& input);
std::string runCase(const OpBackend& ops, const AttentionInput& input);
std::string runCase(const OpBackend& ops, const GateInput& input);
std::string runCase(const OpBackend& ops, const AddInput& input);
std::string runCase(const OpBackend& ops, const SoftmaxInput& input);

/// Calls visit(operation's name, its member of OpBackend, its cases) for every operation.
template <typename Visitor>
void visitOperations(Visitor&& visit) {
  visit("embedding", &OpBackend::embedding, embeddingCases());
  visit("rmsNorm", &OpBackend::rmsNorm, rmsNormCases());
  visit("linear", &OpBackend::linear, linearCases());
  visit("int8Linear", &OpBackend::int8Linear, int8LinearCases());
  visit("rope", &OpBackend::rope, ropeCases());
  visit("hadamard", &OpBackend::hadamard, hadamardCases());
  visit("attention", &OpBackend::attention, attentionCases());
  visit("gate", &OpBackend::gate, gateCases());
  visit("add", &OpBackend::add, addCases());
  visit("softmax", &OpBackend::softmax, softmaxCases());
}

}  // namespace vitrine::test

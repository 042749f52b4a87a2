#include "engine/backend/cpu_workspace.h"

#include <algorithm>

namespace vitrine::engine {

namespace cpu = kernels::cpu;

void ActivationSet::resize(unsigned formats, int rows, int groups) {
  for (int f = 0; f < cpu::kActivationFormats; ++f) {
    if ((formats >> f & 1U) == 0) continue;
    Buffer& b = m_buffers[static_cast<std::size_t>(f)];
    const auto count = static_cast<std::size_t>(rows) * static_cast<std::size_t>(groups);
    const auto format = static_cast<cpu::ActivationFormat>(f);
    b.data.resize(static_cast<std::size_t>(rows) * cpu::activationRowBytes(format, groups) + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(b.data.data());
    b.aligned = b.data.data() + (64 - address % 64) % 64;
    b.scales.resize(count);
    b.sums.resize(count);
    b.offsets.resize(count);
  }
}

cpu::Activations ActivationSet::view(cpu::ActivationFormat format, int groups) const {
  Buffer& b = m_buffers[static_cast<std::size_t>(format)];
  return {format,       groups,          cpu::activationRowBytes(format, groups),
          b.aligned,    b.scales.data(), b.offsets.data(),
          b.sums.data()};
}

std::size_t ActivationSet::bytes() const {
  std::size_t total = 0;
  for (const Buffer& b : m_buffers) {
    total += b.data.size() + (b.scales.size() + b.sums.size() + b.offsets.size()) * 4;
  }
  return total;
}

namespace {

void resizePrepared(PreparedRows& prepared, unsigned formats, int outliers, int rows, int groups) {
  prepared.rows.resize(formats, rows, groups);
  if (outliers == 0) return;
  prepared.outliers.resize(1U << static_cast<unsigned>(cpu::ActivationFormat::kF32), rows,
                           (outliers + cpu::kGroup - 1) / cpu::kGroup);
}

}  // namespace

void CpuWorkspace::resize(const ModelConfig& c, unsigned formats, int outliers, int rowCount,
                          int threadCount) {
  const int widest = std::max({c.dModel, c.qDim(), c.dFfn});
  const int groups = (widest + cpu::kGroup - 1) / cpu::kGroup;
  if (threads.empty()) {
    threads.resize(static_cast<std::size_t>(threadCount));
    for (ThreadWorkspace& t : threads) {
      resizePrepared(t.prepared, formats, outliers, 2, groups);
      t.row.resize(static_cast<std::size_t>(widest));
      if (outliers > 0) t.part.resize(static_cast<std::size_t>(widest));
      t.panel.resize(static_cast<std::size_t>(groups) * cpu::kGroup * 2 * cpu::kTileRows);
      t.attention.resize(cpu::attentionScratchFloats(c.headDim));
    }
  }
  if (rowCount <= rows) return;
  rows = rowCount;
  const auto n = static_cast<std::size_t>(rowCount);
  x.resize(n * c.dModel);
  q.resize(n * c.qDim());
  k.resize(n * c.kvDim());
  v.resize(n * c.kvDim());
  attention.resize(n * c.qDim());
  gate.resize(n * c.dFfn);
  up.resize(n * c.dFfn);
  cosines.resize(n * (c.rope.dims));
  sines.resize(n * (c.rope.dims));
  resizePrepared(prepared, formats, outliers, rowCount, groups);
}

std::size_t CpuWorkspace::bytes() const {
  std::size_t total = prepared.rows.bytes() + prepared.outliers.bytes();
  for (const std::vector<float>* values :
       {&x, &q, &k, &v, &attention, &gate, &up, &cosines, &sines, &partials}) {
    total += values->capacity() * sizeof(float);
  }
  for (const ThreadWorkspace& t : threads) {
    total += t.prepared.rows.bytes() + t.prepared.outliers.bytes() +
             (t.row.capacity() + t.part.capacity() + t.panel.capacity() + t.attention.capacity()) *
                 sizeof(float);
  }
  return total;
}

}  // namespace vitrine::engine

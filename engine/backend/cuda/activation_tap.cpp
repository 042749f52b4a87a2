#include "engine/backend/cuda/activation_tap.h"

namespace vitrine::engine::cuda {

namespace gpu = kernels::cuda;

void ActivationTap::observe(ActivationObserver* observer) {
  m_observer = observer;
  if (observer != nullptr) return;
  m_device = {};
  m_host = {};
}

std::size_t ActivationTap::missingBytes(int rows, int width) const {
  const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  return values > m_device.size() ? values * sizeof(float) : 0;
}

void ActivationTap::reserve(int rows, int width) {
  if (missingBytes(rows, width) == 0) return;
  const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(width);
  m_device = {};
  m_host = {};
  gpu::PinnedBuffer<float> host(values);
  m_device = gpu::DeviceBuffer<float>(values);
  m_host = std::move(host);
}

gpu::Rows ActivationTap::rows(int stride) const {
  gpu::Rows rows;
  rows.values = m_device.data();
  rows.stride = stride;
  return rows;
}

template <typename Show>
void ActivationTap::bring(int rows, int stride, int width, const Show& show) {
  const auto step = static_cast<std::size_t>(stride);
  gpu::copyToHost(m_stream, m_host.data(), m_device.data(),
                  static_cast<std::size_t>(rows) * step * sizeof(float));
  gpu::check(cudaStreamSynchronize(m_stream), "bringing rows to the host");
  for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
    show(std::span<const float>(m_host.data() + r * step, static_cast<std::size_t>(width)));
  }
}

void ActivationTap::showRows(int site, int rows, int stride, int width) {
  bring(rows, stride, width,
        [&](std::span<const float> values) { m_observer->row(site, values, 0); });
}

void ActivationTap::showKeys(int layer, int rows, int width) {
  bring(rows, width, width,
        [&](std::span<const float> values) { m_observer->keys(layer, values, 0); });
}

}  // namespace vitrine::engine::cuda

#include <limits>
#include <stdexcept>

#include "kernels/reference/reference.h"
#include "tests/kernels/cuda_attention.h"

namespace vitrine::test {

namespace cuda = kernels::cuda;
namespace ref = kernels::reference;

namespace {

/// The blocks of all sequences as they lie in memory, filled by the reference's append.
std::vector<std::byte> blocksOf(const AttentionScene& scene, const DeviceCache& cache) {
  std::vector<std::byte> bytes(cache.blockBytes * static_cast<std::size_t>(scene.nBlocks),
                               std::byte{0xFF});
  const kernels::KvLayerView view = cache.hostView(bytes.data());
  const auto width = static_cast<std::size_t>(scene.nKvHeads) * scene.headDim;
  for (std::size_t s = 0; s < scene.k.size(); ++s) {
    ref::kvAppend(view, scene.tables[s].data(), 0, scene.k[s].data(), scene.v[s].data(),
                  static_cast<int>(scene.k[s].size() / width));
  }
  return bytes;
}

AttentionScene sceneOf(const AttentionInput& in) {
  AttentionScene scene;
  scene.nHeads = in.nHeads;
  scene.nKvHeads = in.nKvHeads;
  scene.headDim = in.headDim;
  scene.blockSize = in.blockSize;
  scene.int8 = in.int8;
  scene.scale = in.scale;
  scene.softcap = in.softcap;
  scene.window = in.window;
  scene.k = {in.k};
  scene.v = {in.v};
  scene.tables = {in.blockTable};
  scene.nBlocks = in.nBlocks;
  for (int r = 0; r < in.rows; ++r) scene.positions.push_back(in.length - in.rows + r);
  scene.sequences.assign(static_cast<std::size_t>(in.rows), 0);
  scene.q = in.q;
  return scene;
}

kernels::KvElement elementOf(const AttentionScene& scene) {
  return scene.int8 ? kernels::KvElement::kInt8 : kernels::KvElement::kFp16;
}

}  // namespace

Floats referenceAttention(const AttentionScene& scene) {
  const DeviceCache layout(elementOf(scene), scene.blockSize, scene.nKvHeads, scene.headDim, 1);
  std::vector<std::byte> bytes = blocksOf(scene, layout);
  Floats y(scene.q.size(), 0.0F);
  for (int r = 0; r < scene.rows(); ++r) {
    if (scene.positions[r] < 0) continue;
    kernels::AttentionParams params;
    params.rows = 1;
    params.firstPosition = scene.positions[r];
    params.nHeads = scene.nHeads;
    params.scale = scene.scale;
    params.softcap = scene.softcap;
    params.window = scene.window;
    params.blockTable = scene.tables[scene.sequences[r]].data();
    const std::ptrdiff_t first = static_cast<std::ptrdiff_t>(r) * scene.width();
    ref::attention(scene.q.data() + first, layout.hostView(bytes.data()), y.data() + first, params);
  }
  return y;
}

DeviceAttention::DeviceAttention(const AttentionScene& scene, cuda::RowType type)
    : m_scene(scene),
      m_type(type),
      m_cache(elementOf(scene), scene.blockSize, scene.nKvHeads, scene.headDim, scene.nBlocks) {
  m_cache.fill(blocksOf(scene, m_cache));
  // Queries as they lie in a step: keys and values of the row follow them.
  params.heads = {scene.nHeads, scene.nKvHeads, scene.headDim};
  params.qStride = params.heads.qkvDim();
  Floats qkv(static_cast<std::size_t>(scene.rows()) * params.qStride,
             std::numeric_limits<float>::quiet_NaN());
  for (int r = 0; r < scene.rows(); ++r) {
    std::copy_n(scene.q.begin() + static_cast<std::ptrdiff_t>(r) * scene.width(), scene.width(),
                qkv.begin() + static_cast<std::ptrdiff_t>(r) * params.qStride);
  }
  m_q = onDevice(qkv);
  params.q = m_q.data();
  params.scale = scene.scale;
  params.softcap = scene.softcap;
  params.window = scene.window;
  params.step = m_cache.step(scene.positions, scene.sequences, scene.tables);
  params.kv = m_cache.layer;
}

Floats DeviceAttention::result(const DeviceRows& y) const {
  const Floats all = y.values();
  Floats values;
  for (int r = 0; r < y.rows; ++r) {
    const auto row = all.begin() + static_cast<std::ptrdiff_t>(r) * y.view.stride;
    values.insert(values.end(), row, row + m_scene.width());
    for (auto padding = row + m_scene.width(); padding != row + y.view.stride; ++padding) {
      if (*padding != 0.0F) throw std::logic_error("a column behind the heads is not zero");
    }
  }
  return values;
}

Floats DeviceAttention::decode(int splits) {
  const DeviceRows y(m_type, m_scene.rows(), m_scene.width());
  params.y = y.view;
  const auto partials =
      filled<std::byte>(cuda::decodePartialBytes(params.heads, m_scene.rows(), splits));
  cuda::decodeAttention(testStream(), params, splits, partials.data());
  return result(y);
}

Floats DeviceAttention::prefill(int chunk) {
  const DeviceRows y(m_type, m_scene.rows(), m_scene.width());
  params.y = y.view;
  for (int row = 0; row < m_scene.rows(); row += chunk) {
    cuda::prefillAttention(testStream(), params, row, std::min(chunk, m_scene.rows() - row),
                           m_scene.positions[row]);
  }
  return result(y);
}

void addCudaAttentionOps(OpBackend& ops) {
  ops.attention = [](const AttentionInput& in) {
    const AttentionScene scene = sceneOf(in);
    return DeviceAttention(scene).prefill(in.rows);
  };
  ops.attentionTolerance = 1e-5;
  ops.int8AttentionTolerance = 1e-5;
}

OpBackend cudaDecodeOps() {
  OpBackend ops;
  ops.name = "cuda decode";
  addCudaAttentionOps(ops);
  ops.attention = [](const AttentionInput& in) {
    const AttentionScene scene = sceneOf(in);
    return DeviceAttention(scene).decode(in.length % 3 + 1);
  };
  return ops;
}

}  // namespace vitrine::test

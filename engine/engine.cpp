#include "engine/engine.h"

#include "engine/schedule/engine_loop.h"

namespace vitrine::engine {

struct Engine::Impl {
  EngineLoop loop;
};

Engine::Engine(EventListener listener) : m_impl(new Impl{EngineLoop(std::move(listener))}) {}
Engine::~Engine() = default;

RequestId Engine::load(std::filesystem::path path, EngineConfig config) {
  return m_impl->loop.load(std::move(path), std::move(config));
}
RequestId Engine::reconfigure(EngineConfig config) {
  return m_impl->loop.reconfigure(std::move(config));
}
void Engine::unload() {
  m_impl->loop.unload();
}
RequestId Engine::generate(GenerateRequest request) {
  return m_impl->loop.generate(std::move(request));
}
std::vector<RequestId> Engine::generateTogether(std::vector<GenerateRequest> requests) {
  return m_impl->loop.generateTogether(std::move(requests));
}
RequestId Engine::forecast(GenerateRequest request) {
  return m_impl->loop.forecast(std::move(request));
}
RequestId Engine::verifyCache(GenerateRequest request) {
  return m_impl->loop.verifyCache(std::move(request));
}
void Engine::cancel(RequestId id) {
  m_impl->loop.cancel(id);
}
RequestId Engine::inspectBlock(BlockId block) {
  return m_impl->loop.inspectBlock(block);
}
void Engine::forget(std::string conversation) {
  m_impl->loop.forget(std::move(conversation));
}
void Engine::release(std::string conversation) {
  m_impl->loop.forget(std::move(conversation), false);
}
void Engine::clearArchive() {
  m_impl->loop.clearArchive();
}
void Engine::clearCache() {
  m_impl->loop.clearCache();
}
std::shared_ptr<const EngineSnapshot> Engine::snapshot() const {
  return m_impl->loop.snapshot();
}
std::shared_ptr<const Model> Engine::model() const {
  return m_impl->loop.model();
}

}  // namespace vitrine::engine

#include "app/measure/mode_comparison.h"

#include <QMetaObject>
#include <algorithm>
#include <span>
#include <utility>

#include "engine/template/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::app {
namespace {

using namespace engine;

constexpr int kWindow = 512;      // as the command line program's perplexity
constexpr int kStep = 64;         // tokens between two looks at the stop button
constexpr double kPacking = 0.3;  // share of the progress bar for making the backends

Result<std::vector<TokenId>> tokensOf(const ComparisonRequest& request) {
  const Tokenizer& tokenizer = request.model->tokenizer();
  std::vector<TokenId> tokens;
  if (request.messages.empty()) {
    tokens = tokenizer.encode(request.text);
  } else {
    VITRINE_ASSIGN(const auto pieces, request.model->chatTemplate().render(request.messages));
    tokens = tokenizer.encode(pieces, request.messages);
  }
  if (tokens.size() > ModeComparison::kMostTokens) tokens.resize(ModeComparison::kMostTokens);
  return tokens;
}

Result<EvaluationReport> compare(const ComparisonRequest& request,
                                 const std::function<void(double)>& progress,
                                 const std::stop_token& stop) {
  VITRINE_ASSIGN(const std::vector<TokenId> tokens, tokensOf(request));
  const auto make = [&](const EngineConfig& config, double from) {
    return makeBackend(
        config.backend, request.model, config.backendOptions(),
        [&, from](const std::string&, double done) { progress(from + done * kPacking / 2); }, stop);
  };
  VITRINE_ASSIGN(const auto reference, make(request.reference, 0));
  VITRINE_ASSIGN(const auto backend, make(request.config, kPacking / 2));
  const ModelConfig& model = request.model->config();
  EvaluationOptions options;
  options.context = std::min(kWindow, model.contextLength);
  options.chunk = kStep;
  options.kv = request.config.cache.type;
  options.referenceKv = request.reference.cache.type;
  const Tokenizer& tokenizer = request.model->tokenizer();
  if (tokenizer.addsBos()) options.bos = tokenizer.bos();
  return evaluate(
      *backend, reference.get(), model, tokens, options,
      [&](const std::string&, double done) { progress(kPacking + (1 - kPacking) * done); }, stop);
}

}  // namespace

ModeComparison::ModeComparison(QObject* parent) : QObject(parent) {}

ModeComparison::~ModeComparison() = default;

void ModeComparison::start(ComparisonRequest request) {
  m_running = true;
  m_thread = std::jthread([this, request = std::move(request)](std::stop_token stop) {
    run(request, std::move(stop));
  });
}

void ModeComparison::cancel() {
  m_thread.request_stop();
}

// On the thread. What it posts dies with this object, which outlives the thread.
void ModeComparison::run(const ComparisonRequest& request, std::stop_token stop) {
  int shown = -1;
  const auto progress = [&](double fraction) {
    const int percent = static_cast<int>(fraction * 100);
    if (percent == std::exchange(shown, percent)) return;
    m_mailbox.post([this, fraction] { emit progressed(fraction); });
  };
  const auto report = compare(request, progress, stop);
  m_mailbox.post([this, report] {
    m_running = false;
    if (report) {
      emit finished(*report);
    } else {
      emit failed(report.error());
    }
  });
}

}  // namespace vitrine::app

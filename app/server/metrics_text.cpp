#include "app/server/metrics_text.h"

#include <string_view>

namespace vitrine::app {
namespace {

// A label's value: backslash, quote and newline are escaped.
std::string labelled(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

class Page {
 public:
  explicit Page(const std::string& model)
      : m_label(fmt::format("model_name=\"{}\"", labelled(model))) {}

  void head(std::string_view name, std::string_view type, std::string_view help) {
    m_text += fmt::format("# HELP vitrine:{} {}\n# TYPE vitrine:{} {}\n", name, help, name, type);
  }
  void value(std::string_view name, double number, const std::string& more = {}) {
    m_text += fmt::format("vitrine:{}{{{}{}}} {}\n", name, m_label, more, number);
  }
  void single(std::string_view name, std::string_view type, std::string_view help, double number) {
    head(name, type, help);
    value(name, number);
  }
  void histogram(std::string_view name, std::string_view help,
                 const EventRouter::Histogram& histogram) {
    head(name, "histogram", help);
    std::uint64_t sofar = 0;
    for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
      sofar += histogram.counts[i];
      const std::string bound =
          i < histogram.bounds.size() ? fmt::format("{}", histogram.bounds[i]) : "+Inf";
      value(fmt::format("{}_bucket", name), static_cast<double>(sofar),
            fmt::format(",le=\"{}\"", bound));
    }
    value(fmt::format("{}_count", name), static_cast<double>(sofar));
    value(fmt::format("{}_sum", name), histogram.sum);
  }
  std::string take() { return std::move(m_text); }

 private:
  std::string m_label, m_text;
};

}  // namespace

std::string metricsText(const engine::EngineSnapshot& s, const EventRouter::Totals& totals,
                        const std::string& model) {
  Page page(model);
  page.single("num_requests_running", "gauge", "Sequences in the running batch.",
              s.runningSequences);
  page.single("num_requests_waiting", "gauge", "Sequences that wait for a place.",
              s.waitingSequences);
  const int blocks = s.blocksFree + s.blocksCached + s.blocksUsed;
  page.single("kv_cache_usage_perc", "gauge", "Share of the KV blocks in use by sequences, 0 to 1.",
              blocks > 0 ? static_cast<double>(s.blocksUsed) / blocks : 0);
  page.single("kv_cache_blocks_total", "gauge", "KV blocks of the pool.", blocks);
  page.single("kv_cache_blocks_cached", "gauge", "KV blocks kept for reuse.", s.blocksCached);
  page.single("prefix_cache_queries_total", "counter", "Prompt tokens looked up in the cache.",
              static_cast<double>(s.prefixQueries));
  page.single("prefix_cache_hits_total", "counter", "Prompt tokens found in the cache.",
              static_cast<double>(s.prefixHits));
  page.single("prompt_tokens_total", "counter", "Prompt tokens since the start.",
              static_cast<double>(s.promptTokens));
  page.single("generation_tokens_total", "counter", "Generated tokens since the start.",
              static_cast<double>(s.generatedTokens));
  page.head("request_success_total", "counter", "Turns that ended, by reason.");
  for (const auto& [reason, count] : totals.finished) {
    page.value("request_success_total", static_cast<double>(count),
               fmt::format(",finished_reason=\"{}\"", reason));
  }
  page.single("request_failure_total", "counter", "Turns that failed.",
              static_cast<double>(totals.failed));
  page.histogram("time_to_first_token_seconds", "From the request to the first token.",
                 totals.ttft);
  page.histogram("time_per_output_token_seconds", "Mean gap between the tokens of a turn.",
                 totals.tpot);
  page.histogram("e2e_request_latency_seconds", "From the request to the last token.",
                 totals.endToEnd);
  return page.take();
}

}  // namespace vitrine::app

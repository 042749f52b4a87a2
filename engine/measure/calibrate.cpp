#include "engine/measure/calibrate.h"

#include <algorithm>
#include <bit>
#include <ctime>
#include <numeric>

#include "engine/base/check.h"
#include "engine/tokenizer/tokenizer.h"

namespace vitrine::engine {
namespace {

constexpr int kBlockSize = 16;

/// Largest magnitudes as bits: their order is that of the numbers, and NaN is the largest, so that
/// one is not lost in the next comparison.
void growMaxima(std::vector<std::uint32_t>& maxima, std::span<const float> values) {
  VITRINE_CHECK(maxima.size() == values.size(), "a row has the width of its site");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFFU;
    maxima[i] = std::max(maxima[i], magnitude);
  }
}

/// Gathers what is seen, one set of sums a thread.
class Collector final : public ActivationObserver {
 public:
  Collector(const ModelConfig& config, int threads)
      : m_config(config), m_sums(static_cast<std::size_t>(std::max(threads, 1))) {
    for (Sums& sums : m_sums) {
      sums.sites.resize(static_cast<std::size_t>(siteCount(config.nLayers)));
      for (int site = 0; site < siteCount(config.nLayers); ++site) {
        const int width = widthOf(config, inputOfSite(site, config.nLayers));
        sums.sites[static_cast<std::size_t>(site)].maxima.resize(static_cast<std::size_t>(width));
      }
      sums.keys.assign(static_cast<std::size_t>(config.nLayers),
                       std::vector<std::uint32_t>(static_cast<std::size_t>(config.kvDim())));
    }
  }

  void row(int site, std::span<const float> values, int thread) override {
    SiteSums& sums = of(thread).sites[static_cast<std::size_t>(site)];
    growMaxima(sums.maxima, values);
    sums.histogram.add(values);
    double squares = 0.0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    sums.squares += squares;
  }

  void keys(int layer, std::span<const float> values, int thread) override {
    growMaxima(of(thread).keys[static_cast<std::size_t>(layer)], values);
  }

  /// Everything into the profile.
  void finish(CalibrationProfile& profile) {
    Sums& all = m_sums.front();
    for (const Sums& sums : std::span(m_sums).subspan(1)) {
      for (std::size_t i = 0; i < all.sites.size(); ++i) {
        grow(all.sites[i].maxima, sums.sites[i].maxima);
        all.sites[i].histogram.add(sums.sites[i].histogram);
        all.sites[i].squares += sums.sites[i].squares;
      }
      for (std::size_t i = 0; i < all.keys.size(); ++i) grow(all.keys[i], sums.keys[i]);
    }
    for (const SiteSums& site : all.sites) {
      profile.sites.push_back({floats(site.maxima), site.histogram, site.squares});
    }
    for (const auto& keys : all.keys) profile.keyMax.push_back(floats(keys));
  }

 private:
  struct SiteSums {
    std::vector<std::uint32_t> maxima;  // bits of |x|
    MagnitudeHistogram histogram;
    double squares = 0.0;
  };
  struct Sums {
    std::vector<SiteSums> sites;
    std::vector<std::vector<std::uint32_t>> keys;
  };

  Sums& of(int thread) {
    VITRINE_CHECK(thread >= 0 && static_cast<std::size_t>(thread) < m_sums.size(),
                  "a backend shows rows on the threads that it names");
    return m_sums[static_cast<std::size_t>(thread)];
  }
  static void grow(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
  }
  static std::vector<float> floats(const std::vector<std::uint32_t>& bits) {
    std::vector<float> values;
    values.reserve(bits.size());
    for (const std::uint32_t each : bits) values.push_back(std::bit_cast<float>(each));
    return values;
  }

  const ModelConfig& m_config;
  std::vector<Sums> m_sums;
};

/// Shows a backend's rows to an observer for as long as this lives.
class Observing {
 public:
  Observing(Backend& backend, ActivationObserver& observer) : m_backend(backend) {
    m_backend.observe(&observer);
  }
  ~Observing() { m_backend.observe(nullptr); }
  Observing(const Observing&) = delete;
  Observing& operator=(const Observing&) = delete;

 private:
  Backend& m_backend;
};

/// The windows of all texts, each with the model's bos in front where it wants one.
std::vector<std::vector<TokenId>> cutIntoWindows(std::span<const CalibrationText> texts,
                                                 int context, const Tokenizer& tokenizer) {
  const bool wantsBos = tokenizer.addsBos() && tokenizer.bos().has_value();
  const TokenId bos = tokenizer.bos().value_or(0);
  std::vector<std::vector<TokenId>> windows;
  for (const CalibrationText& text : texts) {
    std::size_t at = 0;
    while (at < text.tokens.size()) {
      const bool addsBos = wantsBos && text.tokens[at] != bos;
      const std::size_t count =
          std::min(static_cast<std::size_t>(context - (addsBos ? 1 : 0)), text.tokens.size() - at);
      std::vector<TokenId> window(count + (addsBos ? 1 : 0), bos);
      std::copy_n(text.tokens.begin() + static_cast<std::ptrdiff_t>(at), count,
                  window.end() - static_cast<std::ptrdiff_t>(count));
      windows.push_back(std::move(window));
      at += count;
    }
  }
  return windows;
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Result<void> checkRequest(const Backend& backend, const CalibrationOptions& options) {
  const ModelConfig& config = backend.config();
  if (options.context < 2 || options.context > config.contextLength || options.chunk < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "windows of {} tokens in steps of {} are not possible; the model takes 2 to {}",
                options.context, options.chunk, config.contextLength);
  }
  if (!(options.percentile > 0.0 && options.percentile <= 100.0)) {
    return fail(ErrorCode::kInvalidArgument,
                "the percentile is {}, but must lie above 0 and be at most 100",
                options.percentile);
  }
  const WeightPrecision& precision = backend.precision();
  if (precision.activations == ActivationMode::kInt8 || precision.needsCalibration()) {
    return fail(ErrorCode::kInvalidArgument,
                "calibration needs a model with FP16 activations, without smoothing and keys per "
                "channel; what this one shows is already rounded or scaled");
  }
  return {};
}

}  // namespace

Result<CalibrationPtr> calibrate(Backend& backend, const Model& model,
                                 std::span<const CalibrationText> texts,
                                 const CalibrationOptions& options, const Progress& progress,
                                 std::stop_token stop) {
  VITRINE_TRY(checkRequest(backend, options));
  const auto windows = cutIntoWindows(texts, options.context, model.tokenizer());
  if (windows.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "there is no text to calibrate on; give one of a few thousand tokens");
  }
  const ModelConfig& config = backend.config();
  const int nBlocks = (options.context + kBlockSize - 1) / kBlockSize;
  VITRINE_TRY(backend.configureCache({KvType::kFp16, kBlockSize, nBlocks, config.nKvHeads}));
  std::vector<BlockId> table(static_cast<std::size_t>(nBlocks));
  std::iota(table.begin(), table.end(), 0);

  CalibrationProfile profile;
  profile.name = options.name;
  profile.modelFingerprint = model.fingerprint();
  profile.modelName = config.name;
  profile.kvHeads = config.nKvHeads;
  for (const CalibrationText& text : texts) profile.sources.push_back(text.name);
  profile.method = options.method;
  profile.percentile = options.percentile;
  std::size_t total = 0;
  for (const auto& window : windows) total += window.size();

  Collector collector(config, backend.info().threads);
  {
    const Observing observing(backend, collector);
    for (const auto& window : windows) {
      for (std::size_t begin = 0; begin < window.size();
           begin += static_cast<std::size_t>(options.chunk)) {
        if (stop.stop_requested()) return fail(ErrorCode::kCancelled, "calibration was stopped");
        const std::size_t count =
            std::min(window.size() - begin, static_cast<std::size_t>(options.chunk));
        BatchSequence sequence;
        sequence.tokens = std::span(window).subspan(begin, count);
        sequence.firstPosition = static_cast<int>(begin);
        sequence.blockTable = table;
        sequence.logitRows = static_cast<int>(count);  // the output's input is a site as well
        VITRINE_TRY(backend.forward({&sequence, 1}));
        profile.tokens += static_cast<std::int64_t>(count);
        if (progress) {
          progress("Calibrating", static_cast<double>(profile.tokens) / static_cast<double>(total));
        }
      }
    }
  }
  collector.finish(profile);
  profile.created = now();
  profile.id = profileId(profile);
  VITRINE_TRY(checkProfile(profile, model.fingerprint(), config));
  return std::make_shared<const CalibrationProfile>(std::move(profile));
}

}  // namespace vitrine::engine

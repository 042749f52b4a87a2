#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <sstream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "engine/base/display_text.h"
#include "engine/quant/calibration_profile.h"

// {"format": "vitrine calibration", "version": 1, "id", "name", "model": {"fingerprint", "name",
//  "kv_heads"}, "sources": […], "tokens", "method", "percentile", "created",
//  "sites": [{"name", "channel_max": […], "histogram": {"first": bin, "counts": […]},
//             "sum_of_squares"}], "key_max": [[…]]}
// A histogram's counts run from its first to its last bin that holds something.

namespace vitrine::engine {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "vitrine calibration";
constexpr std::int64_t kVersion = 1;
constexpr std::uintmax_t kMostFileBytes = std::uintmax_t{256} << 20;
constexpr std::int64_t kMostLayers = 4096, kMostKvHeads = 4096;
constexpr std::size_t kMostWidth = std::size_t{1} << 22;

std::string quoted(const std::string& text) {
  return Json(validUtf8(text)).dump();
}

/// Numbers in their shortest form that reads back as the same bits.
template <typename Range>
std::string list(const Range& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

std::string siteText(const SiteStatistics& site, const std::string& name) {
  const auto bins = site.histogram.bins();
  auto first = std::find_if(bins.begin(), bins.end(), [](std::uint64_t n) { return n != 0; });
  auto last = bins.end();
  while (last != first && *std::prev(last) == 0) --last;
  return fmt::format(
      R"({{"name":"{}","channel_max":{},"histogram":{{"first":{},"counts":{}}},"sum_of_squares":{}}})",
      name, list(site.channelMax), first == bins.end() ? 0 : first - bins.begin(),
      list(std::span(first, last)), site.sumOfSquares);
}

std::string profileText(const CalibrationProfile& p) {
  std::string text = fmt::format(
      "{{\"format\":\"{}\",\"version\":{},\n\"id\":{},\n\"name\":{},\n"
      "\"model\":{{\"fingerprint\":{},\"name\":{},\"kv_heads\":{}}},\n",
      kFormat, kVersion, quoted(p.id), quoted(p.name), quoted(p.modelFingerprint),
      quoted(p.modelName), p.kvHeads);
  std::vector<std::string> sources;
  for (const std::string& source : p.sources) sources.push_back(quoted(source));
  text += fmt::format(
      "\"sources\":{},\n\"tokens\":{},\n\"method\":\"{}\",\n\"percentile\":{},\n\"created\":{},\n",
      list(sources), p.tokens, nameOf(p.method), p.percentile, quoted(p.created));
  text += "\"sites\":[";
  for (std::size_t i = 0; i < p.sites.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    text += siteText(p.sites[i], siteName(static_cast<int>(i), p.nLayers()));
  }
  text += "],\n\"key_max\":[";
  for (std::size_t i = 0; i < p.keyMax.size(); ++i) {
    text += i == 0 ? "\n" : ",\n";
    text += list(p.keyMax[i]);
  }
  return text + "]}\n";
}

/// Takes a profile out of parsed JSON; the first problem ends it, with the place where it is.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& file) : m_file(file) {}

  template <typename... Args>
  tl::unexpected<Error> wrong(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::kInvalidFile, "{} is no calibration profile that can be used: {}",
                displayPath(m_file), fmt::format(format, std::forward<Args>(args)...));
  }

  Result<CalibrationProfile> profile(const Json& json) const {
    CalibrationProfile p;
    if (!json.is_object()) return wrong("it holds no object");
    VITRINE_ASSIGN(const std::string format, text(json, "format"));
    if (format != kFormat) return wrong("\"format\" is \"{}\"", displayText(format));
    VITRINE_ASSIGN(const std::int64_t version,
                   integer(json, "version", 0, std::numeric_limits<std::int64_t>::max()));
    if (version != kVersion) {
      return wrong("it has version {}; this program reads version {}", version, kVersion);
    }
    VITRINE_ASSIGN(p.id, text(json, "id"));
    VITRINE_ASSIGN(p.name, text(json, "name"));
    VITRINE_ASSIGN(const Json* model, member(json, "model"));
    if (!model->is_object()) return wrong("\"model\" is no object");
    VITRINE_ASSIGN(p.modelFingerprint, text(*model, "fingerprint"));
    VITRINE_ASSIGN(p.modelName, text(*model, "name"));
    VITRINE_ASSIGN(const std::int64_t kvHeads, integer(*model, "kv_heads", 1, kMostKvHeads));
    p.kvHeads = static_cast<int>(kvHeads);
    VITRINE_ASSIGN(const Json* sources, array(json, "sources"));
    for (const Json& source : *sources) {
      if (!source.is_string()) return wrong("\"sources\" holds something that is no text");
      p.sources.push_back(source.get<std::string>());
    }
    VITRINE_ASSIGN(p.tokens, integer(json, "tokens", 1, std::int64_t{1} << 53));
    VITRINE_ASSIGN(p.method, method(json));
    VITRINE_ASSIGN(p.percentile, number(json, "percentile", 100.0));
    VITRINE_ASSIGN(p.created, text(json, "created"));
    VITRINE_TRY(readSites(json, p));
    const std::string id = profileId(p);
    if (p.id != id) {
      return wrong("\"id\" is {}, but its contents have {}; it was changed or damaged",
                   displayText(p.id), id);
    }
    return p;
  }

 private:
  Result<const Json*> member(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) return wrong("\"{}\" is missing", key);
    return &*found;
  }
  Result<const Json*> array(const Json& object, const char* key) const {
    VITRINE_ASSIGN(const Json* value, member(object, key));
    if (!value->is_array()) return wrong("\"{}\" is no list", key);
    return value;
  }
  Result<std::string> text(const Json& object, const char* key) const {
    VITRINE_ASSIGN(const Json* value, member(object, key));
    if (!value->is_string()) return wrong("\"{}\" is no text", key);
    return value->get<std::string>();
  }
  Result<std::int64_t> integer(const Json& object, const char* key, std::int64_t low,
                               std::int64_t high) const {
    VITRINE_ASSIGN(const Json* value, member(object, key));
    const bool tooLarge = value->is_number_unsigned() &&
                          value->get<std::uint64_t>() > static_cast<std::uint64_t>(high);
    if (!value->is_number_integer() || tooLarge || value->get<std::int64_t>() < low ||
        value->get<std::int64_t>() > high) {
      return wrong("\"{}\" is no whole number from {} to {}", key, low, high);
    }
    return value->get<std::int64_t>();
  }
  Result<double> number(const Json& object, const char* key, double high) const {
    VITRINE_ASSIGN(const Json* value, member(object, key));
    if (!value->is_number() || !(value->get<double>() >= 0.0) || !(value->get<double>() <= high)) {
      return wrong("\"{}\" is no number from 0 to {}", key, high);
    }
    return value->get<double>();
  }
  Result<ScaleMethod> method(const Json& json) const {
    VITRINE_ASSIGN(const std::string name, text(json, "method"));
    for (const ScaleMethod m : {ScaleMethod::kMax, ScaleMethod::kPercentile, ScaleMethod::kMse}) {
      if (name == nameOf(m)) return m;
    }
    return wrong("\"method\" is \"{}\", not max, percentile or mse", displayText(name));
  }

  /// Magnitudes: finite in FP32 and not negative.
  Result<std::vector<float>> magnitudes(const Json& list, const std::string& where) const {
    if (!list.is_array() || list.empty()) return wrong("{} has no list of ranges", where);
    if (list.size() > kMostWidth) return wrong("{} has {} columns", where, list.size());
    std::vector<float> values;
    values.reserve(list.size());
    for (const Json& each : list) {
      const double value = each.is_number() ? each.get<double>() : -1.0;
      if (!(value >= 0.0) || value > static_cast<double>(std::numeric_limits<float>::max())) {
        return wrong("range {} of {} is no number from 0 on", values.size(), where);
      }
      values.push_back(static_cast<float>(value));
    }
    return values;
  }

  Result<MagnitudeHistogram> histogram(const Json& site, const std::string& where) const {
    MagnitudeHistogram histogram;
    VITRINE_ASSIGN(const Json* json, member(site, "histogram"));
    if (!json->is_object()) return wrong("the histogram of {} is no object", where);
    VITRINE_ASSIGN(const std::int64_t first,
                   integer(*json, "first", 0, MagnitudeHistogram::kBins - 1));
    VITRINE_ASSIGN(const Json* counts, array(*json, "counts"));
    const auto room = static_cast<std::size_t>(MagnitudeHistogram::kBins - first);
    if (counts->size() > room) {
      return wrong("the histogram of {} has {} bins from bin {} on", where, counts->size(), first);
    }
    auto bin = histogram.bins().begin() + static_cast<std::ptrdiff_t>(first);
    for (const Json& count : *counts) {
      if (!count.is_number_unsigned() || count.get<std::uint64_t>() >> 53 != 0) {
        return wrong("the histogram of {} holds a count that is no whole number", where);
      }
      *bin++ = count.get<std::uint64_t>();
    }
    return histogram;
  }

  Result<void> readSites(const Json& json, CalibrationProfile& p) const {
    VITRINE_ASSIGN(const Json* keys, array(json, "key_max"));
    VITRINE_ASSIGN(const Json* sites, array(json, "sites"));
    const auto nLayers = static_cast<std::int64_t>(keys->size());
    if (nLayers < 1 || nLayers > kMostLayers) return wrong("it has {} layers", nLayers);
    const auto nSites = static_cast<std::size_t>(siteCount(static_cast<int>(nLayers)));
    if (sites->size() != nSites) {
      return wrong("it has {} sites, but {} layers need {}", sites->size(), nLayers, nSites);
    }
    for (const Json& layer : *keys) {
      VITRINE_ASSIGN(auto values,
                     magnitudes(layer, fmt::format("\"key_max\" of layer {}", p.keyMax.size())));
      if (!p.keyMax.empty() && values.size() != p.keyMax.front().size()) {
        return wrong("\"key_max\" differs in size between layers");
      }
      p.keyMax.push_back(std::move(values));
    }
    for (const Json& site : *sites) {
      const auto index = static_cast<int>(p.sites.size());
      const std::string where = siteName(index, p.nLayers());
      if (!site.is_object()) return wrong("{} is no object", where);
      VITRINE_ASSIGN(const std::string name, text(site, "name"));
      if (name != where) return wrong("site {} is {}, not {}", index, displayText(name), where);
      SiteStatistics statistics;
      VITRINE_ASSIGN(const Json* channels, member(site, "channel_max"));
      VITRINE_ASSIGN(statistics.channelMax, magnitudes(*channels, where));
      VITRINE_ASSIGN(statistics.histogram, histogram(site, where));
      VITRINE_ASSIGN(statistics.sumOfSquares,
                     number(site, "sum_of_squares", std::numeric_limits<double>::max()));
      p.sites.push_back(std::move(statistics));
    }
    return {};
  }

  const std::filesystem::path& m_file;
};

}  // namespace

Result<void> saveProfile(const CalibrationProfile& profile, const std::filesystem::path& file) {
  // Beside the file under a name of its own, then renamed: whole or not at all.
  std::filesystem::path temporary = file;
  temporary += fmt::format(".{}.part", getpid());
  std::error_code error;
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << profileText(profile);
  out.close();
  if (out) std::filesystem::rename(temporary, file, error);
  if (!out || error) {
    std::filesystem::remove(temporary, error);
    return fail(ErrorCode::kIo,
                "cannot write the calibration profile {}; check that its folder is there, may be "
                "written to and has room",
                displayPath(file));
  }
  return {};
}

Result<CalibrationPtr> loadProfile(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return fail(ErrorCode::kNotFound, "there is no calibration profile {}", displayPath(file));
  }
  const std::uintmax_t bytes = std::filesystem::file_size(file, error);
  const Reader reader(file);
  if (!error && bytes > kMostFileBytes) {
    return reader.wrong("it has {} MiB; at most {} are read", bytes >> 20, kMostFileBytes >> 20);
  }
  try {
    std::string text;
    std::ifstream in(file, std::ios::binary);
    if (!error && in) {
      text.resize(static_cast<std::size_t>(bytes));
      in.read(text.data(), static_cast<std::streamsize>(text.size()));
    }
    if (error || !in) return fail(ErrorCode::kIo, "cannot read {}", displayPath(file));
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded()) return reader.wrong("it is no JSON, or ends too early");
    text = {};
    VITRINE_ASSIGN(CalibrationProfile profile, reader.profile(json));
    return std::make_shared<const CalibrationProfile>(std::move(profile));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kOutOfMemory, "no memory to read the calibration profile {}",
                displayPath(file));
  }
}

}  // namespace vitrine::engine

#include "app/lab/lab_json.h"
#include "engine/quant/precision_text.h"

#include <cmath>

namespace vitrine::app::lab {
namespace {

Json toJson(const Figure& figure) {
  return {{"label", figure.label},   {"unit", figure.unit},     {"median", figure.value.median},
          {"min", figure.value.min}, {"max", figure.value.max}, {"repeats", figure.value.repeats}};
}

Json toJson(const Series& series) {
  Json json = {{"id", series.id},     {"label", series.label},       {"x", series.x},
               {"y", series.y},       {"dashed", series.dashed},     {"colour", series.colour},
               {"mark", series.mark}, {"mark_text", series.markText}};
  return json;
}

Json toJson(const Chart& chart) {
  Json series = Json::array();
  for (const Series& each : chart.series) series.push_back(toJson(each));
  return {{"id", chart.id},
          {"title", chart.title},
          {"x_label", chart.xLabel},
          {"y_label", chart.yLabel},
          {"log_x", chart.logX},
          {"log_y", chart.logY},
          {"series", std::move(series)}};
}

Json toJson(const Recommendation& recommendation) {
  Json json = {{"id", recommendation.id},
               {"title", recommendation.title},
               {"choice", recommendation.choice},
               {"figures", recommendation.figures},
               {"rule", recommendation.rule}};
  if (recommendation.choice.empty()) {
    json["missing"] = recommendation.missing;
  } else {
    json["configuration"] = lab::toJson(recommendation.config);
  }
  return json;
}

std::vector<double> numbersFrom(const Json& json) {
  std::vector<double> numbers;
  for (const Json& each : json) numbers.push_back(each.is_number() ? each.get<double>() : NAN);
  return numbers;
}

Series seriesFrom(const Json& json) {
  Series series;
  series.id = json.at("id").get<std::string>();
  series.label = json.at("label").get<std::string>();
  series.x = numbersFrom(json.at("x"));
  series.y = numbersFrom(json.at("y"));
  series.y.resize(series.x.size(), NAN);
  series.dashed = json.at("dashed").get<bool>();
  series.colour = json.at("colour").get<int>();
  series.mark = json.at("mark").get<int>();
  if (series.mark >= static_cast<int>(series.x.size())) series.mark = -1;
  series.markText = json.at("mark_text").get<std::string>();
  return series;
}

Chart chartFrom(const Json& json) {
  Chart chart;
  chart.id = json.at("id").get<std::string>();
  chart.title = json.at("title").get<std::string>();
  chart.xLabel = json.at("x_label").get<std::string>();
  chart.yLabel = json.at("y_label").get<std::string>();
  chart.logX = json.at("log_x").get<bool>();
  chart.logY = json.at("log_y").get<bool>();
  for (const Json& each : json.at("series")) chart.series.push_back(seriesFrom(each));
  return chart;
}

}  // namespace

Json toJson(const engine::EngineConfig& config) {
  return {{"backend", engine::nameOf(config.backend)},
          {"threads", config.threads},
          {"weights", engine::nameOf(config.precision.weights)},
          {"activations", engine::nameOf(config.precision.activations)},
          {"precision", engine::precisionDetails(config.precision)},
          {"group_size", config.precision.groupSize},
          {"kv_heads", config.kvHeads},
          {"kv", engine::nameOf(config.cache.type)},
          {"kv_cache", config.cache.enabled},
          {"reuse", config.cache.reuse},
          {"kv_layout", engine::nameOf(config.cache.layout)},
          {"block_size", config.cache.blockSize},
          {"kv_budget_bytes", config.cache.budgetBytes},
          {"batching", engine::nameOf(config.batching)},
          {"context", config.contextTokens},
          {"prefill_chunk", config.prefillChunk},
          {"max_sequences", config.maxSequences}};
}

Json toJson(const LabRow& row) {
  Json figures = Json::object();
  for (const Figure& each : row.figures) figures[each.id] = toJson(each);
  Json charts = Json::array();
  for (const Chart& each : row.charts) charts.push_back(toJson(each));
  return {{"id", row.id},
          {"method", row.method},
          {"gain", row.gain},
          {"gain_factor", row.gainFactor},
          {"cost", row.cost},
          {"measured", row.measured},
          {"how", row.how},
          {"figures", std::move(figures)},
          {"charts", std::move(charts)},
          {"effort", nameOf(row.effort)},
          {"seconds", row.seconds},
          {"date", row.date}};
}

Json toJson(const LabReport& report) {
  const Subject& subject = report.subject;
  Json rows = Json::array();
  for (const LabRow& each : report.rows) rows.push_back(toJson(each));
  Json recommendations = Json::array();
  for (const Recommendation& each : report.recommendations) {
    recommendations.push_back(toJson(each));
  }
  return {{"program", "vitrine " VITRINE_VERSION},
          {"date", report.date},
          {"effort", nameOf(report.effort)},
          {"model",
           {{"name", subject.model},
            {"quantization", subject.quantization},
            {"fingerprint", subject.fingerprint},
            {"path", subject.path}}},
          {"machine",
           {{"processor", subject.processor},
            {"instruction_set", subject.instructionSet},
            {"threads", subject.threads},
            {"memory_bytes", subject.memoryBytes}}},
          {"backend", subject.backend},
          {"configuration", toJson(subject.config)},
          {"rows", std::move(rows)},
          {"recommendations", std::move(recommendations)}};
}

std::optional<LabRow> rowFromJson(const Json& json) {
  try {
    LabRow row;
    row.id = json.at("id").get<std::string>();
    row.method = json.at("method").get<std::string>();
    row.gain = json.at("gain").get<std::string>();
    row.gainFactor = json.at("gain_factor").get<double>();
    row.cost = json.at("cost").get<std::string>();
    row.measured = json.at("measured").get<std::string>();
    row.how = json.at("how").get<std::string>();
    row.effort = json.at("effort").get<std::string>() == "full" ? Effort::kFull : Effort::kQuick;
    row.seconds = json.at("seconds").get<double>();
    row.date = json.at("date").get<std::string>();
    for (const auto& [id, each] : json.at("figures").items()) {
      Figure figure;
      figure.id = id;
      figure.label = each.at("label").get<std::string>();
      figure.unit = each.at("unit").get<std::string>();
      figure.value = {each.at("median").get<double>(), each.at("min").get<double>(),
                      each.at("max").get<double>(), each.at("repeats").get<int>()};
      row.figures.push_back(std::move(figure));
    }
    for (const Json& each : json.at("charts")) row.charts.push_back(chartFrom(each));
    return row;
  } catch (const nlohmann::json::exception&) {  // the library's only way to say "not that shape"
    return std::nullopt;
  }
}

}  // namespace vitrine::app::lab

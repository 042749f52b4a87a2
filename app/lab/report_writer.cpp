#include "app/lab/report_writer.h"

#include <QSaveFile>

#include <spdlog/fmt/fmt.h>

#include "app/lab/experiment.h"
#include "app/lab/lab_json.h"
#include "app/text.h"

namespace vitrine::app::lab {

using engine::ErrorCode;
using engine::fail;
using engine::Result;

const char* suffixOf(ReportFormat format) {
  switch (format) {
    case ReportFormat::kJson:
      return "json";
    case ReportFormat::kMarkdown:
      return "md";
    case ReportFormat::kHtml:
      return "html";
    case ReportFormat::kPdf:
      return "pdf";
  }
  return "";
}

Result<std::string> writeReport(const LabReport& report, ReportFormat format) {
  switch (format) {
    case ReportFormat::kJson:
      return toJson(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    case ReportFormat::kMarkdown:
      return toMarkdown(report);
    case ReportFormat::kHtml:
      return toHtml(report);
    case ReportFormat::kPdf:
      return toPdf(report);
  }
  return fail(ErrorCode::kInternal, "no such format");
}

Result<void> saveReportAs(const LabReport& report, ReportFormat format,
                          const std::filesystem::path& path) {
  VITRINE_ASSIGN(const std::string bytes, writeReport(report, format));
  QSaveFile file(displayPath(path));
  if (!file.open(QIODevice::WriteOnly) ||
      file.write(bytes.data(), static_cast<qint64>(bytes.size())) < 0 || !file.commit()) {
    return fail(ErrorCode::kIo, "cannot write {}: {}", path.string(), toUtf8(file.errorString()));
  }
  return {};
}

Result<std::filesystem::path> saveReport(const LabReport& report, ReportFormat format,
                                         const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder)) {
    return fail(ErrorCode::kIo, "cannot make the folder {}: {}", folder.string(),
                error ? error.message() : "a file of that name is there");
  }
  const std::filesystem::path file = folder / (std::string("report.") + suffixOf(format));
  VITRINE_TRY(saveReportAs(report, format, file));
  return file;
}

std::string figureText(const Figure& figure) {
  const auto number = [&](double value) {
    return figure.unit == "bytes" ? bytesText(value) : numberText(value);
  };
  std::string text = number(figure.value.median);
  if (figure.unit == "×" || figure.unit == "%") {
    text += (figure.unit == "%" ? " " : "") + figure.unit;
  } else if (!figure.unit.empty() && figure.unit != "bytes") {
    text += " " + figure.unit;
  }
  if (figure.value.repeats > 1) {
    text += fmt::format(" ({} – {}, {} repeats)", number(figure.value.min),
                        number(figure.value.max), figure.value.repeats);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> aboutLines(const LabReport& report) {
  const Subject& subject = report.subject;
  return {{"Model", fmt::format("{} · {}", subject.model, subject.quantization)},
          {"Fingerprint", subject.fingerprint},
          {"Machine", fmt::format("{} · {} · {} threads · {} of memory", subject.processor,
                                  subject.instructionSet, subject.threads,
                                  bytesText(double(subject.memoryBytes)))},
          {"Configuration", subject.configurationText()},
          {"Date", report.date},
          {"Program", "Vitrine " VITRINE_VERSION}};
}

}  // namespace vitrine::app::lab
